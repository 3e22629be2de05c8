"""The paper's experiments as data: what differs between the rows of a table, and what the paper printed for them.

Imports neither fairseq nor torch, so that scripts can ask it quickly.
"""

from ...arguments import UserError
from .imdb import IMDB
from .mnist import MNIST
from .synthetic import ADDING, FREQUENCY
from .table import Column, Row, Table, plain
from .video import CHARADES, UCF101

__all__ = ["TABLES", "Column", "Row", "Table", "find_table", "plain"]

TABLES = {table.name: table for table in (ADDING, *FREQUENCY, MNIST, *IMDB, UCF101, CHARADES)}


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise UserError(f"unknown table {name!r}; known: {', '.join(TABLES)}")
    return TABLES[name]
