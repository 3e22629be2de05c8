"""A table of the comparison's runs."""

import math
from statistics import mean

from .data import CHANCE

COLUMNS = ("set", "rule", "value", "cell", "gate_init", "updates")
LAST = 4  # entries of a run's trail that show what is used at the end of training


def collapsed(row: dict) -> bool:
    """Whether a run ended near chance: less than a tenth of the way from chance to a perfect metric."""
    chance = CHANCE[row["set"]]
    return row["metric"] > 0.9 * chance if row["set"] == "adding" else row["metric"] < chance + 0.1 * (1 - chance)


def print_table(rows: list) -> None:
    """Print a row of Markdown for the runs that differ only in the seed, in alphabetical order."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in COLUMNS), []).append(row)
    print("| data | budget | value | cell | gate | updates | seeds | metric | samples used | in training | at chance |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for key in sorted(groups):
        runs = sorted(groups[key], key=lambda row: row["seed"])
        columns = [[run[name] for run in runs] for name in ("metric", "fraction")]
        columns.append([mean(run["trail"][-LAST:]) if run["trail"] else math.nan for run in runs])
        shown = [f"{mean(values):.3f} ({min(values):.3f} to {max(values):.3f})" for values in columns]
        cells = [*key[:2], f"{key[2]:g}", *key[3:], len(runs), *shown, sum(map(collapsed, runs))]
        print("|", " | ".join(map(str, cells)), "|")
