"""Writing a file whole: an interruption or a failure leaves no partial file and does not change an existing one."""

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path
from typing import BinaryIO, Tuple, Union

SHOWN = 40  # characters of the file's name in that of the temporary one, which must not be too long for the file system


def write_whole(path: Path, content: Union[str, bytes]) -> None:
    """Write a file by way of a temporary file beside it; a text as UTF-8.

    A file that exists keeps its mode, and a symbolic link stays one: its target is written. What is not a file, such as
    /dev/stdout, is written directly.

    Raises OSError, which names ``path`` and not the temporary file, if it can't be written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    encoded = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(encoded)
        else:
            _replace(Path(os.path.realpath(path)), encoded)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the subclass that fits the number


def is_part(path: Path, name: str) -> bool:
    """Whether this is the temporary file of a process that was killed while it wrote a file of this name."""
    # Earlier versions put the whole name and the number of the process into it
    pattern = rf"\.({re.escape(name[:SHOWN])}\.[0-9a-f]{{8}}|{re.escape(name)}\.[0-9]{{1,9}})\.part"
    return re.fullmatch(pattern, path.name) is not None and path.is_file() and not path.is_symlink()


def _replace(path: Path, content: bytes) -> None:
    part, file = _open_part(path)
    try:
        with file:
            with contextlib.suppress(OSError):  # a new file, or a file system without modes
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # a crash of the machine must not leave the new name with half of the content
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _open_part(path: Path) -> Tuple[Path, BinaryIO]:
    """A new file beside ``path``. Unlike one of the module tempfile it has the mode that any new file has."""
    while True:
        part = path.with_name(f".{path.name[:SHOWN]}.{secrets.token_hex(4)}.part")
        with contextlib.suppress(FileExistsError):
            return part, open(part, "xb")
