"""Handling of signals in a process that has started others to train, and in the workers that read its data."""

import contextlib
import multiprocessing
import os
import signal
import threading
from typing import Iterator, List

import torch

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def passed_on() -> Iterator[None]:
    """A context in which SIGTERM and SIGINT are passed on to the child processes that this process waits for.

    If the context fails after a signal, this process ends as the signal demands. Signals that are ignored (``nohup``)
    stay ignored. Outside the main thread the context does nothing, because Python allows no signal handlers there.
    """
    received: List[int] = []
    previous = {}

    def pass_on(number, frame):
        received.append(number)
        for process in multiprocessing.active_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def restore():
        while previous:
            signal.signal(*previous.popitem())

    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: a handler not set by Python
                previous[number] = signal.signal(number, pass_on)
    try:
        yield
    except Exception:
        restore()
        if received:
            signal.raise_signal(received[-1])
        raise
    finally:
        restore()


def fairseq_trains(frame) -> bool:
    """Whether fairseq-train's main function is among the callers of a frame. Needed until fairseq calls a hook when
    this function ends."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "main" and code.co_filename.endswith(os.path.join("fairseq_cli", "train.py")):
            return True
        frame = frame.f_back
    return False


class CollaterInWorker:
    """A collate function that also makes the data worker which calls it ignore signals meant for the training process.

    Without this workaround a signal to the whole process group (Ctrl-C) would end the workers, and so training would
    fail. The workers still end when the training process ends or sends them a SIGTERM. Needed until fairseq lets a task
    give its workers a ``worker_init_fn``.
    """

    def __init__(self, collate):
        self.collate = collate
        self.process = None

    def __call__(self, samples):
        if self.process != os.getpid() and torch.utils.data.get_worker_info() is not None:
            self.process = os.getpid()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if hasattr(signal, "sigwaitinfo"):  # not on macOS
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # a handler could not tell who sent it
                threading.Thread(target=_end_when_told_by, args=(os.getppid(),), daemon=True).start()
        return self.collate(samples)


def _end_when_told_by(parent: int) -> None:
    """Wait for SIGTERMs to this process, and end it at the first one that the process ``parent`` sent."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)
