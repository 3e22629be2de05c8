"""The JSON that ``skiprnn-report --json`` prints, which keeps runs without their checkpoints."""

import json
import math
from argparse import Namespace
from pathlib import Path
from typing import Any, Collection, Dict, List, Mapping, Optional

from ..arguments import UserError
from .groups import Group, deviation, mean
from .rows import reported_split
from .run import SPEED, History, Run
from .tables import Table


def as_saved(group: Group, table: Table, split: str) -> Dict[str, Any]:
    """A line of the report, with unrounded values; a value that is missing or not finite is None (null in JSON)."""
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
                "options": run.options,
                "metrics": _as_json(run.metrics),
                **({"validations": list(map(_as_json, run.validations))} if isinstance(run, History) else {}),
            }
            for run in group.runs
        ],
    }


def _as_json(metrics: Dict[str, float]) -> Dict[str, Optional[float]]:
    return {name: _finite(value) for name, value in metrics.items() if name not in SPEED}


def as_plain(value: Any) -> Any:
    """What JSON can hold of an option's value, for ``json.dumps``: the containers of omegaconf and argparse as
    dictionaries and lists, anything else, such as members of fairseq's enumerations, as text."""
    if isinstance(value, Namespace):
        return vars(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Collection) else str(value)


def _finite(value: Optional[float]) -> Optional[float]:
    return value if value is not None and math.isfinite(value) else None


def read_saved(path: Path, split: Optional[str]) -> List[Run]:
    """All runs of a report, with their validations if it has them; a metric that was not a finite number is nan. For
    ``split`` see :func:`skiprnn_plugin.runs.checkpoint.load_checkpoint`."""
    runs = []
    try:
        for line in json.loads(path.read_text(encoding="utf-8")):
            for saved in line["runs"]:
                run = Run(
                    Path(saved["path"]), dict(saved["options"]), _as_metrics(saved["metrics"]), saved["sequences"]
                )
                if "validations" in saved:
                    run = History(**vars(run), validations=list(map(_as_metrics, saved["validations"])))
                expected = split or reported_split(run.options)
                if line["split"] != expected:
                    raise UserError(f"{path}: expected runs on split {expected!r}, got {line['split']!r}")
                runs.append(run)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not the JSON of skiprnn-report ({type(error).__name__})") from error
    return runs


def _as_metrics(numbers: Dict[str, Optional[float]]) -> Dict[str, float]:
    return {name: float("nan" if value is None else value) for name, value in numbers.items()}
