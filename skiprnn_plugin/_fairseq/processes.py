"""Workarounds for bugs of fairseq's processes: how they start on CPUs, find each other, share data and end."""

import atexit
import contextlib
import importlib.machinery
import logging
import os
import queue
import socket
import sys
import threading
import time
import typing
import weakref

import torch
import torch.distributed

from . import signals
from .registration import replace

logger = logging.getLogger(__name__)

LAST_BATCH_SECONDS = 10.0  # how long the end of a process waits for a thread that reads batches
LAUNCHED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")  # set by torchrun and its like


def apply() -> None:
    """See :func:`.patches.apply`."""
    start_processes_on_cpu()
    wrap_models_on_cpu()
    wrap_trained_models_alone()
    gather_objects_of_any_size()
    end_reading_at_exit()


def start_processes_on_cpu() -> None:
    """Several processes train on CPUs: ``--distributed-world-size`` starts them, and torchrun may.

    Without it fairseq counts GPUs where it should count processes: it starts none and ends without a word (with
    ``--distributed-init-method``), fails an assertion, divides by 0 (torchrun), or trains the whole in each process
    (torchrun without ``--distributed-world-size``). Needed until ``call_main`` heeds ``--cpu``. And on GPUs too the
    process that waits for those it started passes signals on, where fairseq's would end and leave them behind; and they
    find the same fairseq.
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
            with signals.passed_on(), _fairseq_found_first():
                if not on_cpu:
                    return call_main(cfg, main, **kwargs)
                size = training.distributed_world_size
                training.distributed_rank = None  # it is the spawned process's number
                os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // size)))
                start_method = torch.multiprocessing.get_start_method()
                torch.multiprocessing.spawn(_spawned_main, (start_method, main, cfg, kwargs), nprocs=size)

        return call_main_on_any_device

    replace(utils, "call_main", wrap)


@contextlib.contextmanager
def _fairseq_found_first() -> typing.Iterator[None]:
    """Processes spawned meanwhile import the fairseq that this one did.

    They inherit ``sys.path``, where the folder that ``--user-dir`` lies in has come first since: it may hold a folder
    ``fairseq`` of its own.
    """
    import fairseq

    found = importlib.machinery.PathFinder.find_spec("fairseq")
    if found is None or found.origin == fairseq.__file__:  # None: it was found without sys.path, and will be again
        yield
        return
    folder = os.path.dirname(os.path.dirname(fairseq.__file__))
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


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

    replace(distributed_fairseq_model, "DistributedDataParallel", wrap)


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

    replace(models, "DistributedFairseqModel", wrap)


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

    replace(distributed_utils, "all_gather_list", wrap)


def end_reading_at_exit() -> None:
    """Threads that read batches ahead end before the interpreter does.

    Such a thread may be anywhere in torch's code when its process ends, and where that gives memory back, Python cannot
    end it: with ``--num-workers 1`` a process was aborted now and then ("terminate called without an active exception",
    exit status 134) after it had trained and saved everything. Needed until fairseq ends them, or Python 3.14, which
    lets such threads hang.
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

    replace(iterators.BufferedIterator, "_create_consumer", wrap)


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
