"""The paper's experiments as data: what differs between the rows of a table, and what the paper printed for each.

``python -m skiprnn_plugin.cli.tables TABLE [ROW...]`` prints the options of each row for ``fairseq-train``.
Imports neither fairseq nor torch, so that scripts can ask it quickly.
"""

import argparse
from typing import Optional, Sequence

from ..command import UserError, run_command
from .imdb import IMDB
from .mnist import MNIST
from .synthetic import ADDING, FREQUENCY
from .table import Column, Row, Table, plain
from .video import CHARADES, UCF101

__all__ = ["TABLES", "Column", "Row", "Table", "find_table", "main", "plain"]

TABLES = {table.name: table for table in (ADDING, *FREQUENCY, MNIST, *IMDB, UCF101, CHARADES)}


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise UserError(f"unknown table {name!r}; known: {', '.join(TABLES)}")
    return TABLES[name]


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skiprnn_plugin.cli.tables",
        description="Print a line 'name<TAB>options of fairseq-train' for each row of one of the paper's tables.",
    )
    parser.add_argument("table", metavar="TABLE", help=f"one of: {', '.join(TABLES)}")
    parser.add_argument("rows", metavar="ROW", nargs="*", help="names of rows (default: all, in the paper's order)")
    args = parser.parse_args(argv)
    return run_command(parser.prog, list_rows, args.table, args.rows)


def list_rows(table_name: str, names: Sequence[str]) -> str:
    rows = {row.name: row for row in find_table(table_name).rows}
    for name in names:
        if name not in rows:
            raise UserError(f"unknown row {name!r} of table {table_name!r}; known: {', '.join(rows)}")
    return "\n".join(f"{name}\t{rows[name].arguments()}" for name in names or rows)
