"""What the plugin mends of fairseq: each with what goes wrong without it, and what would make it unneeded.

All were found in fairseq 0.12.2 and ve-fairseq 0.12.3. Training on GPUs stays as it is, except where it says so.
"""

import argparse
import atexit
import collections
import functools
import logging
import os
import queue
import socket
import sys
import threading
import time
import typing
import weakref

import numpy as np
import omegaconf
import torch
import torch.distributed

from . import _signals
from ._registration import when_imported

logger = logging.getLogger(__name__)

LAST_BATCH_SECONDS = 10.0  # how long the end of a process waits for a thread that reads batches
LAUNCHED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")  # set by torchrun and its like


def apply() -> None:
    """Mend fairseq, which must have been imported; once, however often it is called."""
    allow_checkpoint_contents()
    start_processes_on_cpu()
    wrap_models_on_cpu()
    wrap_trained_models_alone()
    gather_objects_of_any_size()
    validate_as_the_trainer()
    bfloat16_without_tpu()
    copy_checkpoints_atomically()
    clip_large_gradients()
    end_reading_at_exit()
    when_imported("fairseq.trainer", mend_trainer)  # not by fairseq itself: it takes long


def _replace(owner, name: str, wrap: typing.Callable) -> None:
    """Set a function of a module or a class to ``wrap(function)``, unless that has been done."""
    function = getattr(owner, name)
    if not hasattr(function, "of_skiprnn_plugin"):
        wrapped = functools.wraps(function)(wrap(function))
        wrapped.of_skiprnn_plugin = True
        static = isinstance(vars(owner)[name], staticmethod)
        setattr(owner, name, staticmethod(wrapped) if static else wrapped)


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


def start_processes_on_cpu() -> None:
    """Several processes train on CPUs: ``--distributed-world-size`` starts them, and torchrun may.

    Without it fairseq counts GPUs where it should count processes: it starts none and ends without a word (with
    ``--distributed-init-method``), fails an assertion, divides by 0 (torchrun), or trains the whole in each process
    (torchrun without ``--distributed-world-size``). Needed until ``call_main`` heeds ``--cpu``. And on GPUs too the
    process that waits for those it started passes signals on, where fairseq's would end and leave them behind.
    """
    from fairseq.distributed import utils

    def wrap(call_main):
        def call_main_on_any_device(cfg, main, **kwargs):
            training = cfg.distributed_training
            on_cpu = _on_cpu(cfg) and not training.pipeline_model_parallel
            if on_cpu:
                _plan_processes(training, utils)
            elif training.distributed_init_method is None:
                utils.infer_init_method(training)  # as call_main would
            if training.distributed_init_method is None or training.distributed_no_spawn:
                return call_main(cfg, main, **kwargs)
            with _signals.passed_on():
                if not on_cpu:
                    return call_main(cfg, main, **kwargs)
                size = training.distributed_world_size
                training.distributed_rank = None  # it is the spawned process's number
                os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // size)))
                start_method = torch.multiprocessing.get_start_method()
                torch.multiprocessing.spawn(_spawned_main, (start_method, main, cfg, kwargs), nprocs=size)

        return call_main_on_any_device

    _replace(utils, "call_main", wrap)


def _spawned_main(rank: int, start_method: str, main, cfg, kwargs) -> None:
    from fairseq.distributed.utils import distributed_main

    # Spawned processes spawn, and data workers, new ones every epoch, would take seconds to import all this again
    torch.multiprocessing.set_start_method(start_method, force=True)
    distributed_main(rank, main, cfg, kwargs)


def _on_cpu(cfg) -> bool:
    """As the trainer decides it."""
    return not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())


def _launched() -> bool:
    return all(name in os.environ for name in LAUNCHED) and int(os.environ["WORLD_SIZE"]) > 1


