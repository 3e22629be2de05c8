"""Handling of signals in a process that has started others to train."""

import contextlib
import multiprocessing
import os
import signal
import threading
from typing import Iterator, List

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
