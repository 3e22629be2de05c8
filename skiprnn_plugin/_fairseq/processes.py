"""Workarounds for fairseq bugs in several processes: how they start on CPUs, connect, exchange data and end."""

import atexit
import contextlib
import importlib.machinery
import logging
import os
import queue
import random
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

LAST_BATCH_SECONDS = 10.0  # how long a process that ends waits for a thread that reads batches
LAUNCHED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")  # set by torchrun and similar launchers
# The environment variables by which other launchers tell a process how many tasks the job has, which of them it is, and
# the number of the job
TASKS = {
    "Slurm": ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_ID"),
    "submitit": ("SUBMITIT_LOCAL_NTASKS", "SUBMITIT_LOCAL_GLOBALID", "SUBMITIT_LOCAL_JOB_ID"),
}
PORTS = (10000, 60000)  # the first and the last port that a job may get


def apply() -> None:
    """See :func:`.patches.apply`."""
    start_processes_on_cpu()
    choose_port_of_job()
    wrap_models_on_cpu()
    wrap_trained_models_alone()
    gather_objects_of_any_size()
    end_reading_at_exit()
    end_connections_at_exit()


def start_processes_on_cpu() -> None:
    """Let several processes train on CPUs, started by ``--distributed-world-size``, torchrun, Slurm or submitit.

    Without this workaround fairseq counts GPUs where it should count processes. It then starts no process and ends
    without a message (with ``--distributed-init-method``), fails an assertion, divides by 0 (with torchrun), or trains
    on all data in every process (with torchrun but without ``--distributed-world-size``). Needed until ``call_main``
    takes ``--cpu`` into account.

    On GPUs too, a process that has started others passes signals on to them, whereas fairseq's process would end and
    leave them running; and the processes that it starts import the same fairseq.
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
                training.distributed_rank = None  # fairseq then takes the number of the spawned process
                os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // size)))
                start_method = torch.multiprocessing.get_start_method()
                torch.multiprocessing.spawn(_spawned_main, (start_method, main, cfg, kwargs), nprocs=size)

        return call_main_on_any_device

    replace(utils, "call_main", wrap)


def choose_port_of_job() -> None:
    """Let a Slurm job on several nodes train without ``--distributed-port``: the port comes from the number of the job.

    Without this workaround fairseq asks for the option, which would have to differ between the jobs of a sweep that
    share a node, on GPUs too. Needed until fairseq chooses the port on several nodes as it does on one.
    """
    from fairseq.distributed import utils

    def wrap(call_main):
        def call_main_with_port(cfg, main, **kwargs):
            training = cfg.distributed_training
            needs_port = training.distributed_init_method is None and not _on_cpu(cfg)  # on CPUs the tasks have one
            if needs_port and int(os.environ.get("SLURM_NNODES", 1)) > 1:
                _choose_port(training, os.environ.get("SLURM_JOB_ID", ""))
            return call_main(cfg, main, **kwargs)

        return call_main_with_port

    replace(utils, "call_main", wrap)


@contextlib.contextmanager
def _fairseq_found_first() -> typing.Iterator[None]:
    """A context in which spawned processes import the same fairseq as this process.

    Spawned processes inherit ``sys.path``. There fairseq has put the parent folder of ``--user-dir`` first, which may
    hold another folder named ``fairseq``.
    """
    import fairseq

    found = importlib.machinery.PathFinder.find_spec("fairseq")
    if found is None or found.origin == fairseq.__file__:  # None: fairseq is found without sys.path
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

    # A spawned process would also spawn its data workers, which are new in every epoch and would take seconds to start
    torch.multiprocessing.set_start_method(start_method, force=True)
    distributed_main(rank, main, cfg, kwargs)


def _on_cpu(cfg) -> bool:
    """Whether training runs on CPUs, by the same rule as in fairseq's trainer."""
    return not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())


def _launched() -> bool:
    return all(name in os.environ for name in LAUNCHED) and int(os.environ["WORLD_SIZE"]) > 1


def _plan_processes(training, utils) -> None:
    """Set the options by which processes on CPUs connect; a single process needs no ``distributed_init_method``."""
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
    if training.distributed_init_method is None:
        _join_tasks(training, utils)
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
    if training.distributed_backend == "nccl":  # fairseq's default, which works only on GPUs
        training.distributed_backend = "gloo"
    logger.info(f"{training.distributed_world_size} processes on CPU ({training.distributed_backend})")


