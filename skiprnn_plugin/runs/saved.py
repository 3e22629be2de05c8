"""Runs kept in the JSON that ``skiprnn-report --json`` prints, without their checkpoints."""

import json
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..arguments import UserError
from .rows import reported_split
from .run import Run


def as_saved(run: Run, metrics: Dict[str, Optional[float]]) -> Dict[str, Any]:
    """A run as the report's JSON holds it."""
    return {"path": str(run.path), "sequences": run.sequences, "options": run.options, "metrics": metrics}


def read_saved(path: Path, split: Optional[str]) -> List[Run]:
    """All runs of a report; a metric that was not a finite number is nan. For ``split`` see ``read_runs``."""
    runs = []
    try:
        for line in json.loads(path.read_text(encoding="utf-8")):
            for saved in line["runs"]:
                numbers = {name: float("nan" if value is None else value) for name, value in saved["metrics"].items()}
                run = Run(Path(saved["path"]), dict(saved["options"]), numbers, saved["sequences"])
                expected = split or reported_split(run.options)
                if line["split"] != expected:
                    raise UserError(f"{path}: expected runs on split {expected!r}, got {line['split']!r}")
                runs.append(run)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not the JSON of skiprnn-report ({type(error).__name__})") from error
    return runs
