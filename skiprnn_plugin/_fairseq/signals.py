"""Signals to a process that has started others to train."""

import contextlib
import multiprocessing
import os
import signal
import threading
from typing import Iterator, List

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def passed_on() -> Iterator[None]:
    """SIGTERM and SIGINT go on to this process's children, which this process waits for in this context.

    If they fail after that, this process ends as the signal says. Without effect on signals that are ignored
    (``nohup``) and outside the main thread, where Python takes no handlers.
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
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: not Python's own
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
