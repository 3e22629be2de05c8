"""Checks of arguments and options. They need neither torch nor fairseq.

Every check returns the checked value, or raises ValueError with a message that names the argument, what was expected
and what was given.
"""

import contextlib
import math
import numbers
from typing import Any, Collection, Optional, Sequence, Tuple

PATHS = ("_dir", "_path", "data")  # ends of the names of options that name a file or folder


class UserError(Exception):
    """An argument or a file that the user of a command gave is wrong. The message names it, in one line."""


def as_option(name: str) -> str:
    """An option's name as it is on the command line: ``hidden_size`` becomes ``--hidden-size``."""
    return "--" + name.replace("_", "-")


@contextlib.contextmanager
def as_option_errors(arguments: Collection[str]):
    """A context in which a ValueError that begins with the name of one of ``arguments`` begins with the option of the
    command line instead: ``hidden_size: ...`` becomes ``--hidden-size: ...``."""
    try:
        yield
    except ValueError as error:
        name, separator, rest = str(error).partition(":")
        if not separator or name not in arguments:
            raise
        raise ValueError(f"{as_option(name)}:{rest}") from None


def check_size(argument: str, value: Any) -> int:
    """Check for an integer of at least 1."""
    if not _is_integer(value) or value < 1:
        raise ValueError(f"{argument}: expected an integer of at least 1, got {value!r}")
    return int(value)


def check_count(argument: str, value: Any) -> int:
    """Check for an integer of at least 0."""
    if not _is_integer(value) or value < 0:
        raise ValueError(f"{argument}: expected an integer of at least 0, got {value!r}")
    return int(value)


def check_probability(argument: str, value: Any) -> float:
    """Check for a number in [0, 1)."""
    if not _is_number(value) or not 0 <= value < 1:
        raise ValueError(f"{argument}: expected a probability in [0, 1), got {value!r}")
    return float(value)


def check_finite(argument: str, value: Any) -> float:
    """Check for a finite number."""
    if not _is_number(value) or not math.isfinite(value):
        raise ValueError(f"{argument}: expected a finite number, got {value!r}")
    return float(value)


def check_fraction(argument: str, value: Any) -> float:
    """Check for a number between 0 and 1, both excluded."""
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError(f"{argument}: expected a fraction between 0 and 1, got {value!r}")
    return float(value)


def check_flag(argument: str, value: Any) -> bool:
    """Check for a bool: numbers are refused, because they are probably arguments in the wrong position."""
    if not isinstance(value, bool):
        raise ValueError(f"{argument}: expected True or False, got {value!r}")
    return value


def check_choice(argument: str, value: Any, known: Collection[str]) -> str:
    """Check for one of the ``known`` names."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{argument}: expected one of {', '.join(known)}, got {value!r}")
    return value


def check_gate_layers(value: Optional[Sequence[int]], num_layers: int) -> Tuple[int, ...]:
    """Check for the numbers of one or more layers; None means the top layer."""
    if value is None:
        return (num_layers - 1,)
    layers = tuple(value) if isinstance(value, Collection) else ()
    if not layers or not all(_is_integer(layer) and 0 <= layer < num_layers for layer in layers):
        raise ValueError(f"gate_layers: expected layers from 0 to {num_layers - 1}, got {value!r}")
    return tuple(int(layer) for layer in layers)


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
