"""How few samples a model uses where it is good enough: a number by which fairseq can choose the best checkpoint."""

import math
import re
import warnings
from typing import Optional

from fairseq.logging import metrics

NAME = "used_if_good"
OPTION = re.compile(r"\s*([^=\s]+)\s*=\s*(\S+)\s*")


class UsedIfGood:
    """Logs ``used_if_good``, the less the better: the update fraction where a logged metric is good enough, otherwise 1
    plus how far the metric is from that.

    Args:
        at_least: ``METRIC=VALUE`` for a metric that should be at least the value; None if the other is given.
        at_most: the same for one that should be at most the value.

    Raises:
        ValueError: both are given, or one is written in another way.
    """

    def __init__(self, at_least: Optional[str], at_most: Optional[str]):
        if at_least is not None and at_most is not None:
            raise ValueError("--good-at-least, --good-at-most: expected one of them, got both")
        self.sign = 1 if at_most is None else -1
        self.option = "--good-at-least" if at_most is None else "--good-at-most"
        given = at_least if at_most is None else at_most
        match = OPTION.fullmatch(given)
        self.metric, self.value = (match[1], _as_finite(match[2])) if match else ("", None)
        if self.value is None:
            raise ValueError(f"{self.option}: expected METRIC=VALUE, as accuracy=0.95, got {given!r}")
        if self.metric == NAME:
            raise ValueError(f"{self.option}: expected another metric than {NAME}")
        self.warned = False

    def log(self) -> None:
        metrics.log_derived(NAME, self.measure, priority=12)

    def measure(self, meters) -> float:
        """The number, from fairseq's meters of a validation; inf where the metric is missing or is not a number, with
        one warning for a metric that is missing, as fairseq logs some (such as bleu) not for every batch."""
        if self.metric not in meters or "update_fraction" not in meters:
            if not self.warned:
                self.warned = True
                known = ", ".join(sorted(name for name in meters if name != NAME and not name.startswith("_")))
                warnings.warn(
                    f"{self.option}: expected one of the logged metrics {known}, got {self.metric!r}, which is not "
                    f"logged here; {NAME} is inf until it is",
                    stacklevel=2,
                )
            return math.inf
        lacking = self.sign * (self.value - float(meters.get_smoothed_value(self.metric)))
        if math.isnan(lacking):
            return math.inf
        return 1 + lacking if lacking > 0 else float(meters["update_fraction"].avg)


def _as_finite(text: str) -> Optional[float]:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
