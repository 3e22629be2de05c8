"""What a run is: a trained model's options and its held-out metrics."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from .._fairseq.configuration import read_options, read_own_options
from ..arguments import PATHS

SPEED = ("wps", "wpb", "bsz")  # metrics of fairseq's that tell of the machine and the batches, not of the model
# Among a run's options: what tells its data from others, which only a checkpoint has: the ``data_fingerprint`` of its
# task, or what was stored while training. Folders of different data can have the same name
DATA = "data"


@dataclass
class Run:
    """A trained model on a held-out split.

    Attributes:
        path: the checkpoint or log that it was read from.
        options: the model's, criterion's and task's options, and their names (``arch``, ``criterion``, ``task``), as
            :func:`collect_options` has them; of a checkpoint also ``DATA``.
        metrics: what fairseq logs in a validation, without the split's name.
        sequences: the number of held-out sequences; None if a log does not say it.
    """

    path: Path
    options: Dict[str, Any]
    metrics: Dict[str, float]
    sequences: Optional[int]


@dataclass
class History(Run):
    """A run with all its validations.

    Attributes:
        validations: the metrics of each validation, in the order of ``num_updates``; from a log also its ``epoch``.
    """

    validations: List[Dict[str, float]]


def collect_options(cfg: Mapping[str, Any]) -> Dict[str, Any]:
    """One flat dictionary from the parts of a fairseq configuration that say what was trained, and how.

    Files and folders are reduced to their names, as their paths differ from machine to machine.
    """
    parts = {"arch": "model", "criterion": "criterion", "task": "task", "optimizer": "optimizer"}
    names = {option: read_options(cfg[part])["_name"] for option, part in parts.items()}
    training = {
        "lr": cfg["optimization"]["lr"][0],
        "clip_norm": cfg["optimization"]["clip_norm"],
        "batch_size": cfg["dataset"]["batch_size"],
    }
    options = {**read_own_options(cfg, "model"), **read_own_options(cfg, "criterion"), **read_own_options(cfg, "task")}
    paths = {
        name: Path(value).name for name, value in options.items() if name.endswith(PATHS) and isinstance(value, str)
    }
    return {**options, **paths, **training, **names}
