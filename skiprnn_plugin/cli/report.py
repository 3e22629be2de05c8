"""``skiprnn-report``: the paper's tables, with the values of our own runs beside the paper's."""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..arguments import UserError
from ..runs.checkpoint import add_loading_arguments, check_split, prepare_loading, read_runs
from ..runs.find import RUN_HELP, find_file, find_files
from ..runs.rows import describe, describe_experiment, find_departures, find_row, find_table_of
from ..runs.run import SPEED, Run
from ..runs.saved import as_saved
from ..runs.tables import TABLES, Column, Row, Table, find_table, plain
from .command import as_table, run_command

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
        prog=PROGRAM, description="Print tables of the paper with our own runs beside it; without a RUN, all tables."
    )
    parser.add_argument("runs", metavar="RUN", nargs="*", help=RUN_HELP)
    parser.add_argument(
        "--table", help=f"one of: {', '.join(TABLES)}; or all, each with its runs (default: those that have runs)"
    )
    parser.add_argument(
        "--split",
        help="held-out split to report (default: test where the paper has one beside its validation set: "
        f"{', '.join(table.name for table in TABLES.values() if table.split == 'test')}; else valid)",
    )
    parser.add_argument(
        "--checkpoint",
        choices=("last", "best"),
        help="which checkpoint of a save-dir to take (default: last, or its log if it has none); best: by "
        "--best-checkpoint-metric",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list, unrounded, with each run's values")
    parser.add_argument("--all", action="store_true", help="show rows without runs too")
    add_loading_arguments(parser)
    return run_command(PROGRAM, report, parser.parse_args(argv))


def report(args: argparse.Namespace) -> str:
    check_split(args.split)
    chosen = None if args.table in (None, "all") else find_table(args.table)
    files = find_files(args.runs, partial(find_file, checkpoint=args.checkpoint))
    runs = read_runs(files, args.split or chosen and chosen.split, prepare_loading(args))
    tables = [(chosen, runs)] if chosen else _assign(runs)
    if args.table is None and runs:
        tables = [(table, found) for table, found in tables if found]

    lines, sections = [], []
    for table, found in tables:
        groups = group_runs(found, table)
        with_runs = [group for group in groups if group.runs]
        name = f"{table.name}: " if len(tables) > 1 else ""
        for note in find_faults(with_runs, table, ("seed", "num_updates") if args.checkpoint == "best" else ("seed",)):
            print(f"{PROGRAM}: warning: {name}{note}", file=sys.stderr)
        shown = groups if args.all or args.table == "all" or not runs else with_runs
        split = args.split or table.split
        lines += [as_json(group, table, split) for group in shown]
        sections.append((f"## {table.title}\n\n" if len(tables) > 1 else "") + as_markdown(shown, table, split))
    return json.dumps(lines, indent=2, default=list) if args.json else "\n\n".join(sections)


def _assign(runs: Sequence[Run]) -> List[Tuple[Table, List[Run]]]:
    """Every table with the runs of its experiment."""
    found: Dict[str, List[Run]] = {name: [] for name in TABLES}
    for run in runs:
        table = find_table_of(run.options)
        if table is None:
            experiment = describe_experiment(run.options, data=True)
            raise UserError(
                f"{run.path}: belongs to none of the paper's tables, as a run of task {experiment}; "
                "skiprnn-plot tradeoff RUN... prints and draws any runs (and --table sets them beside a table)"
            )
        found[table.name].append(run)
    return [(TABLES[name], table_runs) for name, table_runs in found.items()]


def group_runs(runs: Sequence[Run], table: Table) -> List[Group]:
    """A group for each row of the table, even without runs; then groups of the runs that repeat no row, by label."""
    groups: Dict[Any, Group] = {row.name: Group(row.label, row, []) for row in (*table.rows, *table.cited)}
    for run in runs:
        row = find_row(table, run.options)
        label = row.label if row else _describe_stranger(table, run.options)
        key = row.name if row else (label, run.options["task"])
        groups.setdefault(key, Group(label, row, [])).runs.append(run)
    return list(groups.values())


def _describe_stranger(table: Table, options: Mapping[str, Any]) -> str:
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


def as_markdown(groups: Sequence[Group], table: Table, split: str) -> str:
    printed = [column for column in table.columns if any(column.title in row.paper for row in table.rows)]
    ours = [c.title + (" ± over sequences" if c.spread else "") for c in table.columns]
    head = ["model", *(f"{c.title} (paper)" for c in printed), *ours, "runs"]
    lines = []
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
    special = " and ".join(c.title for c in table.columns if c.spread)
    over = f"over runs, of {special} standard deviation over sequences" if special else "over runs"
    note = f"±: sample standard deviation {over} (the paper's: {table.spread}). Held-out split: {split}"
    return f"{as_table(head, lines)}\n\n{note}, {_count_sequences(groups)}."


def _count_sequences(groups: Sequence[Group]) -> str:
    counts = sorted({run.sequences or 0 for group in groups for run in group.runs})
    if not counts:
        return "no runs"
    return " or ".join(f"{count:,}" if count else "an unknown number of" for count in counts) + " sequences"


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
            as_saved(run, {name: _finite(run.metrics[name]) for name in run.metrics if name not in SPEED})
            for run in group.runs
        ],
    }


def _finite(value: Optional[float]) -> Optional[float]:
    return value if value is not None and math.isfinite(value) else None


if __name__ == "__main__":
    sys.exit(main())
