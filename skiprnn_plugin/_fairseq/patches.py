"""Workarounds for fairseq bugs: for each, what goes wrong without it and when it is no longer needed.

The bugs are in fairseq 0.12.2 and ve-fairseq 0.12.3. A workaround does not change training on GPUs unless its docstring
says so.
"""

import argparse
import collections
import importlib.util
import logging
import os
import sys
import typing

import numpy as np
import omegaconf
import torch
import yaml

from ..arguments import as_option_errors
from . import backports, processes, trainer
from .registration import replace, when_imported

logger = logging.getLogger(__name__)


def apply() -> None:
    """Put every workaround in place; further calls do nothing. fairseq must have been imported."""
    allow_checkpoint_contents()
    import_plugin_once()
    processes.apply()
    validate_in_half_precision()
    reduce_metrics_with_the_criterion()
    validate_without_a_batch()  # after the two above, as it decides what they get
    bfloat16_without_tpu()
    help_with_every_option()
    copy_checkpoints_atomically()
    clip_large_gradients()
    copy_tasks()
    check_models()
    count_ctc_lengths()
    check_ctc()
    ignore_language_tags()
    generate_as_the_model()
    when_imported("fairseq.trainer", trainer.apply)  # not imported here, because that takes long
    if backports.are_needed():
        backports.load_tasks_from_checkpoints()
        backports.evaluate_transformers()
        when_imported("fairseq.trainer", backports.keep_state_of_task)


def forget_previous_run() -> None:
    """Let a second run in the same process (hydra's multirun) begin without the best score of the first.

    fairseq keeps the best score in attributes of two functions. Without this workaround the second run saves no
    ``checkpoint_best.pt``, and ``--patience`` ends it early, unless it beats the first. Needed until fairseq keeps the
    score in the trainer.
    """
    for module, function in (
        ("fairseq.checkpoint_utils", "save_checkpoint"),
        ("fairseq_cli.train", "should_stop_early"),
    ):
        if module in sys.modules:
            vars(getattr(sys.modules[module], function)).pop("best", None)


def allow_checkpoint_contents() -> None:
    """Let torch's weights-only loading accept the classes that fairseq's checkpoints hold besides tensors.

    Without this workaround torch >= 2.6 refuses to resume a run of several processes (one process loads the checkpoint
    and sends it to the others), and to load checkpoints of models configured by argparse or with a metric that was
    logged as a numpy number. None of these classes can run code from the file. Needed until fairseq lists the classes
    itself.
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
    """Ignore a ``--user-dir`` that names this plugin or another copy of it, as the imported copy runs already.

    hydra imports the plugin at its start, before it reads ``common.user_dir``, which by default is only a name. Without
    this workaround fairseq asks for "something unique" if ``--user-dir`` leads to another copy, or to the same copy by
    a path that is written differently, and fails if no folder of that name exists. Needed until fairseq compares the
    folders that paths lead to.
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
                logger.info(f"--user-dir {named}: ignored, as the plugin has been imported already, from {ours}")
                return
            import_user_module(args)

        return import_unless_ours

    replace(utils, "import_user_module", wrap)


def validate_in_half_precision() -> None:
    """Let ``fairseq-validate`` run with ``--fp16``.

    Without this workaround a model in half precision gets float32 inputs, on GPUs too. Needed until fairseq-validate
    prepares batches as the trainer does.
    """
    from fairseq import utils
    from fairseq.tasks import FairseqTask

    def wrap(valid_step):
        def prepare_and_validate(self, sample, model, criterion):
            dtype = next((parameter.dtype for parameter in model.parameters()), None)
            if dtype in (torch.float16, torch.bfloat16):
                sample = utils.apply_to_sample(lambda x: x.to(dtype) if x.dtype is torch.float32 else x, sample)
            return valid_step(self, sample, model, criterion)

        return prepare_and_validate

    replace(FairseqTask, "valid_step", wrap)


def reduce_metrics_with_the_criterion() -> None:
    """Pass the logging outputs to a criterion's ``log_budget``, after the classmethod ``reduce_metrics`` of its class.

    fairseq passes the logging outputs of all processes to the criterion's class only. Without this workaround the
    criterion object would not get them, and its controller could not adjust lambda. Needed until fairseq calls a method
    of the criterion object.
    """
    from fairseq.tasks import FairseqTask

    def wrap(reduce_metrics):
        def reduce_for_class_and_criterion(self, logging_outputs, criterion):
            reduce_metrics(self, logging_outputs, criterion)
            if hasattr(criterion, "log_budget"):
                criterion.log_budget(logging_outputs)

        return reduce_for_class_and_criterion

    replace(FairseqTask, "reduce_metrics", wrap)


