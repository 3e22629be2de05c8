"""The paper's experiments as data: what differs between the rows of a table, and what the paper printed for each.

``python -m skiprnn_plugin.cli.tables TABLE [ROW...]`` prints the options of each row for ``fairseq-train``.
Imports neither fairseq nor torch, so that scripts can ask it quickly.
"""

import argparse
import sys
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from .command import UserError, run_command

# Architectures are named RULE_CELL
UPDATE_RULES = {"skip": "learned", "random_skip": "random", "full": "full"}


@dataclass(frozen=True)
class Column:
    """A number that a table reports.

    Attributes:
        title: heading; also the key of the paper's value in ``Row.paper``, where the paper has one.
        metric: the logged metric behind it.
        style: how it is printed, a key of ``skiprnn_plugin.cli.report.STYLES``.
    """

    title: str
    metric: str
    style: str


@dataclass(frozen=True)
class Row:
    """A model of a table.

    Attributes:
        name: what the command line calls it.
        label: what the table calls it.
        options: ``fairseq-train``'s options that differ between rows, by their names in Python; always ``arch`` and
            ``cost_per_sample``.
        paper: the paper's values as printed, by column title.
    """

    name: str
    label: str
    options: Dict[str, Any]
    paper: Dict[str, str]

    @property
    def cell(self) -> str:
        return self.options["arch"].rpartition("_")[2]

    @property
    def update_rule(self) -> str:
        return UPDATE_RULES[self.options["arch"].rpartition("_")[0]]

    def arguments(self) -> str:
        """``options`` as they stand on a command line."""
        return " ".join(f"--{name.replace('_', '-')} {plain(value)}" for name, value in self.options.items())


@dataclass(frozen=True)
class Table:
    """One experiment of the paper.

    Attributes:
        name: what the command line calls it.
        task: the fairseq task.
        condition: options that set the table apart from others of its task; a run with others belongs to none of its
            rows.
        settings: further options that the paper's rows have in common; a run with others is reported with a warning.
        spread: what the paper's standard deviations are over.
        columns: what is reported for each row.
        rows: in the paper's order.
    """

    name: str
    task: str
    condition: Dict[str, Any]
    settings: Dict[str, Any]
    spread: str
    columns: Tuple[Column, ...]
    rows: Tuple[Row, ...]


def plain(value: Any) -> str:
    """A value as the paper writes it: 0.02, but 1e-4 and 1e-5, not 0.0001 and 1e-05."""
    if not isinstance(value, (int, float)):
        return str(value)
    if not 0 < abs(value) < 0.01:
        return f"{value:g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise UserError(f"unknown table {name!r}; known: {', '.join(TABLES)}")
    return TABLES[name]


def _full(cell: str) -> Dict[str, Any]:
    return {"arch": f"full_{cell}", "cost_per_sample": 0}


def _random(cell: str, skip_prob: float) -> Dict[str, Any]:
    return {"arch": f"random_skip_{cell}", "cost_per_sample": 0, "skip_prob": skip_prob}


def _learned(cell: str, cost_per_sample: float) -> Dict[str, Any]:
    return {"arch": f"skip_{cell}", "cost_per_sample": cost_per_sample}


# Of both synthetic tasks
SETTINGS = {
    "hidden_size": 110,
    "num_layers": 1,
    "bidirectional": False,
    "dropout": 0,
    "zoneout": 0,
    "recurrent_dropout": 0,
    "layer_norm": False,
    "init": "authors",
    "gru_reset": "before",
    "binarize": "round",
    "update_bias": 1,
    "cost_warmup_updates": 0,
    "optimizer": "adam",
    "lr": 1e-4,
    "clip_norm": 1,
    "batch_size": 256,
}


def _adding(name: str, label: str, options: Dict[str, Any], solved: str, updates: str, flops: str) -> Row:
    return Row(name, label, options, {"solved": solved, "updates": updates, "FLOPs": flops})


