"""The record ``prepare.json``: how ``skiprnn-prepare`` or ``skiprnn-train`` has made a folder."""

import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..reading import first_sentence

RECORD = "prepare.json"


def read_record(folder: Path, files: Optional[Mapping[str, bytes]] = None) -> Dict[str, Any]:
    """What a folder's record holds.

    Args:
        folder: the folder.
        files: the contents of the folder's files, by name; with them nothing is read in the folder.

    Raises ValueError, with a message that does not name the file, if there is no record or it can't be read.
    """
    try:
        record = json.loads((folder / RECORD).read_bytes() if files is None else files[RECORD])
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"can't be read: {first_sentence(error)}") from error
    if not isinstance(record, dict):
        raise ValueError(f"expected an object, got {type(record).__name__}")
    return record


def find_record(folder: Path) -> Dict[str, Any]:
    """The record of a folder that ``skiprnn-prepare`` has made; empty of any other folder."""
    try:
        return read_record(folder)
    except ValueError:
        return {}


class TableColumns(NamedTuple):
    """What the record says of the table that a folder was made from.

    Attributes:
        features: the names of the features; None if they have none.
        sequence: the column that says which sequence a step belongs to; None if it is not known.
    """

    features: Optional[List[str]] = None
    sequence: Optional[str] = None


def find_columns(record: Mapping[str, Any]) -> TableColumns:
    """The columns that a record lists, as far as it does."""
    features, sequence = record.get("feature_names"), record.get("sequence_column")
    return TableColumns(
        list(map(str, features)) if isinstance(features, list) else None,
        sequence if isinstance(sequence, str) else None,
    )
