"""Workarounds for fairseq bugs: for each, what goes wrong without it and what would make it unneeded.

All were found in fairseq 0.12.2 and ve-fairseq 0.12.3. Training on GPUs stays as it is, except where it says so.
"""

import argparse
import collections
import contextlib
import logging
import os
import sys
import typing

import numpy as np
import omegaconf
import torch

from ..arguments import as_option_errors
from . import processes
from .registration import replace, when_imported

logger = logging.getLogger(__name__)


def apply() -> None:
    """Put every workaround in place, once however often it is called. fairseq must have been imported."""
    allow_checkpoint_contents()
    import_plugin_once()
    processes.apply()
    validate_as_the_trainer()
    reduce_metrics_with_the_criterion()
    bfloat16_without_tpu()
    copy_checkpoints_atomically()
    clip_large_gradients()
    copy_tasks()
    check_engines_of_models()
    when_imported("fairseq.trainer", mend_trainer)  # not by fairseq itself: it takes long


def forget_previous_run() -> None:
    """Runs in one process (hydra's multirun) begin without the best score of the run before.

    fairseq keeps it as an attribute of two functions, so that a second run saves no ``checkpoint_best.pt`` and stops
    early unless it beats the first one. Needed until the trainer holds it.
    """
    for module, function in (
        ("fairseq.checkpoint_utils", "save_checkpoint"),
        ("fairseq_cli.train", "should_stop_early"),
    ):
        if module in sys.modules:
            vars(getattr(sys.modules[module], function)).pop("best", None)


def allow_checkpoint_contents() -> None:
    """torch's loading of weights only accepts what fairseq's checkpoints hold besides tensors.

    Without it torch >= 2.6 refuses to resume several processes (which pass on what one of them has loaded) and to load
    the checkpoints of models configured by argparse, and those that hold a metric logged as a numpy number. None of
    these classes runs code of the file's. Needed until fairseq lists them itself.
    """
    from fairseq.distributed.utils import _TensorPlaceholder

    allowed = [argparse.Namespace, collections.defaultdict, dict, list, int, typing.Any, _TensorPlaceholder]
    allowed += [omegaconf.DictConfig, omegaconf.ListConfig]
    allowed += [omegaconf.base.Metadata, omegaconf.base.ContainerMetadata]
    nodes = (f"{kind}Node" for kind in ("Any", "Boolean", "Bytes", "Enum", "Float", "Integer", "String"))
    allowed += [vars(omegaconf)[node] for node in nodes if node in vars(omegaconf)]  # omegaconf 2.0 has no BytesNode
    allowed += [np.ndarray, np.dtype]
    allowed += sorted({type(np.dtype(code)) for code in np.typecodes["AllInteger"] + "?efd"}, key=repr)
    for function in (np.array(0).__reduce__()[0], np.float64(0).__reduce__()[0]):  # _reconstruct and scalar
        # numpy 1 and 2 keep them in differently named modules, and so do their pickles
        allowed += [(function, f"numpy.{core}.multiarray.{function.__name__}") for core in ("core", "_core")]
    torch.serialization.add_safe_globals(allowed)


def import_plugin_once() -> None:
    """``--user-dir`` may name the plugin, or another copy of it, where it has been imported already: that one runs.

    hydra imports it at its start, before it reads ``common.user_dir``, by default a name alone. Without it fairseq asks
    for "something unique" where that is another copy, or one it finds by a path that is written differently, and fails
    where there is none. Needed until fairseq compares where paths lead.
    """
    from fairseq import utils

    ours = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    name = __package__.partition(".")[0]

    def wrap(import_user_module):
        def import_unless_ours(args):
            named = getattr(args, "user_dir", None)
            folder = named and os.path.realpath(named)
            if folder == ours:
                return
            if named and os.path.basename(os.path.abspath(named)) == name:
                logger.info(f"--user-dir {named}: the plugin that has been imported already runs, {ours}")
                return
            import_user_module(args)

        return import_unless_ours

    replace(utils, "import_user_module", wrap)


