"""``skiprnn-report``: the paper's tables, with the values of a user's own runs beside the paper's; and a plain table of
other runs."""

import argparse
import json
import sys
from functools import partial
from typing import Optional, Sequence

from ..runs.checkpoint import sweep_runs
from ..runs.find import find_file, find_files
from ..runs.groups import Group, assign_tables, deviation, find_faults, group_runs, mean
from ..runs.plain_table import group_models, make_plain_tables
from ..runs.saved import as_plain, as_saved
from ..runs.tables import TABLES, Column, Table, find_table
from .command import add_version, as_table, run_command
from .loading import RUN_HELP, add_loading_arguments, add_sweep_argument, check_split, prepare_sweep

PROGRAM = "skiprnn-report"


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
        prog=PROGRAM,
        description="Print the paper's tables, with the values of your own runs beside the paper's; for runs of other "
        "tasks, data or models, also fairseq's, a table of their metrics; without a RUN, all tables of the paper.",
    )
    add_version(parser)
    parser.add_argument("runs", metavar="RUN", nargs="*", help=RUN_HELP)
    parser.add_argument(
        "--table",
        help=f"one of: {', '.join(TABLES)}; or all, with the runs of every table (default: the tables that have runs)",
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
    parser.add_argument("--json", action="store_true", help="print a JSON list of unrounded values, also of every run")
    parser.add_argument("--all", action="store_true", help="show rows without runs too")
    add_sweep_argument(parser)
    add_loading_arguments(parser)
    return run_command(PROGRAM, report, parser.parse_args(argv))


def report(args: argparse.Namespace) -> str:
    check_split(args.split)
    chosen = None if args.table in (None, "all") else find_table(args.table)
    files = find_files(args.runs, partial(find_file, checkpoint=args.checkpoint))
    runs = sweep_runs(files, args.split or chosen and chosen.split, prepare_sweep(args))
    tables, others = ([(chosen, runs)], []) if chosen else assign_tables(runs)
    if args.table is None and runs:
        tables = [(table, found) for table, found in tables if found]
    tables += make_plain_tables(others)

    # By when they were best, runs differ
    is_best = args.checkpoint == "best" or all(file.name == "checkpoint_best.pt" for file in files)
    repeated = ("seed", "num_updates") if is_best else ("seed",)
    lines, sections = [], []
    for table, found in tables:
        groups = group_runs(found, table) if table.rows else group_models(found)
        with_runs = [group for group in groups if group.runs]
        name = f"{table.name}: " if len(tables) > 1 else ""
        for note in find_faults(with_runs, table, repeated):
            print(f"{PROGRAM}: warning: {name}{note}", file=sys.stderr)
        shown = groups if args.all or args.table == "all" or not runs else with_runs
        split = args.split or table.split
        lines += [as_saved(group, table, split) for group in shown]
        sections.append((f"## {table.title}\n\n" if len(tables) > 1 else "") + as_markdown(shown, table, split))
    return json.dumps(lines, indent=2, default=as_plain) if args.json else "\n\n".join(sections)


def as_markdown(groups: Sequence[Group], table: Table, split: str) -> str:
    printed = [column for column in table.columns if any(column.title in row.paper for row in table.rows)]
    ours = [c.heading + (" ± over sequences" if c.spread else "") for c in table.columns]
    head = ["model", *(f"{c.heading} (paper)" for c in printed), *ours, "runs", "training updates"]
    lines = []
    for group in groups:
        paper = group.row.paper if group.row else {}
        lines.append(
            [
                group.label,
                *(paper.get(c.title, "-") for c in printed),
                *(show(group, column) for column in table.columns),
                str(len(group.runs)) if group.runs else "-",
                _show_range(sorted(run.options["num_updates"] for run in group.runs if "num_updates" in run.options)),
            ]
        )
    special = " and ".join(c.heading for c in table.columns if c.spread)
    over = f"over runs, of {special} standard deviation over sequences" if special else "over runs"
    paper = f" (the paper's: {table.spread})" if table.spread else ""
    note = f"±: sample standard deviation {over}{paper}. Held-out split: {split}"
    return f"{as_table(head, lines)}\n\n{note}, {_count_sequences(groups)}."


def _show_range(values: Sequence[float]) -> str:
    """The sorted values as "60,000", or "12,000 to 60,000" where they differ; "-" if there are none."""
    return " to ".join(f"{value:,.0f}" for value in dict.fromkeys((*values[:1], *values[-1:]))) or "-"


def _count_sequences(groups: Sequence[Group]) -> str:
    counts = sorted({run.sequences or 0 for group in groups for run in group.runs})
    if not counts:
        return "no runs"
    return " or ".join(f"{count:,}" if count else "an unknown number of" for count in counts) + " sequences"


if __name__ == "__main__":
    sys.exit(main())
