"""The options that make a trained model update more or less often, without training it again."""

from typing import Any, Dict, Mapping

# And the values with which a model is trained
DIALS = {"update_threshold": 0.5, "min_skip": 0, "max_skip": None}


def find_dials(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Those of a model's options that are dials and have another value than in training; an option may be missing."""
    found = {name: options.get(name, default) for name, default in DIALS.items()}
    return {name: value for name, value in found.items() if value != DIALS[name]}
