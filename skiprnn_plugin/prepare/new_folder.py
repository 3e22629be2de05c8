"""A folder of results that exists whole or not at all."""

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Iterator

from ..arguments import UserError
from ..locking import HeldByAnother, hold_file
from ..reading import first_sentence

# What lies beside a folder while it is made: the folder to fill, the one that it replaces, and the file that is locked
PART, OLD, LOCK = "partial", "replaced", "lock"


@contextlib.contextmanager
def new_folder(dest: Path, overwrite: bool, record: str, resume: bool = False) -> Iterator[Path]:
    """An empty folder to fill, which becomes ``dest`` when the context ends well and is removed when it does not.

    It lies beside ``dest``. Missing parents of ``dest`` are made, and removed again if they are empty at the end. What
    a killed process left there is removed when the same ``dest`` is made again. Only one process at a time makes it.

    Args:
        dest: the folder to make.
        overwrite: whether an existing ``dest`` is replaced; it stays until the new one is complete.
        record: a file that every such folder holds; one without it is never replaced.
        resume: keep the folder when the context does not end well, for the next run to fill further.

    Raises:
        UserError: ``dest`` exists and may not be replaced, is being made by another process, or can't be written.
    """
    dest = Path(os.path.realpath(dest))  # "." gets a name, and a link's target is replaced
    part, old, lock = (dest.parent / f".{dest.name}.{suffix}" for suffix in (PART, OLD, LOCK))
    parents = [parent for parent in dest.parents if not os.path.lexists(parent)]
    try:
        _check(dest, overwrite, record)
        dest.parent.mkdir(parents=True, exist_ok=True)
        with hold_file(lock):
            _clear_leftovers(dest, part, old, resume)
            _check(dest, overwrite, record)  # the process that held the lock may have made it
            with _cleared(dest, part, old, resume):
                part.mkdir(exist_ok=resume)
                yield part
                if overwrite and dest.exists():
                    os.rename(dest, old)
                os.rename(part, dest)
    except HeldByAnother as error:
        raise UserError(f"{dest}: expected a folder of this run alone, another process makes it") from error
    except OSError as error:
        raise UserError(f"{dest}: can't be written ({error.strerror or first_sentence(error)})") from error
    finally:
        for parent in parents:
            with contextlib.suppress(OSError):  # not empty, or it does not exist
                parent.rmdir()


@contextlib.contextmanager
def _cleared(dest: Path, part: Path, old: Path, resume: bool) -> Iterator[None]:
    """A block after which ``part`` is gone, except to ``resume``, and ``old`` is removed, or put back if there is no
    ``dest``."""
    try:
        yield
    finally:
        if not resume:
            shutil.rmtree(part, ignore_errors=True)
        _clear_old(old, dest)


def _check(dest: Path, overwrite: bool, record: str) -> None:
    if not os.path.lexists(dest):
        return
    if not overwrite:
        raise UserError(f"{dest}: already exists; --overwrite replaces it")
    if not (dest / record).is_file():
        raise UserError(f"{dest}: --overwrite replaces only what this command made, and it holds no {record}")


def is_leftover(path: Path, name: str) -> bool:
    """Whether :func:`new_folder` has left this when the making of a folder of this name was interrupted."""
    return path.name in {f".{name}.{suffix}" for suffix in (PART, OLD, LOCK)} or _is_of_earlier(path, name)


def _is_of_earlier(path: Path, name: str) -> bool:
    """Whether an earlier version has left this: it put the number of its process into the name."""
    return re.fullmatch(rf"\.{re.escape(name)}\.[0-9]{{1,9}}\.(part|old)", path.name) is not None


def _clear_leftovers(dest: Path, part: Path, old: Path, resume: bool) -> None:
    """Remove what processes that have ended left behind, but keep a folder to resume, and put back one that was to be
    replaced."""
    _clear_old(old, dest)
    for path in sorted(dest.parent.iterdir()):
        if not _is_of_earlier(path, dest.name):
            continue
        if path.suffix == ".old":
            _clear_old(path, dest)
        elif resume and not part.exists():
            os.rename(path, part)
        else:
            shutil.rmtree(path, ignore_errors=True)
    if not resume:
        shutil.rmtree(part, ignore_errors=True)


def _clear_old(old: Path, dest: Path) -> None:
    """Remove the folder that ``dest`` has replaced, or put it back if ``dest`` did not come to be."""
    if dest.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        os.rename(old, dest)
