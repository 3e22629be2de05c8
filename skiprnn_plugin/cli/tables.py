"""``python -m skiprnn_plugin.cli.tables TABLE [ROW...]``: the options of each row of a table for ``fairseq-train``.

Imports neither fairseq nor torch, so that scripts can ask it quickly.
"""

import argparse
import sys
from typing import Optional, Sequence

from ..arguments import UserError
from ..runs.tables import TABLES, find_table
from .command import run_command


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


if __name__ == "__main__":
    sys.exit(main())
