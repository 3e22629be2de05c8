"""Writing files whole: an interrupted or failed export leaves no part of a file, and an older file as it was."""

from pathlib import Path
from typing import Callable


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Call ``write`` with the path of a temporary file beside ``path``, and put it in place of ``path``."""
    part = path.with_name(f".part-{path.name}")  # torch.export.save wants the suffix
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