def validate_without_a_batch() -> None:
    """Let ``fairseq-validate`` run with fewer batches than processes.

    Without this workaround a process that gets no batch fails. Here it logs an empty output. Criterions do not expect
    one, so that empty outputs are left out before metrics are reduced. Needed until fairseq-validate prepares batches
    as the trainer does, and leaves out empty outputs.
    """
    from fairseq.tasks import FairseqTask

    def wrap_step(valid_step):
        def validate_batch(self, sample, model, criterion):
            return valid_step(self, sample, model, criterion) if sample else (0.0, 0, {})

        return validate_batch

    def wrap_reduction(reduce_metrics):
        def reduce_outputs_of_batches(self, logging_outputs, criterion):
            reduce_metrics(self, [output for output in logging_outputs if output], criterion)

        return reduce_outputs_of_batches

    replace(FairseqTask, "valid_step", wrap_step)
    replace(FairseqTask, "reduce_metrics", wrap_reduction)


def bfloat16_without_tpu() -> None:
    """Let ``--bf16`` and ``--memory-efficient-bf16`` work on machines without a TPU.

    Without this workaround these options select a TPU and fail because torch_xla is not installed, on GPUs too. Needed
    until ``parse_args_and_arch`` does not change ``tpu``.
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


def help_with_every_option() -> None:
    """Let ``--help`` list the options of the architecture, the task and the criterion that the command names.

    fairseq parses a command twice: first to learn these names, then with their options. Without this workaround
    ``--help`` ends the first time, and so lists the options of no model, task or criterion, fairseq's own included, on
    GPUs too. Needed until ``parse_args_and_arch`` leaves ``--help`` to the second time.
    """
    from fairseq import options

    def wrap(parse_args_and_arch):
        def parse_and_help_at_the_end(parser, input_args=None, *rest, **kwargs):
            def parse_without_help(arguments=None, namespace=None):
                vars(parser).pop("parse_known_args", None)  # the second parse is unchanged
                arguments = sys.argv[1:] if arguments is None else arguments
                arguments = [argument for argument in arguments if argument not in ("-h", "--help")]
                return parser.parse_known_args(arguments, namespace)

            parser.parse_known_args = parse_without_help
            return parse_args_and_arch(parser, input_args, *rest, **kwargs)

        return parse_and_help_at_the_end

    replace(options, "parse_args_and_arch", wrap)


def copy_checkpoints_atomically() -> None:
    """Keep ``checkpoint_last.pt`` and ``checkpoint_best.pt`` complete at every moment.

    Without this workaround fairseq overwrites the old file in place, and a run that is killed meanwhile can't be
    resumed. Needed until fairseq copies to a temporary name and renames the copy, as it does for the file that it
    copies from.
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
    """Let ``--clip-norm`` clip gradients whose squares are too large for float32.

    The gradients of a gate over thousands of steps sometimes reach 1e20. Without this workaround their norm is
    infinite, and training ends with "gradients are Nan/Inf". It still ends so if gradients are not clipped, because
    Adam would keep their squares, and with ``--bf16``, for which fairseq asks only for the norm. Needed until fairseq
    computes the norm in float64.
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
                norms = [torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients]
                norm = torch.linalg.vector_norm(torch.stack([n.to(norm.device) for n in norms])).to(norm)
            if gradients:
                torch._foreach_mul_(gradients, (float(max_norm) / (norm + 1e-6)).clamp_(max=1))  # as fairseq does
            return norm

        return clip

    replace(utils, "clip_grad_norm_", wrap)


def copy_tasks() -> None:
    """Let tasks, and what holds one, such as the hub and a criterion, be copied, pickled and sent to a process.

    Without this workaround ``copy`` and ``pickle`` fail with a RecursionError: before a task's state has attributes, it
    looks for them in itself. A spawned pool that is given a task never answers. Needed until ``StatefulContainer``
    raises an AttributeError in this case.
    """
    from fairseq.tasks.fairseq_task import StatefulContainer

    def wrap(__getattr__):
        def get_attribute(self, name):
            if name in ("_state", "_factories"):
                raise AttributeError(name)
            return __getattr__(self, name)

        return get_attribute

    replace(StatefulContainer, "__getattr__", wrap)


def check_models() -> None:
    """Refuse a model that can't be trained when the model is built, whatever the task: one with an engine that can't
    train it, or one that says so in ``check_before_training``.

    Without this workaround training fails in the first batch. A trained model is not refused, as such an engine may
    run it. The function that is replaced is the one that the tasks call to build a model: not all of them do so in
    ``FairseqTask.build_model``. Needed until fairseq asks a model whether it can be trained.
    """
    from fairseq import models

    def wrap(build_model):
        def build_and_check(cfg, task, from_checkpoint=False):
            model = build_model(cfg, task, from_checkpoint)
            if not from_checkpoint:
                if hasattr(model, "check_before_training"):
                    model.check_before_training()
                with as_option_errors({"engine"}):
                    for module in model.modules():
                        if hasattr(module, "check_engine"):
                            module.check_engine()
            return model

        return build_and_check

    replace(models, "build_model", wrap)


def count_ctc_lengths() -> None:
    """Let criterion ``ctc`` count the tokens and steps that it compares, not those that a sample says it has.

    The criterion leaves ends of sentences out of the targets, but the task ``speech_to_text`` counts them in
    ``target_lengths``; without this workaround torch refuses these lengths, on GPUs too. And the criterion takes
    ``src_lengths``, the number of frames, for the number of predictions, although a model that joins frames makes
    fewer. Here a model that has ``predicts_padding_mask`` gets ``padding_mask`` in place of ``src_lengths``, so that
    the criterion takes the number from the ``padding_mask`` that the model returns. Needed until the criterion does so
    itself.
    """
    from fairseq.criterions.ctc import CtcCriterion

    def wrap(forward):
        def forward_with_counted_lengths(self, model, sample, reduce=True, **kwargs):
            sample = {name: value for name, value in sample.items() if name != "target_lengths"}
            if getattr(model, "predicts_padding_mask", False):
                net_input = dict(sample["net_input"])
                steps = torch.arange(net_input["src_tokens"].shape[1], device=net_input["src_tokens"].device)
                net_input["padding_mask"] = steps >= net_input.pop("src_lengths").unsqueeze(1)
                sample["net_input"] = net_input
            return forward(self, model, sample, reduce, **kwargs)

        return forward_with_counted_lengths

    replace(CtcCriterion, "forward", wrap)


def check_ctc() -> None:
    """Let criterion ``ctc`` refuse a model with a decoder, which has ``goes_with_ctc`` False, and say at once if the
    package is missing that it needs in validation.

    Without this workaround the first fails in fairseq's code, and the second only after the first epoch is trained.
    Needed until the criterion checks both.
    """
    from fairseq.criterions.ctc import CtcCriterion

    def wrap(forward):
        def check_and_forward(self, model, sample, reduce=True, **kwargs):
            if not getattr(model, "goes_with_ctc", True):
                raise ValueError(
                    "--arch: expected an architecture that ends in _ctc for criterion ctc, got one that ends in _s2t"
                )
            if getattr(model, "predicts_padding_mask", False) and importlib.util.find_spec("editdistance") is None:
                raise ImportError(
                    "--criterion ctc: fairseq needs the package editdistance in validation: pip install editdistance, "
                    "or this plugin with its extra speech"
                )
            return forward(self, model, sample, reduce, **kwargs)

        return check_and_forward

    replace(CtcCriterion, "forward", wrap)


def ignore_language_tags() -> None:
    """Let the task ``speech_to_text`` find ``--ignore-prefix-size`` among the options of a criterion's base criterion.

    With language tags at the beginning of the targets, the task asks any criterion for this option. Without this
    workaround a criterion that does not have it itself, such as ``with_budget``, fails. Needed until criterions say
    whether they ignore a prefix.
    """
    from fairseq.tasks import FairseqTask
    from fairseq.tasks.speech_to_text import SpeechToTextTask

    def wrap(build_criterion):
        def build_with_base_options(self, args):
            if not self.data_cfg.prepend_tgt_lang_tag or "base_options" not in args:
                return build_criterion(self, args)
            options = args.base_options
            options = yaml.safe_load(options) if isinstance(options, str) else options
            if not isinstance(options, typing.Mapping) or options.get("ignore_prefix_size") != 1:
                raise ValueError(
                    "--ignore-prefix-size: expected 1, as the targets begin with a language tag, with a "
                    "--base-criterion that has this option"
                )
            return FairseqTask.build_criterion(self, args)

        return build_with_base_options

    replace(SpeechToTextTask, "build_criterion", wrap)


def generate_as_the_model() -> None:
    """Let a model say how its targets are generated, by a method ``build_generator``.

    Without this workaround ``fairseq-generate`` fails with a model without a decoder, as one for the criterion ``ctc``.
    Needed until fairseq's tasks generate the targets of such models.
    """
    from fairseq.tasks import FairseqTask

    def wrap(build_generator):
        def build_generator_of_model(self, models, args, *rest, **options):
            by_model = [hasattr(model, "build_generator") for model in models]
            if not any(by_model):
                return build_generator(self, models, args, *rest, **options)
            if not all(by_model):
                raise ValueError("--path: expected models of one kind, got some with a decoder and some without")
            if getattr(args, "score_reference", False):
                raise ValueError("--score-reference: expected models with a decoder, got one without")
            return models[0].build_generator(self)

        return build_generator_of_model

    replace(FairseqTask, "build_generator", wrap)
