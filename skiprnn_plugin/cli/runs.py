"""What a run is: a fairseq save-dir, a checkpoint or a JSON log, read as its options and its held-out metrics."""

import ast
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .command import UserError
from .tables import TABLES, Row, Table, plain

RUN_HELP = (
    "a fairseq save-dir (its checkpoint_last.pt, else its one *.log), a checkpoint (*.pt, evaluated anew) or a log of "
    "fairseq-train --log-format json (its last validation)"
)
TRAINING = ("optimizer", "lr", "clip_norm", "batch_size")  # options of how a model was trained
SPEED = ("wps", "wpb", "bsz")  # logged by fairseq; about the machine and the batches, not the model


@dataclass
class Run:
    """A trained model on a held-out split.

    Attributes:
        path: the checkpoint or log that it was read from.
        options: the model's, criterion's and task's options, and their names (``arch``, ``criterion``, ``task``).
        metrics: what fairseq logs in a validation, without the split's name.
        sequences: how many held-out sequences that was; None where a log does not tell.
    """

    path: Path
    options: Dict[str, Any]
    metrics: Dict[str, float]
    sequences: Optional[int]


def find_file(path: str) -> Path:
    """The file that a RUN argument stands for: a save-dir's last checkpoint or else its log, or the file itself."""
    run = Path(path)
    if not run.exists():
        raise UserError(f"{run}: no such file or folder")
    if not run.is_dir():
        return run
    checkpoint = run / "checkpoint_last.pt"
    if checkpoint.exists():
        return checkpoint
    logs = sorted(run.glob("*.log"))
    if len(logs) != 1:
        found = f"several logs ({', '.join(log.name for log in logs)}): name one" if logs else "no log (*.log)"
        raise UserError(f"{run}: holds no checkpoint_last.pt and {found}")
    return logs[0]


def find_files(paths: Sequence[str]) -> List[Path]:
    """The files that RUN arguments stand for, each given once."""
    files: List[Path] = []
    for file in map(find_file, paths):
        if any(file.samefile(other) for other in files):
            raise UserError(f"{file}: given twice")
        files.append(file)
    return files


def is_checkpoint(path: Path) -> bool:
    return path.suffix == ".pt"


def collect_options(cfg: Mapping[str, Any]) -> Dict[str, Any]:
    """One flat dictionary from the parts of a fairseq configuration that say what was trained, and how."""
    names = {"arch": cfg["model"]["_name"], "criterion": cfg["criterion"]["_name"], "task": cfg["task"]["_name"]}
    training = {
        "optimizer": cfg["optimizer"]["_name"],
        "lr": cfg["optimization"]["lr"][0],
        "clip_norm": cfg["optimization"]["clip_norm"],
        "batch_size": cfg["dataset"]["batch_size"],
    }
    return {**cfg["model"], **cfg["criterion"], **cfg["task"], **training, **names}


def read_log(path: Path, split: str) -> Run:
    """The last validation in a log of ``fairseq-train --log-format json``: its ``--log-file`` or captured output.

    Such a log holds the configuration, as Python prints it, and a line of JSON for each validation.
    """
    config = metrics = None
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if "{'_name'" in line:
                    config = line[line.index("{'_name'") :]
                elif f'"{split}_loss"' in line and line.rstrip().endswith("}"):  # the last line may be half written
                    metrics = line[line.index("{") :]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if config is None:
        raise UserError(
            f"{path}: neither a checkpoint (*.pt) nor a log of fairseq-train (its configuration is missing)"
        )
    if metrics is None:
        raise UserError(f"{path}: no validation of split {split!r} in this log (--log-format json writes them)")
    prefix = f"{split}_"
    try:
        options = collect_options(ast.literal_eval(config.strip()))
        logged = json.loads(metrics)
        numbers = {name[len(prefix) :]: float(value) for name, value in logged.items() if name.startswith(prefix)}
        options["num_updates"] = int(numbers["num_updates"])
        sequences = int(options["valid_size"]) if "valid_size" in options else None
    except (ValueError, SyntaxError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"{path}: a damaged log ({type(error).__name__} in its configuration or validation)") from error
    return Run(path, options, numbers, sequences)


def belongs_to(table: Table, options: Mapping[str, Any]) -> bool:
    """Whether a run with these options is one of the table's experiment, if perhaps of none of its rows."""
    return _has(options, {"task": table.task, **table.condition})


def find_row(table: Table, options: Mapping[str, Any]) -> Optional[Row]:
    """The row that a run with these options repeats, or None."""
    return next((row for row in table.rows if _repeats(table, row, options)), None)


def describe_experiment(options: Mapping[str, Any]) -> str:
    """The task, and what chooses between its tables if it has several."""
    names = {name: None for table in TABLES.values() if table.task == options["task"] for name in table.condition}
    chosen = " and ".join(f"{name} {plain(options.get(name))}" for name in names)
    return options["task"] + (f" with {chosen}" if chosen else "")


def find_departures(table: Table, options: Mapping[str, Any]) -> Dict[str, Any]:
    """The settings of a table's rows that a run with these options has otherwise, with the paper's values."""
    return {
        name: value
        for name, value in table.settings.items()
        if (name != "gru_reset" or options.get("cell") == "gru") and not same(options.get(name, value), value)
    }


def _repeats(table: Table, row: Row, options: Mapping[str, Any]) -> bool:
    wanted = {**row.options, "cell": row.cell, "update_rule": row.update_rule}
    del wanted["arch"]  # options may turn one into another
    if row.update_rule == "learned":
        wanted.update(budget="per_sample", target_fraction=None)
    else:
        del wanted["cost_per_sample"]  # a constant, where there is no gate to learn
    return belongs_to(table, options) and _has(options, wanted)


def _has(options: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(same(options.get(name), value) for name, value in wanted.items())


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-6)
    return a == b


def describe(options: Mapping[str, Any]) -> str:
    """A label in the paper's manner for a run that repeats none of its rows."""
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
