"""Writing a file whole: an interruption or a failure leaves no partial file and does not change an existing one."""

import os
from pathlib import Path
from typing import Union


def write_whole(path: Path, content: Union[str, bytes]) -> None:
    """Write a file by way of a temporary file beside it; a text as UTF-8."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
