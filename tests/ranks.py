"""Runs a function in several processes at once, which are forked from this one and so need not import anything."""

import contextlib
import gc
import io
import os
import random
import socket
import tempfile
from pathlib import Path

import torch


def run_ranks(function, *arguments, size=2):
    """Call ``function(*arguments)`` in ``size`` processes, with the environment that torchrun would give them. Returns
    a list of the results."""
    port = free_port()
    gc.collect()  # here, where the threads still are that some garbage waits for when it is freed, as PyAV's does
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(
            _run_rank, (size, port, folder, function, arguments), nprocs=size, start_method="fork"
        )
        return [torch.load(Path(folder) / str(rank), weights_only=False) for rank in range(size)]


def free_port():
    """A port that is free now, below those that the system gives out by itself: another process could be given one of
    these before the caller uses it."""
    while True:
        port = random.SystemRandom().randrange(20000, 32768)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("localhost", port))
            return port


def _run_rank(rank, size, port, folder, function, arguments):
    gc.freeze()  # what the parent had is never freed here
    launched = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in launched.items()})
    with contextlib.redirect_stdout(io.StringIO()):
        torch.save(function(*arguments), Path(folder) / str(rank))
