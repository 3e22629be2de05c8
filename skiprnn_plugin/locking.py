"""Locks that keep other processes away from a file or a folder. They end with the process, however it ends.

On a file system without locks nothing is held.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Iterator


class HeldByAnother(Exception):
    """Another process holds the lock, or another thread."""


def lock(descriptor: int) -> None:
    """Lock an open file or folder until it is closed. Raises :class:`HeldByAnother`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HeldByAnother from error
    except OSError:  # a file system without locks, or NFS and a folder, which can't be open for writing
        pass


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold a folder that exists. On NFS this keeps nobody away.

    Raises :class:`HeldByAnother`, or OSError if it can't be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_file(path: Path) -> Iterator[None]:
    """Hold a file that is made for this, and removed in the end; one that a killed process has left is taken over. On
    NFS this also keeps away the processes of other hosts.

    Raises :class:`HeldByAnother`, or OSError if it can't be made.
    """
    descriptor = _open_held(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # while it is held, so that it is not another process's
        os.close(descriptor)


def _open_held(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # NFS locks only what is open for writing
        try:
            lock(descriptor)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder has removed it since it was opened here
