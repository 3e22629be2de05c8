"""Groups runs for a report: by the paper's table that a run belongs to, and by the row that it repeats."""

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .rows import describe, find_departures, find_row, find_table_of
from .run import Run
from .tables import TABLES, Row, Table, plain


@dataclass
class Group:
    """The runs of one row, or of one label if they repeat no row: a line of the report."""

    label: str
    row: Optional[Row]
    runs: List[Run]

    def values(self, metric: str) -> List[float]:
        """The metric in every run; empty if there are no runs or one of them lacks it."""
        values = [run.metrics.get(metric) for run in self.runs]
        return [] if None in values else values


def mean(values: Sequence[float]) -> Optional[float]:
    return sum(values) / len(values) if values else None


def deviation(values: Sequence[float]) -> Optional[float]:
    """Sample standard deviation (over n - 1); None for fewer than two values."""
    if len(values) < 2:
        return None
    center = mean(values)
    return math.sqrt(sum((value - center) * (value - center) for value in values) / (len(values) - 1))


def assign_tables(runs: Sequence[Run]) -> Tuple[List[Tuple[Table, List[Run]]], List[Run]]:
    """Every table of the paper with the runs of its experiment; and the runs that belong to none of the tables."""
    found: Dict[str, List[Run]] = {name: [] for name in TABLES}
    others: List[Run] = []
    for run in runs:
        table = find_table_of(run.options)
        (others if table is None else found[table.name]).append(run)
    return [(TABLES[name], table_runs) for name, table_runs in found.items()], others


def group_runs(runs: Sequence[Run], table: Table) -> List[Group]:
    """A group for each row of the table, even without runs; then groups of the runs that repeat no row, by label."""
    groups: Dict[Any, Group] = {row.name: Group(row.label, row, []) for row in (*table.rows, *table.cited)}
    for run in runs:
        row = find_row(table, run.options)
        label = row.label if row else _describe_unlisted_run(table, run.options)
        key = row.name if row else (label, run.options["task"])
        groups.setdefault(key, Group(label, row, [])).runs.append(run)
    return list(groups.values())


def _describe_unlisted_run(table: Table, options: Mapping[str, Any]) -> str:
    """A label that tells a run from the table's rows, and from those of another experiment or other data."""
    expected = {**table.condition, **table.data}
    others = {name: options[name] for name in expected if name in options and options[name] != expected[name]}
    return ", ".join([describe(options), *(f"{name} {plain(value)}" for name, value in others.items())])


def find_faults(groups: Sequence[Group], table: Table, repeated: Sequence[str]) -> Iterator[str]:
    """Warnings: where runs of a group differ in more than the options ``repeated``, or depart from the paper."""
    for group in groups:
        options, *others = (run.options for run in group.runs)
        for name in options:
            if name not in repeated and any(name in other and other[name] != options[name] for other in others):
                yield f"{group.label}: runs differ in {name}"
        seeds = [run.options.get("seed") for run in group.runs]
        if len(set(seeds)) < len(seeds):
            yield f"{group.label}: runs share a seed"
        for name, value in find_departures(table, options).items() if group.row else ():
            yield f"{group.label}: the paper has {name} {plain(value)}, the run has {plain(options[name])}"