def validate_as_the_trainer() -> None:
    """``fairseq-validate`` takes fewer batches than processes, and ``--fp16``.

    Without it a process for which no batch is left fails, and a half model gets float32 inputs, both on GPUs too.
    Needed until it prepares batches as the trainer does.
    """
    from fairseq import utils
    from fairseq.tasks import FairseqTask

    def wrap(valid_step):
        def prepare_and_validate(self, sample, model, criterion):
            if not sample:
                return 0.0, 0, {}
            dtype = next((parameter.dtype for parameter in model.parameters()), None)
            if dtype in (torch.float16, torch.bfloat16):
                sample = utils.apply_to_sample(lambda x: x.to(dtype) if x.dtype is torch.float32 else x, sample)
            return valid_step(self, sample, model, criterion)

        return prepare_and_validate

    replace(FairseqTask, "valid_step", wrap)


def reduce_metrics_with_the_criterion() -> None:
    """A criterion's ``log_budget`` gets what was logged, after the classmethod ``reduce_metrics`` of its class.

    Without it a criterion never learns what all processes logged, as fairseq tells its class alone: lambda's controller
    could not adjust lambda. And a process that had no batch to validate has logged nothing, which criterions do not
    expect. Needed until fairseq calls a method of the criterion, and leaves out empty outputs.
    """
    from fairseq.tasks import FairseqTask

    def wrap(reduce_metrics):
        def reduce_for_class_and_criterion(self, logging_outputs, criterion):
            logging_outputs = [output for output in logging_outputs if output]
            reduce_metrics(self, logging_outputs, criterion)
            if hasattr(criterion, "log_budget"):
                criterion.log_budget(logging_outputs)

        return reduce_for_class_and_criterion

    replace(FairseqTask, "reduce_metrics", wrap)


def bfloat16_without_tpu() -> None:
    """``--bf16`` and ``--memory-efficient-bf16`` on the command line do not mean a TPU where there is none.

    Without it they fail for want of torch_xla, on GPUs too. Needed until ``parse_args_and_arch`` leaves ``tpu`` alone.
    """
    from fairseq import options
    from fairseq.distributed import utils

    def wrap(parse_args_and_arch):
        def parse_for_any_device(parser, input_args=None, parse_known=False, **kwargs):
            result = parse_args_and_arch(parser, input_args, parse_known, **kwargs)
            args = result[0] if parse_known else result
            given = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
            if getattr(args, "bf16", False) and not given and utils.xm is None:
                args.tpu = False
            return result

        return parse_for_any_device

    replace(options, "parse_args_and_arch", wrap)


def copy_checkpoints_atomically() -> None:
    """``checkpoint_last.pt`` and ``checkpoint_best.pt`` are whole at every moment.

    Without it fairseq copies over the old file, and a run killed meanwhile cannot resume. Needed until it copies to
    another name and renames, as it does for the file that it copies from.
    """
    from fairseq.file_io import PathManager

    def wrap(copy):
        def copy_and_rename(src_path, dst_path, overwrite=False):
            if not (overwrite and PathManager.supports_rename(dst_path)):
                return copy(src_path, dst_path, overwrite)
            temporary = f"{dst_path}.tmp"
            copied = copy(src_path, temporary, overwrite)
            if copied:
                PathManager.rename(temporary, dst_path)
            return copied

        return copy_and_rename

    replace(PathManager, "copy", wrap)


def clip_large_gradients() -> None:
    """``--clip-norm`` clips gradients whose squares do not fit float32.

    Those of a gate over thousands of steps reach 1e20 now and then; their norm came out as infinite, and training ended
    with "gradients are Nan/Inf". It still does where nothing is clipped, as Adam would keep their squares, and with
    ``--bf16``, where fairseq asks for the norm alone. Needed until fairseq computes the norm in float64.
    """
    from fairseq import utils

    def wrap(clip_grad_norm_):
        def clip(params, max_norm, aggregate_norm_fn=None):
            if max_norm <= 0 or aggregate_norm_fn is not None:
                return clip_grad_norm_(params, max_norm, aggregate_norm_fn)
            params = [params] if isinstance(params, torch.Tensor) else list(params)
            norm = clip_grad_norm_(params, 0)
            gradients = [p.grad.detach() for p in params if p is not None and p.grad is not None]
            if not torch.isfinite(norm):
                each = [torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients]
                norm = torch.linalg.vector_norm(torch.stack([n.to(norm.device) for n in each])).to(norm)
            if gradients:
                torch._foreach_mul_(gradients, (float(max_norm) / (norm + 1e-6)).clamp_(max=1))  # as fairseq does
            return norm

        return clip

    replace(utils, "clip_grad_norm_", wrap)


