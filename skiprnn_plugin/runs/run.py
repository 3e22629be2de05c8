"""What a run is: a fairseq save-dir, a checkpoint or a JSON log, read as its options and its held-out metrics."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..arguments import UserError
from ..reading import is_hidden
from .tables import TABLES, Row, Table, plain

RUN_HELP = (
    "a fairseq save-dir (its checkpoint_last.pt, else its one *.log), a checkpoint (*.pt, evaluated anew), a log of "
    "fairseq-train --log-format json (its last validation), or the JSON of an earlier skiprnn-report (*.json, all its "
    "runs)"
)
TRAINING = ("optimizer", "lr", "clip_norm", "batch_size")  # options of how a model was trained
PATHS = ("_dir", "_path")  # ends of the names of options that name a file or folder
SPEED = ("wps", "wpb", "bsz")  # logged by fairseq; about the machine and the batches, not the model


@dataclass
class Run:
    """A trained model on a held-out split.

    Attributes:
        path: the checkpoint or log that it was read from.
        options: the model's, criterion's and task's options, and their names (``arch``, ``criterion``, ``task``), as
            :func:`collect_options` has them.
        metrics: what fairseq logs in a validation, without the split's name.
        sequences: how many held-out sequences that was; None where a log does not tell.
    """

    path: Path
    options: Dict[str, Any]
    metrics: Dict[str, float]
    sequences: Optional[int]


def find_log(path: str) -> Path:
    """The log that a RUN argument stands for: a save-dir's one, or the file itself."""
    run = Path(path)
    if not run.exists():
        raise UserError(f"{run}: no such file or folder")
    return _only_log(run, "holds") if run.is_dir() else run


def _only_log(folder: Path, found: str) -> Path:
    logs = sorted(log for log in folder.glob("*.log") if not is_hidden(log.name))
    if len(logs) != 1:
        names = f"several logs ({', '.join(log.name for log in logs)}): name one" if logs else "no log (*.log)"
        raise UserError(f"{folder}: {found} {names}")
    return logs[0]


def find_file(path: str, checkpoint: Optional[str] = None) -> Path:
    """The file that a RUN argument stands for: a save-dir's checkpoint, or the file itself.

    ``checkpoint`` is ``last`` or ``best``; None stands for the last one, or else the save-dir's log.
    """
    run = Path(path)
    if not run.exists():
        raise UserError(f"{run}: no such file or folder")
    if not run.is_dir():
        return run
    file = run / f"checkpoint_{checkpoint or 'last'}.pt"
    if file.exists():
        return file
    if checkpoint:
        raise UserError(f"{run}: holds no {file.name}")
    return _only_log(run, f"holds no {file.name} and")


def find_files(paths: Sequence[str], find: Callable[[str], Path] = find_file) -> List[Path]:
    """The files that RUN arguments stand for, each given once."""
    files: List[Path] = []
    for file in map(find, paths):
        if any(file.samefile(other) for other in files):
            raise UserError(f"{file}: given twice")
        files.append(file)
    return files


def find_checkpoint(path: str) -> Path:
    """The checkpoint that an argument stands for: a save-dir's last one, or the file itself."""
    file = find_file(path)
    if not is_checkpoint(file):
        raise UserError(f"{file}: expected a checkpoint (*.pt) or a save-dir that holds one")
    return file


def is_checkpoint(path: Path) -> bool:
    return path.suffix == ".pt"


def collect_options(cfg: Mapping[str, Any]) -> Dict[str, Any]:
    """One flat dictionary from the parts of a fairseq configuration that say what was trained, and how.

    Of a file or folder only its own name: where it lies differs from machine to machine.
    """
    names = {"arch": cfg["model"]["_name"], "criterion": cfg["criterion"]["_name"], "task": cfg["task"]["_name"]}
    training = {
        "optimizer": cfg["optimizer"]["_name"],
        "lr": cfg["optimization"]["lr"][0],
        "clip_norm": cfg["optimization"]["clip_norm"],
        "batch_size": cfg["dataset"]["batch_size"],
    }
    options = {**cfg["model"], **cfg["criterion"], **cfg["task"]}
    paths = {
        name: Path(value).name for name, value in options.items() if name.endswith(PATHS) and isinstance(value, str)
    }
    return {**options, **paths, **training, **names}


def reported_split(options: Mapping[str, Any]) -> str:
    """The held-out split that the paper's tables of a task are reported on."""
    return next((table.split for table in TABLES.values() if table.task == options["task"]), "valid")


def find_table_of(options: Mapping[str, Any]) -> Optional[Table]:
    """The table of whose experiment a run with these options is one, or None."""
    return next((table for table in TABLES.values() if belongs_to(table, options)), None)


def belongs_to(table: Table, options: Mapping[str, Any]) -> bool:
    """Whether a run with these options is one of the table's experiment, if perhaps of none of its rows."""
    return _has(options, {"task": table.task, **table.condition, **table.data})


def find_row(table: Table, options: Mapping[str, Any]) -> Optional[Row]:
    """The row that a run with these options repeats, or None."""
    return next((row for row in table.rows if _repeats(table, row, options)), None)


def describe_experiment(options: Mapping[str, Any], data: bool = False) -> str:
    """The task, and what chooses between its tables if it has several; with ``data`` also what tells their data."""
    tables = [table for table in TABLES.values() if table.task == options["task"]]
    names = {name: None for table in tables for name in (*table.condition, *(table.data if data else ()))}
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
