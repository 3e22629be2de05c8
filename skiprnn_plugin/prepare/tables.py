"""What the readers of tables share: how columns are separated, and decimal commas."""

import csv
import re
from pathlib import Path
from typing import Dict, Set, TextIO, Tuple, Union

DELIMITERS = ",;\t"
THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}")
START = 2**16  # characters of a file in which its first line is looked for


def open_file(path: Union[str, Path]) -> TextIO:
    return open(path, encoding="utf-8-sig", newline="")


def find_delimiter(path: Union[str, Path]) -> str:
    """What separates the columns of a table: a tab in a ``.tsv`` file, and else the most frequent of ``DELIMITERS`` in
    the first line, outside quotation marks. A comma between two digits may be a decimal comma, and counts only if there
    is nothing else."""
    if Path(path).suffix.lower() == ".tsv":
        return "\t"
    with open_file(path) as file:
        start = file.read(START)
    first = (re.sub('"[^"]*"', "", start).lstrip().splitlines() or [""])[0]
    first = re.sub("(?<=[0-9]),(?=[0-9])", "", first)
    return max(DELIMITERS, key=first.count)


def read_table(file: TextIO, delimiter: str):
    """A ``csv.reader`` of the lines of a file; an empty line has no fields. Names that hold the delimiter stand in
    quotation marks."""
    return csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)


class Decimals:
    """Reads the decimals of a table, which have points or, where columns are not separated by commas, commas, not both.

    Args:
        delimiter: what separates columns.
    """

    def __init__(self, delimiter: str):
        self.allows_commas = delimiter != ","
        self.mark, self.line = "", 0  # the first decimal point or comma, and its line
        # By column: the first number with a comma where thousands are separated, and its line; one of three digits
        self._separated: Dict[int, Tuple[str, int]] = {}
        self._plain: Dict[int, str] = {}
        self._decimal: Set[int] = set()  # the columns with a number that is written in another way

    def read(self, text: str, line: int, column: int) -> float:
        """Raises ValueError if the field is not a number, or is written unlike the numbers before."""
        has_comma = self.allows_commas and "," in text
        if self.allows_commas and column not in self._decimal:
            self._note(text, line, column)
        mark = "," if has_comma else "." if "." in text else ""
        if mark and self.mark and mark != self.mark:
            raise ValueError(f"expected a decimal {self.mark!r}, as in line {self.line}, got {text!r}")
        if "_" in text or (has_comma and "." in text):  # 1_000 is a number to Python
            raise ValueError(f"expected a number, got {text!r}")
        try:
            number = float(text.replace(",", ".") if has_comma else text)
        except ValueError:
            raise ValueError(f"expected a number, got {text!r}") from None
        if mark and not self.mark:
            self.mark, self.line = mark, line
        return number

    def _note(self, text: str, line: int, column: int) -> None:
        digits = text.lstrip("+-")
        if THOUSANDS.fullmatch(digits):
            self._separated.setdefault(column, (text, line))
        elif "," in digits or len(digits) > 3:
            self._decimal.add(column)
        elif len(digits) == 3 and digits.isdecimal():
            self._plain.setdefault(column, text)

    def check(self) -> None:
        """Raises ValueError, after the last number, if the commas of a column look like separators of thousands: all
        have three digits behind them, and other numbers have three digits and no comma, as in 998, 999, 1,000."""
        for column, (text, line) in self._separated.items():
            if column in self._plain and column not in self._decimal:
                raise ValueError(
                    f"line {line}: expected decimal commas, got {text!r} beside {self._plain[column]!r} in one column, "
                    "which looks like separated thousands; write these numbers without commas"
                )