def _plan_processes(training, utils) -> None:
    """Fill in how the processes on CPUs find each other; one process alone needs no ``distributed_init_method``."""
    if _launched():
        training.distributed_world_size = int(os.environ["WORLD_SIZE"])
        training.distributed_rank = int(os.environ["RANK"])
        training.distributed_no_spawn = True
        training.distributed_init_method = training.distributed_init_method or "env://"
    elif training.distributed_world_size == torch.cuda.device_count() > 1 and not _world_size_given():
        logger.info("one process on CPU (the default counts GPUs; --distributed-world-size asks for more)")
        training.distributed_world_size = 1
    if training.distributed_world_size == 1 and training.distributed_init_method is None:
        return
    if training.distributed_init_method is None and int(os.environ.get("SLURM_NTASKS", 1)) > 1:
        utils._infer_slurm_init(training, None)
        if training.distributed_world_size < 1 or training.distributed_port <= 0:
            raise ValueError(
                "--distributed-port: processes on CPU that Slurm starts need a port, the same for all, and one task "
                f"per process, at least 2 on each node; got port {training.distributed_port} and "
                f"SLURM_NTASKS_PER_NODE={os.environ.get('SLURM_NTASKS_PER_NODE')}"
            )
    if training.distributed_no_spawn and training.distributed_init_method is None:
        raise ValueError(
            "--distributed-no-spawn: processes started one by one need --distributed-init-method tcp://HOST:PORT, the "
            "same for all, and --distributed-rank (or start them by torchrun, which needs no option), got neither"
        )
    if training.distributed_rank and not training.distributed_no_spawn:
        raise ValueError(
            f"--distributed-rank: on CPU one command starts all {training.distributed_world_size} processes, from rank "
            f"0 on; got {training.distributed_rank} (to start them one by one, add --distributed-no-spawn)"
        )
    if training.distributed_init_method is None:
        port = training.distributed_port if training.distributed_port > 0 else _free_port()
        training.distributed_init_method = f"tcp://localhost:{port}"
    if training.distributed_backend == "nccl":  # fairseq's default, for GPUs alone
        training.distributed_backend = "gloo"
    logger.info(f"{training.distributed_world_size} processes on CPU ({training.distributed_backend})")


def _world_size_given() -> bool:
    return any("distributed-world-size" in word.replace("_", "-") for word in sys.argv)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def check_processes() -> None:
    """Raise RuntimeError if torchrun started several processes and each is about to train by itself.

    ``fairseq-hydra-train`` decides about processes before it imports ``common.user_dir``, and so without
    ``start_processes_on_cpu``, unless it finds the installed plugin at its start.
    """
    if _launched() and not torch.distributed.is_initialized() and not torch.cuda.is_available():
        raise RuntimeError(
            f"common.user_dir: torchrun started {os.environ['WORLD_SIZE']} processes, and fairseq took each for the "
            "only one before it imported the plugin; install the plugin, or add its parent folder to PYTHONPATH"
        )


def wrap_models_on_cpu() -> None:
    """``--ddp-backend pytorch_ddp``, the default, takes models on CPUs.

    Without it fairseq names a GPU for them, which torch refuses. Needed until it leaves ``device_ids`` out.
    """
    from fairseq.models import distributed_fairseq_model

    def wrap(DistributedDataParallel):
        def on_any_device(module, device_ids=None, output_device=None, **kwargs):
            if all(parameter.device.type == "cpu" for parameter in module.parameters()):
                device_ids = output_device = None
            return DistributedDataParallel(module, device_ids=device_ids, output_device=output_device, **kwargs)

        return on_any_device

    _replace(distributed_fairseq_model, "DistributedDataParallel", wrap)


