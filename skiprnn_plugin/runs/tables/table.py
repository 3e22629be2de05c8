"""What a table of the paper is, and what the rows of several tables have in common."""

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence, Tuple

from ...arguments import as_option

# Architectures are named RULE_CELL
UPDATE_RULES = {"skip": "learned", "random_skip": "random", "full": "full"}


@dataclass(frozen=True)
class Column:
    """A number that a table reports.

    Attributes:
        title: the paper's heading; also the key of its value in ``Row.paper``, where the paper has one.
        metric: the logged metric behind it.
        style: how it is printed: a key of ``skiprnn_plugin.cli.report.STYLES``, or a format specification of Python.
        spread: the logged metric that follows the ±; None for the deviation over runs.
    """

    title: str
    metric: str
    style: str
    spread: Optional[str] = None

    @property
    def heading(self) -> str:
        """What a report calls the column. "Updates" alone could also be training updates."""
        return "samples used" if self.title == "updates" else self.title


@dataclass(frozen=True)
class Row:
    """A model of a table.

    Attributes:
        name: what the command line calls it.
        label: what the table calls it.
        options: ``fairseq-train``'s options that differ between rows, by their names in Python; always ``arch`` and
            ``cost_per_sample``. Empty for a result that the paper cites.
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
        """``options`` as a command line has them."""
        return " ".join(f"{as_option(name)} {plain(value)}" for name, value in self.options.items())


@dataclass(frozen=True)
class Table:
    """One experiment of the paper.

    Attributes:
        name: what the command line calls it.
        title: heading of a report.
        task: the fairseq task.
        condition: options that set the table apart from others of its task; a run with others belongs to none of its
            rows.
        settings: further options that the paper's rows have in common; a run with others is reported with a warning.
        spread: what the paper's standard deviations are over.
        columns: what is reported for each row.
        rows: in the paper's order.
        cited: other authors' results, which the paper prints below; no run repeats them.
        split: the held-out split to report.
        data: options that only runs on the paper's data have; a run with others belongs to none of its rows.
    """

    name: str
    title: str
    task: str
    condition: Dict[str, Any]
    settings: Dict[str, Any]
    spread: str
    columns: Tuple[Column, ...]
    rows: Tuple[Row, ...]
    cited: Tuple[Row, ...] = ()
    split: str = "valid"
    data: Dict[str, Any] = field(default_factory=dict)


def plain(value: Any) -> str:
    """A value as the paper writes it: 0.02, but 1e-4 and 1e-5, not 0.0001 and 1e-05."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if not 0 < abs(value) < 0.01:
        return f"{value:g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


# The settings of all experiments, unless a table says otherwise
SETTINGS = {
    "hidden_size": 110,
    "num_layers": 1,
    "bidirectional": False,
    "dropout": 0,
    "zoneout": 0,
    "recurrent_dropout": 0,
    "layer_norm": False,
    "init": "authors",
    "chrono_init": 0,
    "gru_reset": "before",
    "binarize": "round",
    "update_bias": 1,
    "gate_init": "authors",
    "cost_warmup_updates": 0,
    "criterion": "cross_entropy_with_budget",
    "optimizer": "adam",
    "lr": 1e-4,
    "clip_norm": 1,
    "batch_size": 256,
}


# A model's name, label and options. Numbers are given as the paper writes them.
Model = Tuple[str, str, Dict[str, Any]]


def full(cell: str) -> Model:
    return cell, cell.upper(), {"arch": f"full_{cell}", "cost_per_sample": 0}


def random(cell: str, skip_prob: str) -> Model:
    options = {"arch": f"random_skip_{cell}", "cost_per_sample": 0, "skip_prob": float(skip_prob)}
    return f"{cell}-skip-{skip_prob}", f"{cell.upper()} (p_skip = {skip_prob})", options


def learned(cell: str, cost_per_sample: str) -> Model:
    options = {"arch": f"skip_{cell}", "cost_per_sample": float(cost_per_sample)}
    return f"skip-{cell}-{cost_per_sample}", f"Skip {cell.upper()}, lambda={cost_per_sample}", options


def cited(label: str) -> Model:
    return "cited-" + "-".join(label.lower().split()), f"{label} (cited)", {}


def make_rows(titles: Sequence[str], *lines: Tuple[Model, Sequence[str]]) -> Tuple[Row, ...]:
    """Rows from models and what the paper printed for them under these column titles, "-" where it has no value."""
    return tuple(
        Row(*model, {title: value for title, value in zip(titles, values) if value != "-"}) for model, values in lines
    )