def copy_tasks() -> None:
    """A task, and what holds one, such as the hub and a criterion, can be copied, pickled and sent to a process.

    Without it ``copy`` and ``pickle`` fail with a RecursionError, as a task's state looks for its attributes in itself
    before it has any, and a spawned pool that is given one never answers. Needed until ``StatefulContainer`` raises an
    AttributeError then.
    """
    from fairseq.tasks.fairseq_task import StatefulContainer

    def wrap(__getattr__):
        def get_once_there(self, name):
            if name in ("_state", "_factories"):
                raise AttributeError(name)
            return __getattr__(self, name)

        return get_once_there

    replace(StatefulContainer, "__getattr__", wrap)


def check_engines_of_models() -> None:
    """A model with a module whose engine can't train it is refused when it is built, whatever the task.

    Without it training fails in the first batch. A trained model is not refused, as such an engine may well run it.
    Needed until fairseq asks a model whether it can be trained.
    """
    from fairseq.tasks import FairseqTask

    def wrap(build_model):
        def build_and_check(self, cfg, from_checkpoint=False):  # fairseq looks for these names
            model = build_model(self, cfg, from_checkpoint)
            if not from_checkpoint:
                with as_option_errors({"engine"}):
                    for module in model.modules():
                        if hasattr(module, "check_engine"):
                            module.check_engine()
            return model

        return build_and_check

    replace(FairseqTask, "build_model", wrap)


def mend_trainer() -> None:
    """``--fp16`` works on CPUs, a process with a batch too few counts the others, checkpoints hold the user's options.

    Without it fairseq looks for a GPU to keep flat gradients on (hence ``--fp16-no-flatten-grads``, which changes no
    result) and for the number 0.0 at each overflow. And in a process whose last of ``--update-freq`` batches is a
    dummy, which its shard was filled up with, the gradients of the real ones count but neither their number nor their
    logs do, on GPUs too. And as fairseq lets a task end training by its options alone, a checkpoint would hold changed
    ones, such as a lower ``--max-update``. Needed until the trainer asks for its own device, drops dummies, and asks
    the task whether to end.
    """
    from fairseq.trainer import Trainer

    def wrap_build(_build_optimizer):
        def build_on_any_device(self):
            if self.cfg.common.fp16 and not self.cuda:
                self.cfg.common.fp16_no_flatten_grads = True
            return _build_optimizer(self)

        return build_on_any_device

    def wrap_step(train_step):
        def train_step_on_any_device(self, samples, raise_oom=False):
            if not self.is_fsdp:  # whose processes must all make the same number of steps
                samples = [sample for sample in samples if sample] or samples
            if not self.cfg.common.fp16 or torch.cuda.is_available():
                return train_step(self, samples, raise_oom)
            cuda, torch.Tensor.cuda = torch.Tensor.cuda, lambda tensor, *args, **kwargs: tensor
            try:
                return train_step(self, samples, raise_oom)
            finally:
                torch.Tensor.cuda = cuda

        return train_step_on_any_device

    def wrap_state(state_dict):
        def state_dict_with_options_as_given(self):
            with getattr(self.task, "options_as_given", contextlib.nullcontext)():
                return state_dict(self)

        return state_dict_with_options_as_given

    replace(Trainer, "_build_optimizer", wrap_build)
    replace(Trainer, "state_dict", wrap_state)
    replace(Trainer, "train_step", wrap_step)
