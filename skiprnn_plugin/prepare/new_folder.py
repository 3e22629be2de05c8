"""A folder of results that exists whole or not at all."""

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Iterator, Optional

from ..arguments import UserError
from ..reading import first_sentence


@contextlib.contextmanager
def new_folder(dest: Path, overwrite: bool, record: str, resume: bool = False) -> Iterator[Path]:
    """An empty folder to fill, which becomes ``dest`` when the context ends well and is removed when it does not.

    It lies beside ``dest``. Missing parents of ``dest`` are made, and removed again if they are empty at the end. What
    a killed process left there is removed when the same ``dest`` is made again.

    Args:
        dest: the folder to make.
        overwrite: whether an existing ``dest`` is replaced; it stays until the new one is complete.
        record: a file that every such folder holds; one without it is never replaced.
        resume: keep the folder when the context does not end well, for the next run to fill further.

    Raises:
        UserError: ``dest`` exists and may not be replaced, or can't be written.
    """
    dest = Path(os.path.realpath(dest))  # "." gets a name, and a link's target is replaced
    part, old = (dest.parent / f".{dest.name}.{os.getpid()}.{suffix}" for suffix in ("part", "old"))
    parents = [parent for parent in dest.parents if not os.path.lexists(parent)]
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(dest, keep_as=part if resume else None)
        _check(dest, overwrite, record)
        part.mkdir(exist_ok=resume)
        yield part
        if overwrite and dest.exists():
            os.rename(dest, old)
        os.rename(part, dest)
    except OSError as error:
        raise UserError(f"{dest}: can't be written ({error.strerror or first_sentence(error)})") from error
    finally:
        if not resume:
            shutil.rmtree(part, ignore_errors=True)
        _clear_old(old, dest)
        for parent in parents:
            with contextlib.suppress(OSError):  # not empty, or it does not exist
                parent.rmdir()


def _check(dest: Path, overwrite: bool, record: str) -> None:
    if not os.path.lexists(dest):
        return
    if not overwrite:
        raise UserError(f"{dest}: already exists; --overwrite replaces it")
    if not (dest / record).is_file():
        raise UserError(f"{dest}: --overwrite replaces only what this command made, and it holds no {record}")


def match_leftover(path: Path, name: str) -> Optional[re.Match]:
    """Match the folder that :func:`new_folder` fills while it makes a folder of this name, or in which it keeps the
    one that it replaces. The groups are the number of its process and "part" or "old"."""
    return re.fullmatch(rf"\.{re.escape(name)}\.([0-9]{{1,9}})\.(part|old)", path.name)


def _clear_leftovers(dest: Path, keep_as: Optional[Path]) -> None:
    """Remove what processes that have ended left behind; a folder that one of them had set aside is kept, renamed."""
    for path in dest.parent.iterdir():
        match = match_leftover(path, dest.name)
        if not match or _is_another_process(int(match[1])):
            continue
        if match[2] == "old":
            _clear_old(path, dest)
        elif keep_as is None or (keep_as.exists() and keep_as != path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.rename(path, keep_as)


def _clear_old(old: Path, dest: Path) -> None:
    """Remove the folder that ``dest`` has replaced, or put it back if ``dest`` did not come to be."""
    if dest.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        os.rename(old, dest)


def _is_another_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return pid != os.getpid()
