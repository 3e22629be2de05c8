"""For reading files of users: a progress bar, a test for hidden files, short reasons for errors, the largest number."""

import sys
from typing import Iterable, Optional

LARGEST = 1e150  # a user's number; its square is still a float64, in which statistics are computed


def show_progress(items: Iterable, name: str, disable: Optional[bool] = None, **options) -> Iterable:
    """The items, with tqdm's progress bar if they take more than a second; ``options`` are those of tqdm.

    With ``disable`` None, the bar appears only on a terminal.
    """
    from tqdm import tqdm  # comes with fairseq, which may not be installed

    return tqdm(items, desc=name, delay=1, leave=False, disable=disable, **options)


def show_line(line: str) -> None:
    """Print a line on standard error, above a progress bar."""
    from tqdm import tqdm

    tqdm.write(line, file=sys.stderr)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is ignored when folders are searched, such as ``.DS_Store``, or ``._NAME``,
    which macOS puts beside NAME in archives and on disks with other file systems."""
    return name.startswith(".")


def describe_os_error(error: OSError) -> str:
    """What the system could not do, in one line: "FILE: reason" if it was about a file."""
    if error.strerror is None:  # raised by Python code, with a text alone
        return " ".join(str(error).split()) or type(error).__name__
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def describe_encoding_error(error: UnicodeDecodeError) -> str:
    """What is wrong with a text file, such as one of a spreadsheet program in its country's encoding."""
    return f"expected {error.encoding.upper()} text, got a byte that is not ({error.reason})"


def first_sentence(error: BaseException) -> str:
    """The type and the first sentence of an exception that another library raised."""
    lines = str(error).strip().split("\n")
    # a first line that ends with a colon only announces the second
    text = " ".join(map(str.strip, lines[: 2 if lines[0].endswith(":") else 1]))
    text = text.split(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
