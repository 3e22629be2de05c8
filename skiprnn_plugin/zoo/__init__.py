"""Trained models that come with the package: ``zoo:NAME`` stands for one wherever this package's
commands and functions expect a checkpoint.

A model is a checkpoint of fairseq in this folder, ``NAME.pt``, without the state of its training. Its card,
``NAME.md``, says what it is for, what it was trained on and how well it does. This module needs neither torch nor
fairseq.
"""

from pathlib import Path
from typing import List, Union

__all__ = ["PREFIX", "card", "find", "names"]

PREFIX = "zoo:"
FOLDER = Path(__file__).parent


def names() -> List[str]:
    """The names of all models, sorted: ``from_pretrained(f"zoo:{name}")`` loads one."""
    return sorted(path.stem for path in FOLDER.glob("*.pt"))


def find(name: Union[str, Path]) -> Path:
    """The checkpoint of a model, by its name with or without ``zoo:`` before it.

    Raises FileNotFoundError, in one line that lists the names, if there is no such model.
    """
    name = str(name).removeprefix(PREFIX)
    if name not in names():
        raise FileNotFoundError(f"{PREFIX}NAME: expected a NAME of {', '.join(names())}, got {name!r}")
    return FOLDER / f"{name}.pt"


def card(name: Union[str, Path]) -> str:
    """The card of a model, in Markdown; the argument and the error are those of :func:`find`."""
    return find(name).with_suffix(".md").read_text(encoding="utf-8")


def is_name(path: Union[str, Path]) -> bool:
    """Whether an argument for a checkpoint names a model of the zoo, perhaps one that does not exist."""
    return str(path).startswith(PREFIX)
