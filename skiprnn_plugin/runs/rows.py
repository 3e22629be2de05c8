"""Which table and row of the paper a run repeats, from its options; and a label for a run that repeats none."""

import math
from typing import Any, Dict, List, Mapping, Optional

from ..dials import find_dials
from .tables import TABLES, Row, Table, plain

TRAINING = ("optimizer", "lr", "clip_norm", "batch_size")  # options that say how a model was trained


def reported_split(options: Mapping[str, Any]) -> str:
    """The held-out split that the paper's tables of a run's task report."""
    return next((table.split for table in TABLES.values() if table.task == options["task"]), "valid")


def find_table_of(options: Mapping[str, Any]) -> Optional[Table]:
    """The table whose experiment a run with these options belongs to, or None."""
    return next((table for table in TABLES.values() if belongs_to(table, options)), None)


def belongs_to(table: Table, options: Mapping[str, Any]) -> bool:
    """Whether a run with these options belongs to the table's experiment, even if it repeats none of its rows."""
    return _has(options, {"task": table.task, **table.condition, **table.data})


def find_row(table: Table, options: Mapping[str, Any]) -> Optional[Row]:
    """The row that a run with these options repeats, or None."""
    return next((row for row in table.rows if _repeats(table, row, options)), None)


def describe_experiment(options: Mapping[str, Any], data: bool = False) -> str:
    """The task, and the options that tell its tables apart; with ``data`` also those that tell their data apart."""
    tables = [table for table in TABLES.values() if table.task == options["task"]]
    names = {name: None for table in tables for name in (*table.condition, *(table.data if data else ()))}
    chosen = " and ".join(f"{name} {plain(options.get(name))}" for name in names)
    return options["task"] + (f" with {chosen}" if chosen else "")


def name_experiment(options: Mapping[str, Any]) -> str:
    """The experiment in words, for the title of a picture: the table's title, or else the task's name."""
    table = find_table_of(options)
    return table.title if table else options["task"].replace("_", " ").capitalize()


def find_departures(table: Table, options: Mapping[str, Any]) -> Dict[str, Any]:
    """The settings of a table in which a run with these options departs from the paper, with the paper's values."""
    return {
        name: value
        for name, value in table.settings.items()
        if (name != "gru_reset" or options.get("cell") == "gru") and not same(options.get(name, value), value)
    }


def _repeats(table: Table, row: Row, options: Mapping[str, Any]) -> bool:
    wanted = {**row.options, "cell": row.cell, "update_rule": row.update_rule}
    if find_dials(options):
        return False
    del wanted["arch"]  # other options may make one architecture of another
    if row.update_rule == "learned":
        wanted.update(budget="per_sample", target_fraction=None)
    else:
        del wanted["cost_per_sample"]  # a constant, where there is no gate to learn
    return belongs_to(table, options) and _has(options, wanted)


def _has(options: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(same(options.get(name), value) for name, value in wanted.items())


def same(a: Any, b: Any) -> bool:
    """Whether two values of an option are equal, numbers up to rounding."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-6)
    return a == b


def describe(options: Mapping[str, Any]) -> str:
    """A label for a run that repeats none of the paper's rows, in the style of the paper's."""
    return ", ".join([_describe_model(options), *describe_dials(options)])


def describe_dials(options: Mapping[str, Any]) -> List[str]:
    """Those dials of a run that have another value than in training."""
    return [f"{name.replace('_', ' ')} {plain(value)}" for name, value in find_dials(options).items()]


def _describe_model(options: Mapping[str, Any]) -> str:
    cell, rule = str(options.get("cell")).upper(), options.get("update_rule")
    if rule == "full":
        return cell
    if rule == "random":
        return f"{cell} (p_skip = {plain(options['skip_prob'])})"
    if rule != "learned":
        return options["arch"]
    if options.get("target_fraction") is not None:
        return f"Skip {cell}, target {plain(options['target_fraction'])}"
    budget = options.get("budget", "per_sample")
    target = "" if budget == "per_sample" else f", {budget} to {plain(options['target_updates'])}"
    return f"Skip {cell}, lambda={plain(options.get('cost_per_sample', 0))}{target}"
