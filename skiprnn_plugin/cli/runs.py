"""What a run is: a fairseq save-dir, a checkpoint or a JSON log, read as its options and its held-out metrics."""

import ast
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

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
    logs = sorted(run.glob("*.log"))
    if len(logs) != 1:
        found = f"several logs ({', '.join(log.name for log in logs)}): name one" if logs else "no log (*.log)"
        raise UserError(f"{run}: holds no {file.name} and {found}")
    return logs[0]


def find_files(paths: Sequence[str], checkpoint: Optional[str] = None) -> List[Path]:
    """The files that RUN arguments stand for, each given once; for ``checkpoint`` see :func:`find_file`."""
    files: List[Path] = []
    for file in (find_file(path, checkpoint) for path in paths):
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


class Log(NamedTuple):
    """What a log of ``fairseq-train`` says of a held-out split.

    Attributes:
        options: see :class:`Run`; of the log's last part, where a run was resumed.
        split: its name.
        validations: a line of JSON for each, at least one.
    """

    options: Dict[str, Any]
    split: str
    validations: List[str]

    def numbers(self, validation: str) -> Dict[str, float]:
        """The metrics of a validation, without the split's name; ValueError if it is damaged."""
        prefix = f"{self.split}_"
        try:
            logged = json.loads(validation)
            numbers = {name[len(prefix) :]: float(value) for name, value in logged.items() if name.startswith(prefix)}
            return {**numbers, "num_updates": int(numbers["num_updates"])}
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error


def scan_log(path: Path, split: Optional[str]) -> Log:
    """Read a log of ``fairseq-train --log-format json``: its ``--log-file`` or captured output.

    Such a log holds the configuration, as Python prints it, and a line of JSON for each validation. Without ``split``,
    it is the one that the task's table reports.
    """
    options, validations = None, []
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if "{'_name'" in line:
                    options = _parse_options(path, line[line.index("{'_name'") :])
                    split = split or reported_split(options)
                # the last line may be half written
                elif options and f'"{split}_loss"' in line and line.rstrip().endswith("}"):
                    validations.append(line[line.index("{") :])
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if options is None:
        raise UserError(
            f"{path}: neither a checkpoint (*.pt) nor a log of fairseq-train (its configuration is missing)"
        )
    if not validations:
        raise UserError(f"{path}: no validation of split {split!r} in this log (--log-format json writes them)")
    return Log(options, split, validations)


def _parse_options(path: Path, text: str) -> Dict[str, Any]:
    try:
        return collect_options(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"{path}: a damaged log ({type(error).__name__} in its configuration)") from error


def read_log(path: Path, split: Optional[str]) -> Run:
    """The last validation of a log; for ``split`` see :func:`scan_log`."""
    log = scan_log(path, split)
    try:
        numbers = log.numbers(log.validations[-1])
    except ValueError as error:
        raise UserError(f"{path}: a damaged log ({type(error).__name__} in its last validation)") from error
    # Sets drawn on the fly have their size in the options
    drawn = "valid_seed" in log.options
    sequences = int(log.options["valid_size"]) if drawn else None
    return Run(path, {**log.options, "num_updates": numbers["num_updates"]}, numbers, sequences)


def reported_split(options: Mapping[str, Any]) -> str:
    """The held-out split that the paper's tables of a task are reported on."""
    return next((table.split for table in TABLES.values() if table.task == options["task"]), "valid")


def find_table_of(options: Mapping[str, Any]) -> Optional[Table]:
    """The table of whose experiment a run with these options is one, or None."""
    return next((table for table in TABLES.values() if belongs_to(table, options)), None)


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