def wrap_trained_models_alone() -> None:
    """A criterion may have parameters that are not trained, as one does that has a state to be saved.

    Without it fairseq wraps it for the exchange of gradients, which ``pytorch_ddp`` refuses where there are none, on
    GPUs too. Needed until it looks whether there are any.
    """
    from fairseq import models

    def wrap(DistributedFairseqModel):
        def wrap_if_trained(args, model, process_group, device):
            if any(parameter.requires_grad for parameter in model.parameters()):
                return DistributedFairseqModel(args, model, process_group, device)
            return model.to(device)

        return wrap_if_trained

    _replace(models, "DistributedFairseqModel", wrap)


def gather_objects_of_any_size() -> None:
    """Logging outputs that cannot be summed are gathered from processes on CPUs, and whatever their size.

    Without it fairseq gathers them in a buffer on a GPU, and fails, on GPUs too, where they take more than 16 KB, as
    a batch's predictions do (unless ``--all-gather-list-size`` says more). Needed until ``all_gather_list`` asks where
    it runs and how much there is to gather.
    """
    from fairseq import utils
    from fairseq.distributed import utils as distributed_utils

    def wrap(all_gather_list):
        def all_gather_list_on_any_device(data, group=None, max_size=16384):
            if distributed_utils.use_xla():
                return all_gather_list(data, group, max_size)
            group = distributed_utils.get_global_group() if group is None else group
            gathered = [None] * distributed_utils.get_world_size(group)
            torch.distributed.all_gather_object(gathered, utils.move_to_cpu(data), group=group)
            return gathered

        return all_gather_list_on_any_device

    _replace(distributed_utils, "all_gather_list", wrap)


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

    def wrap_reduce(reduce_metrics):
        def reduce_what_was_logged(self, logging_outputs, criterion):
            return reduce_metrics(self, [output for output in logging_outputs if output], criterion)

        return reduce_what_was_logged

    _replace(FairseqTask, "valid_step", wrap)
    _replace(FairseqTask, "reduce_metrics", wrap_reduce)


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

    _replace(options, "parse_args_and_arch", wrap)


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

    _replace(PathManager, "copy", wrap)


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

    _replace(utils, "clip_grad_norm_", wrap)


def end_reading_at_exit() -> None:
    """Threads that read batches ahead end before the interpreter does.

    Such a thread may be anywhere in torch's code when its process ends, and where that gives memory back, Python cannot
    end it: with ``--num-workers 1`` one process in 50 was aborted ("terminate called without an active exception", exit
    status 134) after it had trained and saved everything. Needed until fairseq ends them, or Python 3.14, which lets
    such threads hang.
    """
    from fairseq.data import iterators

    def wrap(_create_consumer):
        reading = weakref.WeakSet()
        # Torch's own, registered before and so called later, stops workers from being ended.
        atexit.register(_end_reading, reading)

        def create_and_remember(self):
            _create_consumer(self)
            reading.add(self._consumer)

        return create_and_remember

    _replace(iterators.BufferedIterator, "_create_consumer", wrap)


def _end_reading(threads: typing.Iterable[threading.Thread]) -> None:
    """Let each end with the batch that it is at, and wait for it."""
    threads = list(threads)
    deadline = time.monotonic() + LAST_BATCH_SECONDS
    for thread in threads:
        thread._max_len = 0
    for thread in threads:
        while thread.is_alive() and time.monotonic() < deadline:
            try:
                thread._queue.get(timeout=0.01)  # it may be waiting for room
            except queue.Empty:
                pass


def mend_trainer() -> None:
    """``--fp16`` works on CPUs, and a process with a batch too few counts those that it has.

    Without it fairseq looks for a GPU to keep flat gradients on (hence ``--fp16-no-flatten-grads``, which changes no
    result) and for the number 0.0 at each overflow. And in a process whose last of ``--update-freq`` batches is a
    dummy, which its shard was filled up with, the gradients of the real ones count but neither their number nor their
    logs do, on GPUs too. Needed until the trainer asks for its own device, and drops dummies.
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

    _replace(Trainer, "_build_optimizer", wrap_build)
    _replace(Trainer, "train_step", wrap_step)
