"""What the comparison's runs gave, as tables in Markdown."""

from statistics import mean, stdev
from typing import Dict, List, NamedTuple, Optional

from .data import CHANCE

LAST = 4  # entries of a run's trail that show what is used at the end of training
TOLERANCE = 0.2  # of a target
AIMS = ("target", "l1", "l2")  # rules whose value is the fraction of the samples to use


def collapsed(row: dict) -> bool:
    """Whether a run ended near chance: less than a tenth of the way from chance to a perfect metric."""
    chance = CHANCE[row["set"]]
    return row["metric"] > 0.9 * chance if row["set"] == "adding" else row["metric"] < chance + 0.1 * (1 - chance)


class Kind(NamedTuple):
    """What runs that are counted together have in common; the fields are those of a run."""

    set: str
    rule: str
    value: float
    ramp: Optional[int]
    cell: str
    gate_init: str
    updates: int
    cost_per_sample: Optional[float]

    @property
    def budget(self) -> str:
        words = [f"lambda {self.value:g}" if self.rule == "fixed" else f"{self.rule} {self.value:g}"]
        words += [f"ramp {self.ramp}"] if self.ramp is not None else []
        words += [f"lambda {self.cost_per_sample:g}"] if self.cost_per_sample is not None else []
        words += ["LSTM"] if self.cell == "lstm" else []
        return ", ".join(words + (["gate from 0"] if self.gate_init == "zeros" else []))

    @property
    def training(self) -> tuple:
        return self.set, self.cell, self.gate_init, self.updates


class Group:
    """Runs that differ only in the seed.

    Attributes:
        kind: what they have in common.
        metric: accuracy or mean squared error of each run.
        used: the fraction of the held-out steps that each run used.
        trained: the fraction of the steps that each run used at the end of training.
        collapsed: the number of runs that ended near chance.
    """

    def __init__(self, kind: Kind, rows: List[dict]):
        self.kind = kind
        self.metric = [row["metric"] for row in rows]
        self.used = [row["fraction"] for row in rows]
        self.trained = [mean(row["trail"][-LAST:] or [row["fraction"]]) for row in rows]
        self.collapsed = sum(map(collapsed, rows))

    def gain(self, other: "Group") -> float:
        """By how much the mean metric is better than that of the other group."""
        difference = mean(self.metric) - mean(other.metric)
        return -difference if self.kind.set == "adding" else difference


def group(rows: List[dict]) -> Dict[str, List[Group]]:
    """The groups of each set; of a set, those that use most samples come first."""
    kinds: Dict[Kind, List[dict]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        kinds.setdefault(Kind(*(row[name] for name in Kind._fields)), []).append(row)
    sets: Dict[str, List[Group]] = {name: [] for name in CHANCE}
    for kind, members in kinds.items():
        sets[kind.set].append(Group(kind, members))
    return {name: sorted(groups, key=lambda one: -mean(one.used)) for name, groups in sets.items() if groups}


def best_lambda(target: Group, groups: List[Group]) -> Optional[Group]:
    """Of the fixed lambdas, trained as the target's runs were, the one with the best mean metric that uses at most as
    many samples as they do, and a fifth more."""
    most = (1 + TOLERANCE) * mean(target.used)
    found = [one for one in groups if one.kind.rule == "fixed" and one.kind.training == target.kind.training]
    found = [one for one in found if mean(one.used) <= most]
    return max(found, key=lambda one: one.gain(found[0])) if found else None


def error(values: List[float]) -> float:
    """The standard error of their mean; 0 for a single value."""
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _range(values: List[float]) -> str:
    """The mean, and the range if there are several values."""
    spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return f"{mean(values):.2f}{spread}"


def _metric(group: Group) -> str:
    """The mean, and the standard error if there are several runs."""
    spread = f" ± {error(group.metric):.3f}" if len(group.metric) > 1 else ""
    return f"{mean(group.metric):.3f}{spread}"


def _line(*cells) -> None:
    print("|", " | ".join(map(str, cells)), "|")


def print_tables(rows: List[dict]) -> None:
    """Print a table for each set, with a line for the runs that differ only in the seed; then one that compares those
    that aim at a number of updates with the fixed lambdas, see :func:`best_lambda`."""
    sets = group(rows)
    for name, groups in sets.items():
        print(f"\n**{name}**\n")
        _line("budget", "training updates", "seeds", "metric", "samples used", "in training", "at chance")
        _line(*7 * ["---"])
        for one in groups:
            used, trained = _range(one.used), _range(one.trained)
            _line(one.kind.budget, one.kind.updates, len(one.used), _metric(one), used, trained, one.collapsed)
    compared = [(one, best_lambda(one, groups)) for groups in sets.values() for one in _targets(groups)]
    compared = [(target, best) for target, best in compared if best is not None]
    if compared:
        print()
        measured = "metric", "samples used"
        _line("data", "budget", "training updates", *measured, "best lambda", *measured, "gain")
        _line(*9 * ["---"])
    for one, best in compared:
        gain = f"{one.gain(best):+.3f}"
        if min(len(one.metric), len(best.metric)) > 1:
            gain += f" ± {(error(one.metric) ** 2 + error(best.metric) ** 2) ** 0.5:.3f}"
        cells = [f"{best.kind.value:g}", _metric(best), _range(best.used), gain]
        _line(one.kind.set, one.kind.budget, one.kind.updates, _metric(one), _range(one.used), *cells)


def _targets(groups: List[Group]) -> List[Group]:
    """The groups that aim at a number of updates, by rule."""
    found = [one for one in groups if one.kind.rule in AIMS]
    return sorted(found, key=lambda one: (one.kind.updates, AIMS.index(one.kind.rule), -one.kind.value))