def _join_tasks(training, utils) -> None:
    """Set the options by which the tasks of a job on CPUs connect, each of which is a process; nothing without a job of
    several tasks.

    Raises:
        ValueError: ``--distributed-world-size`` is not the number of tasks.
    """
    for launcher, (size, rank, job) in TASKS.items():
        tasks = int(os.environ.get(size, 1))
        if tasks == 1:
            continue
        if training.distributed_world_size != tasks:
            raise ValueError(
                f"--distributed-world-size: expected {tasks}, as {launcher} starts {tasks} tasks, and on CPU each is "
                f"one process; got {training.distributed_world_size}"
            )
        _choose_port(training, os.environ.get(job, ""))
        if launcher == "Slurm":
            utils._infer_slurm_init(training, None)  # it finds the first node
        else:
            training.distributed_init_method = f"tcp://localhost:{training.distributed_port}"
        # for one task per node fairseq counts GPUs here
        training.distributed_world_size, training.distributed_rank = tasks, int(os.environ[rank])
        training.distributed_no_spawn = True
        return


def _choose_port(training, job: str) -> None:
    """Set ``--distributed-port``, unless it is given, to a number that all processes of a job draw from its number."""
    if training.distributed_port <= 0:
        training.distributed_port = random.Random(job).randint(*PORTS)


def _world_size_given() -> bool:
    return any("distributed-world-size" in word.replace("_", "-") for word in sys.argv)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def check_processes() -> None:
    """Raise RuntimeError if torchrun started several processes and each is about to train separately.

    ``fairseq-hydra-train`` decides how processes start before it imports ``common.user_dir``. So it does this without
    :func:`start_processes_on_cpu`, unless the plugin is installed and therefore imported at the start.
    """
    if _launched() and not torch.distributed.is_initialized() and not torch.cuda.is_available():
        raise RuntimeError(
            f"common.user_dir: torchrun started {os.environ['WORLD_SIZE']} processes, but fairseq imported the plugin "
            "too late to connect them; install the plugin, or add its parent folder to PYTHONPATH"
        )


def wrap_models_on_cpu() -> None:
    """Let ``--ddp-backend pytorch_ddp``, the default, take models on CPUs.

    Without this workaround fairseq names a GPU for such a model, which torch refuses. Needed until fairseq leaves
    ``device_ids`` out.
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
    """Let a criterion have only parameters that are not trained, which it needs if its state is to be saved.

    Without this workaround fairseq wraps such a criterion in order to exchange gradients, which ``pytorch_ddp`` refuses
    if there are none, on GPUs too. Needed until fairseq checks whether any parameter is trained.
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
    """Gather logging outputs that can't be summed, from processes on CPUs too, and of any size.

    Without this workaround fairseq gathers them in a buffer on a GPU. It fails, on GPUs too, if they take more than
    16 KB, as the predictions of a batch do (unless ``--all-gather-list-size`` allows more). Needed until
    ``all_gather_list`` works on CPUs and makes its buffer as large as needed.
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
    """End the threads that read batches ahead before the interpreter ends.

    When a process ends, such a thread may be anywhere in torch's code. If it is freeing memory, Python can't end it.
    Without this workaround, with ``--num-workers 1``, a process was sometimes aborted ("terminate called without an
    active exception", exit status 134) after it had trained and saved everything. Needed until fairseq ends these
    threads, or until Python 3.14, which lets them hang.
    """
    from fairseq.data import iterators

    def wrap(_create_consumer):
        reading = weakref.WeakSet()
        # torch registered its own function earlier, so it runs later; from then on its data workers are not ended.
        atexit.register(_end_reading, reading)

        def create_and_remember(self):
            _create_consumer(self)
            reading.add(self._consumer)

        return create_and_remember

    replace(iterators.BufferedIterator, "_create_consumer", wrap)


def _end_reading(threads: typing.Iterable[threading.Thread]) -> None:
    """Let every thread finish its current batch and end, and wait for that."""
    threads = list(threads)
    deadline = time.monotonic() + LAST_BATCH_SECONDS
    for thread in threads:
        thread._max_len = 0
    for thread in threads:
        while thread.is_alive() and time.monotonic() < deadline:
            try:
                thread._queue.get(timeout=0.01)  # the thread may be waiting for room in its queue
            except queue.Empty:
                pass


def end_connections_at_exit() -> None:
    """Close the connections of processes on CPUs (gloo) that have trained, before the interpreter ends.

    Gloo's threads may still be freeing the tensors of the last exchange when a process ends, and Python can't end them
    there. Without this workaround a process started by torchrun, Slurm or submitit was aborted now and then
    ("terminate called without an active exception", exit status 134) after it had trained and saved everything. Needed
    until torch closes them at exit (https://github.com/pytorch/pytorch/issues/190489).

    A process that failed leaves them open: closing them would wait for an exchange with processes that may have ended.
    """
    from fairseq.distributed import utils

    def wrap(distributed_main):
        def distributed_main_then_close(*args, **kwargs):
            distributed_main(*args, **kwargs)
            atexit.register(_end_connections)

        return distributed_main_then_close

    replace(utils, "distributed_main", wrap)


def _end_connections() -> None:
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()
