"""The parameters of the estimators, which ``skiprnn-train`` has as options."""

from typing import Any, Dict, Mapping, Optional

import numpy as np

from .arguments import check_choice, check_finite, check_flag, check_fraction, check_size

CELLS = ("lstm", "gru")
DEVICES = ("cpu", "cuda")
MOST_SEED = 2**32 - 1  # that numpy takes
PLANNED = (  # what to train, and how long
    *("cell", "hidden_size", "num_layers", "target_fraction", "learning_rate", "batch_size", "max_updates"),
    *("normalize", "device"),
)


def read_params(params: Mapping[str, Any], predicts: Optional[str]) -> Dict[str, Any]:
    """The parameters in plain types of Python, with a seed for ``random_state``.

    Args:
        params: those of an estimator, by name; all that are given are checked.
        predicts: "classes" or "numbers"; None if that is not known yet.

    Raises:
        ValueError: one is wrong; the message names it.
    """
    found = dict(params)
    for name, check in CHECKS.items():
        if name in found:
            found[name] = check(name, found[name])
    if found.get("good_enough") is not None:
        found["good_enough"] = _check_good_enough(found["good_enough"], predicts)
    return found


def _check_cell(name: str, value: Any) -> str:
    return str(check_choice(name, value, CELLS))


def _check_device(name: str, value: Any) -> Optional[str]:
    if value is None:
        return None
    import torch

    device = str(check_choice(name, value, DEVICES))
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"{name}: expected cpu or None, as torch finds no GPU here, got {value!r}")
    return device


def _check_rate(name: str, value: Any) -> float:
    rate = check_finite(name, value)
    if rate <= 0:
        raise ValueError(f"{name}: expected a number above 0, got {rate}")
    return rate


def _check_flag(name: str, value: Any) -> bool:
    return check_flag(name, bool(value) if isinstance(value, np.bool_) else value)


def _check_target(name: str, value: Any) -> Optional[float]:
    return None if value is None else check_fraction(name, value)


def _check_good_enough(value: Any, predicts: Optional[str]) -> float:
    good = check_finite("good_enough", value)
    if predicts == "classes" and not 0 <= good <= 1:
        raise ValueError(f"good_enough: expected an accuracy, a number from 0 to 1, got {value}")
    if predicts == "numbers" and good < 0:
        raise ValueError(f"good_enough: expected a mean squared error, a number of at least 0, got {value}")
    return good


def draw_seed(name: str, random_state: Any) -> int:
    """The seed that ``random_state`` is, or one that it draws; None draws from the operating system's randomness."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return int(np.random.default_rng(random_state).integers(MOST_SEED + 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(MOST_SEED + 1, dtype=np.int64))
    is_number = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not is_number or not 0 <= random_state <= MOST_SEED:
        raise ValueError(f"{name}: expected an integer from 0 to {MOST_SEED}, got {random_state!r}")
    return int(random_state)


CHECKS = {
    "cell": _check_cell,
    **dict.fromkeys(("hidden_size", "num_layers", "batch_size", "max_updates"), check_size),
    **dict.fromkeys(("normalize", "progress"), _check_flag),
    "device": _check_device,
    "learning_rate": _check_rate,
    "validation_fraction": check_fraction,
    "target_fraction": _check_target,
    "random_state": draw_seed,
}


def describe(params: Dict[str, Any], predicts: str, **fitted: Any) -> Dict[str, Any]:
    """What a checkpoint holds so that the method ``load`` of an estimator can read it.

    Args:
        params: the parameters, in plain types of Python; those that are missing are the estimator's defaults.
        predicts: "classes" or "numbers".
        fitted: what else the estimator stores.
    """
    return {"estimator": {"params": params, "predicts": predicts, **fitted}}
