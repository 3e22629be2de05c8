"""Keeps what fairseq and hydra log about their progress out of a program's log."""

import contextlib
import logging
import threading
from typing import Iterator, List, Tuple

NOTED = ("fairseq", "fairseq_cli", "skiprnn_plugin")  # the loggers of what logs its progress in training

_lock = threading.Lock()
_before: List[Tuple[int, List[logging.Handler], int]] = []  # for each open block of any thread, what logging was like


@contextlib.contextmanager
def quiet_imports() -> Iterator[None]:
    """A block for imports, in which nothing below a warning is logged, by any logger. Afterwards the root logger has
    the level and the handlers that it had before, which fairseq changes when it is imported. Where blocks overlap, in
    several threads or in one, this is done after the last of them."""
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


@contextlib.contextmanager
def quiet_training() -> Iterator[None]:
    """A block in which the loggers ``NOTED`` log nothing below a warning. Others, which are the program's own, log as
    before: another of its threads may do so. Only one training runs at a time, so blocks do not overlap."""
    before = [(logger, logger.level, logger.getEffectiveLevel()) for logger in map(logging.getLogger, NOTED)]
    for logger, _, effective in before:
        logger.setLevel(max(logging.WARNING, effective))
    try:
        yield
    finally:
        for logger, level, _ in before:
            logger.setLevel(level)
