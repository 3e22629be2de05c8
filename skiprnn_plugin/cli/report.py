"""``skiprnn-report``: one of the paper's tables, with the values of our own runs beside the paper's."""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .checkpoint import check_split, import_user_dir, read_run
from .command import UserError, run_command
from .runs import (
    RUN_HELP,
    SPEED,
    Run,
    belongs_to,
    describe,
    describe_experiment,
    find_departures,
    find_files,
    find_row,
)
from .tables import TABLES, Column, Row, Table, find_table, plain

PROGRAM = "skiprnn-report"


@dataclass
class Group:
    """The runs of one row or label, a line of the report; a warning says where they differ in more than the seed."""

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


def _yes_no(values: Sequence[float]) -> str:
    return ("Yes" if values[0] else "No") if len(values) == 1 else f"{int(sum(values))}/{len(values)}"


def _scientific(values: Sequence[float]) -> str:
    mantissa, e, exponent = f"{mean(values):.2e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa  # nan and inf have no exponent


STYLES = {"yes_no": _yes_no, "scientific": _scientific}


def show(group: Group, column: Column) -> str:
    """The column's value of a row: mean and spread in the column's style; "-" where it is missing."""
    values = group.values(column.metric)
    if not values:
        return "-"
    if column.style in STYLES:
        return STYLES[column.style](values)
    spread = mean(group.values(column.spread)) if column.spread else deviation(values)
    return f"{mean(values):{column.style}}" + ("" if spread is None else f" ± {spread:{column.style}}")


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Print a table of the paper with our own runs beside it."
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help=RUN_HELP,
    )
    parser.add_argument("--table", help=f"one of: {', '.join(TABLES)} (default: the one that the runs belong to)")
    parser.add_argument("--split", default="valid", help="held-out split to report (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a JSON list, unrounded, with each run's values")
    parser.add_argument("--all", action="store_true", help="show the table's other rows too")
    parser.add_argument("--user-dir", metavar="DIR", help="your own fairseq plugin, if the checkpoints need one")
    return run_command(PROGRAM, report, parser.parse_args(argv))


def report(args: argparse.Namespace) -> str:
    check_split(args.split)
    table = find_table(args.table) if args.table else None
    files = find_files(args.runs)
    if args.user_dir:
        import_user_dir(args.user_dir)
    runs = [read_run(file, args.split) for file in files]
    table = table or _infer_table(runs)
    groups = group_runs(runs, table)
    with_runs = [group for group in groups if group.runs]
    _warn(with_runs, table)
    shown = groups if args.all else with_runs
    if args.json:
        return json.dumps([as_json(group, table, args.split) for group in shown], indent=2)
    return as_markdown(shown, table, args.split)


def _infer_table(runs: Sequence[Run]) -> Table:
    fitting = [table for table in TABLES.values() if all(belongs_to(table, run.options) for run in runs)]
    if len(fitting) != 1:
        kinds = sorted({describe_experiment(run.options) for run in runs})
        raise UserError(f"--table: needed for runs of task {', '.join(kinds)}; known: {', '.join(TABLES)}")
    return fitting[0]


def group_runs(runs: Sequence[Run], table: Table) -> List[Group]:
    """A group for each row of the table, perhaps without runs; then the runs that repeat no row, by what they are."""
    groups: Dict[Any, Group] = {row.name: Group(row.label, row, []) for row in (*table.rows, *table.cited)}
    for run in runs:
        row = find_row(table, run.options)
        label = row.label if row else _describe_stranger(table, run.options)
        key = row.name if row else (label, run.options["task"])
        groups.setdefault(key, Group(label, row, [])).runs.append(run)
    return list(groups.values())


def _describe_stranger(table: Table, options: Mapping[str, Any]) -> str:
    """A label that tells a run from the table's rows, and from those with another value of the table's condition."""
    others = {
        name: options[name] for name in table.condition if name in options and options[name] != table.condition[name]
    }
    return ", ".join([describe(options), *(f"{name} {plain(value)}" for name, value in others.items())])


def _warn(groups: Sequence[Group], table: Table) -> None:
    """Say on standard error where runs are no repetitions of each other, or of the paper's."""
    for group in groups:
        options, *others = (run.options for run in group.runs)
        notes = [
            f"runs differ in {name}"
            for name in options
            if name != "seed" and any(name in other and other[name] != options[name] for other in others)
        ]
        seeds = [run.options.get("seed") for run in group.runs]
        if len(set(seeds)) < len(seeds):
            notes.append("runs share a seed")
        for name, value in find_departures(table, options).items() if group.row else ():
            notes.append(f"the paper has {name} {plain(value)}, the run has {plain(options[name])}")
        for note in notes:
            print(f"{PROGRAM}: warning: {group.label}: {note}", file=sys.stderr)


def as_markdown(groups: Sequence[Group], table: Table, split: str) -> str:
    printed = [column for column in table.columns if any(column.title in row.paper for row in table.rows)]
    head = ["model", *(f"{c.title} (paper)" for c in printed), *(c.title for c in table.columns), "runs"]
    lines = [head, ["---"] * len(head)]
    for group in groups:
        paper = group.row.paper if group.row else {}
        lines.append(
            [
                group.label,
                *(paper.get(c.title, "-") for c in printed),
                *(show(group, column) for column in table.columns),
                str(len(group.runs)) if group.runs else "-",
            ]
        )
    counts = sorted({run.sequences or 0 for group in groups for run in group.runs})
    sequences = " or ".join(f"{count:,}" if count else "an unknown number of" for count in counts)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        f"{rows}\n\n±: sample standard deviation over runs (the paper's: {table.spread}). "
        f"Held-out split: {split}, {sequences} sequences."
    )


def as_json(group: Group, table: Table, split: str) -> Dict[str, Any]:
    """A line of the report, unrounded; what is missing or not a finite number is null."""
    metrics = [name for column in table.columns for name in (column.metric, column.spread) if name]
    return {
        "table": table.name,
        "row": group.row and group.row.name,
        "label": group.label,
        "paper": group.row.paper if group.row else {},
        "split": split,
        "mean": {metric: _finite(mean(group.values(metric))) for metric in metrics},
        "std": {metric: _finite(deviation(group.values(metric))) for metric in metrics},
        "runs": [
            {
                "path": str(run.path),
                "sequences": run.sequences,
                "metrics": {name: _finite(run.metrics[name]) for name in run.metrics if name not in SPEED},
            }
            for run in group.runs
        ],
    }


def _finite(value: Optional[float]) -> Optional[float]:
    return value if value is not None and math.isfinite(value) else None


if __name__ == "__main__":
    sys.exit(main())
