"""What the readers of tables share: how columns are separated, and decimal commas."""

import csv
import re
from pathlib import Path
from typing import Any, NamedTuple, TextIO, Union

DELIMITERS = ",;\t"
START = 2**16  # characters of a file in which its first line is looked for


class Table(NamedTuple):
    """An open table.

    Attributes:
        lines: the fields of each line, a ``csv.reader``; an empty line has none.
        delimiter: what separates columns.
    """

    lines: Any
    delimiter: str


def open_file(path: Union[str, Path]) -> TextIO:
    return open(path, encoding="utf-8-sig", newline="")


def read_table(path: Union[str, Path], file: TextIO) -> Table:
    """The table in a file of :func:`open_file`. Columns are separated by commas, semicolons or tabs, in a ``.tsv`` file
    by tabs; names with such characters stand in quotation marks."""
    delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else _find_delimiter(file.read(START))
    file.seek(0)
    return Table(csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True), delimiter)


def _find_delimiter(start: str) -> str:
    """The most frequent of ``DELIMITERS`` in the first line, outside quotation marks. A comma between two digits may be
    a decimal comma, and counts only if there is nothing else."""
    first = (re.sub('"[^"]*"', "", start).lstrip().splitlines() or [""])[0]
    first = re.sub("(?<=[0-9]),(?=[0-9])", "", first)
    return max(DELIMITERS, key=first.count)


class Decimals:
    """Reads the decimals of a table, which have points or, where columns are not separated by commas, commas, not both.

    Args:
        delimiter: what separates columns.
    """

    def __init__(self, delimiter: str):
        self.allows_commas = delimiter != ","
        self.mark, self.line = "", 0  # the first decimal point or comma, and its line

    def with_point(self, text: str, line: int) -> str:
        """A field with a decimal point, if it has a decimal comma. Raises ValueError if it is not a number, or is
        written unlike the numbers before."""
        has_comma = self.allows_commas and "," in text
        mark = "," if has_comma else "." if "." in text else ""
        if mark and self.mark and mark != self.mark:
            raise ValueError(f"expected a decimal {self.mark!r}, as in line {self.line}, got {text!r}")
        number = text.replace(",", ".") if has_comma else text
        if not is_number(number) or (has_comma and "." in text):
            raise ValueError(f"expected a number, got {text!r}")
        if mark and not self.mark:
            self.mark, self.line = mark, line
        return number


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # 1_000 is a number to Python
