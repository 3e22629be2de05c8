"""Writing a file whole: an interruption or a failure leaves no partial file and does not change an existing one."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Union


def write_whole(path: Path, content: Union[str, bytes]) -> None:
    """Write a file by way of a temporary file beside it; a text as UTF-8.

    Raises OSError, which names ``path`` and not the temporary file, if it can't be written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(part, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the subclass that fits the number
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
