"""What all that reads users' files shares: which to leave alone, a bar where it takes long, and what went wrong."""

from typing import Iterable, Optional

from tqdm import tqdm


def show_progress(items: Iterable, name: str, disable: Optional[bool] = None, **options) -> Iterable:
    """The items, with tqdm's bar on a terminal where they take more than a second; ``options`` are tqdm's."""
    return tqdm(items, desc=name, delay=1, leave=False, disable=disable, **options)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is left alone where folders are searched: ``.DS_Store``, and ``._NAME``,
    which macOS puts beside NAME on foreign disks and in archives."""
    return name.startswith(".")


def first_sentence(error: BaseException) -> str:
    """An exception of somebody else's in a few words."""
    lines = str(error).strip().split("\n")
    text = " ".join(map(str.strip, lines[: 2 if lines[0].endswith(":") else 1]))  # the first may but announce others
    text = text.split(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
