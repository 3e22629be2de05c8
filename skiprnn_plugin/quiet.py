"""Keeps what fairseq and hydra log about their progress out of a program's log."""

import contextlib
import logging
from typing import Iterator


@contextlib.contextmanager
def no_notes() -> Iterator[None]:
    """A block in which nothing below a warning is logged. Afterwards the root logger has the level and the handlers
    that it had before, which fairseq changes when it is imported."""
    root = logging.getLogger()
    level, handlers, disabled = root.level, root.handlers[:], root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.setLevel(level)
        root.handlers[:] = handlers
