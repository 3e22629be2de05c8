"""Keeps what fairseq and hydra log about their progress out of a program's log."""

import contextlib
import logging
import threading
from typing import Iterator, List, Tuple

_lock = threading.Lock()
_before: List[Tuple[int, List[logging.Handler], int]] = []  # for each open block of any thread, what logging was like


@contextlib.contextmanager
def no_notes() -> Iterator[None]:
    """A block in which nothing below a warning is logged. Afterwards the root logger has the level and the handlers
    that it had before, which fairseq changes when it is imported. Where blocks overlap, in several threads or in one,
    this is done after the last of them."""
    root = logging.getLogger()
    with _lock:
        _before.append((root.level, root.handlers[:], root.manager.disable))
        logging.disable(max(logging.INFO, root.manager.disable))
    try:
        yield
    finally:
        with _lock:
            level, handlers, disabled = _before[0]
            _before.pop()
            if not _before:
                logging.disable(disabled)
                root.setLevel(level)
                root.handlers[:] = handlers