ADDING = Table(
    name="adding",
    task="adding",
    condition={},
    settings={**SETTINGS, "criterion": "mse_with_budget", "sequence_length": 50, "min_value": -0.5, "max_value": 0.5},
    spread="over four runs",
    columns=(
        Column("solved", "solved", "yes_no"),
        Column("updates", "update_fraction", "percent"),
        Column("FLOPs", "flops", "scientific"),
        Column("MSE", "mse", "scientific"),
    ),
    rows=(
        _adding("lstm", "LSTM", _full("lstm"), "Yes", "100.0% ± 0.0%", "2.46e6"),
        _adding("lstm-skip-0.2", "LSTM (p_skip = 0.2)", _random("lstm", 0.2), "No", "80.0% ± 0.1%", "1.97e6"),
        _adding("lstm-skip-0.5", "LSTM (p_skip = 0.5)", _random("lstm", 0.5), "No", "50.1% ± 0.1%", "1.23e6"),
        _adding("skip-lstm-0", "Skip LSTM, lambda=0", _learned("lstm", 0), "Yes", "81.1% ± 3.6%", "2.00e6"),
        _adding("skip-lstm-1e-5", "Skip LSTM, lambda=1e-5", _learned("lstm", 1e-5), "Yes", "53.9% ± 2.1%", "1.33e6"),
        _adding("gru", "GRU", _full("gru"), "Yes", "100.0% ± 0.0%", "1.85e6"),
        _adding("gru-skip-0.02", "GRU (p_skip = 0.02)", _random("gru", 0.02), "No", "98.0% ± 0.0%", "1.81e6"),
        _adding("gru-skip-0.5", "GRU (p_skip = 0.5)", _random("gru", 0.5), "No", "49.9% ± 0.6%", "9.25e5"),
        _adding("skip-gru-0", "Skip GRU, lambda=0", _learned("gru", 0), "Yes", "97.9% ± 3.2%", "1.81e6"),
        _adding("skip-gru-1e-5", "Skip GRU, lambda=1e-5", _learned("gru", 1e-5), "Yes", "50.7% ± 2.6%", "9.40e5"),
    ),
)


def _frequency(sampling_period: float, updates: Sequence[str]) -> Table:
    """The table of one sampling period, in ms, from the updates that the paper printed."""
    models = (
        ("lstm", "LSTM", _full("lstm")),
        ("skip-lstm-0", "Skip LSTM, lambda=0", _learned("lstm", 0)),
        ("skip-lstm-1e-5", "Skip LSTM, lambda=1e-5", _learned("lstm", 1e-5)),
        ("skip-lstm-1e-4", "Skip LSTM, lambda=1e-4", _learned("lstm", 1e-4)),
        ("gru", "GRU", _full("gru")),
        ("skip-gru-0", "Skip GRU, lambda=0", _learned("gru", 0)),
        ("skip-gru-1e-5", "Skip GRU, lambda=1e-5", _learned("gru", 1e-5)),
        ("skip-gru-1e-4", "Skip GRU, lambda=1e-4", _learned("gru", 1e-4)),
    )
    return Table(
        name=f"frequency-{plain(sampling_period)}ms",
        task="frequency_discrimination",
        condition={"sampling_period": sampling_period},
        settings={
            **SETTINGS,
            "criterion": "cross_entropy_with_budget",
            "sequence_duration": 100,
            "min_period": 1,
            "max_period": 100,
        },
        spread="over four runs",
        columns=(
            Column("solved", "solved", "yes_no"),
            Column("updates", "updates", "count"),
            Column("accuracy", "accuracy", "fraction"),
        ),
        # The paper solves the task with all of them
        rows=tuple(Row(*model, {"solved": "Yes", "updates": printed}) for model, printed in zip(models, updates)),
    )


FREQUENCY = (
    _frequency(
        1,
        (
            "100.0 ± 0.00", "55.5 ± 16.9", "47.4 ± 14.1", "12.7 ± 0.5",
            "100.0 ± 0.00", "73.7 ± 17.9", "51.9 ± 10.2", "23.5 ± 6.2",
        ),
    ),
    _frequency(
        0.5,
        (
            "200.0 ± 0.00", "147.9 ± 27.0", "50.7 ± 16.8", "19.9 ± 1.5",
            "200.0 ± 0.00", "167.0 ± 18.3", "54.2 ± 4.4", "22.5 ± 2.1",
        ),
    ),
)  # fmt: skip

TABLES = {table.name: table for table in (ADDING, *FREQUENCY)}


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skiprnn_plugin.cli.tables",
        description="Print a line 'name<TAB>options of fairseq-train' for each row of one of the paper's tables.",
    )
    parser.add_argument("table", metavar="TABLE", help=f"one of: {', '.join(TABLES)}")
    parser.add_argument("rows", metavar="ROW", nargs="*", help="names of rows (default: all, in the paper's order)")
    args = parser.parse_args(argv)
    return run_command(parser.prog, list_rows, args.table, args.rows)


def list_rows(table_name: str, names: Sequence[str]) -> str:
    rows = {row.name: row for row in find_table(table_name).rows}
    for name in names:
        if name not in rows:
            raise UserError(f"unknown row {name!r} of table {table_name!r}; known: {', '.join(rows)}")
    return "\n".join(f"{name}\t{rows[name].arguments()}" for name in names or rows)


if __name__ == "__main__":
    sys.exit(main())
