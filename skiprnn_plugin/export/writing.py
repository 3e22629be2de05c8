"""Writing files whole: an interrupted or failed export leaves no partial file and does not change an existing one."""

from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary file beside it."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
