"""Find a checkpoint and load its model; no module of this package with a fairseq model or task is needed."""

import logging
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional, Union

from fairseq import checkpoint_utils, file_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf
from torch import nn

from .reading import first_sentence

logger = logging.getLogger(__name__)


class LoadedModel(NamedTuple):
    """What a checkpoint holds: the model, its configuration and task, and how many training updates it has had."""

    model: nn.Module
    cfg: Any
    task: Any
    num_updates: int


def find_checkpoint(path: Union[str, Path], checkpoint_file: Optional[str] = None) -> Path:
    """The file of a checkpoint. For the arguments and errors see :func:`skiprnn_plugin.hub.from_pretrained`."""
    if "://" in str(path):
        path = file_utils.load_archive_file(str(path))
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if not path.is_dir():
        return path
    names = [checkpoint_file] if checkpoint_file is not None else ["checkpoint_best.pt", "checkpoint_last.pt"]
    for name in names:
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(f"{path}: holds no {' or '.join(names)}")


def load_model(path: Path, overrides: Optional[Dict[str, Any]] = None) -> LoadedModel:
    """Load a checkpoint, with the options ``overrides`` in place of the stored ones.

    Raises ValueError, in one line that names ``path`` or the option, if that can't be done.
    """
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path), arg_overrides=overrides)
        unknown = _unknown_parts(state["cfg"])
        if not unknown:
            state["cfg"].task = drop_unknown_options("task", state["cfg"].task, TASK_DATACLASS_REGISTRY)
            num_updates = state["optimizer_history"][-1]["num_updates"]
            models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], state=state)
    except Exception as error:  # a file can be broken, or be something else, in any way
        raise ValueError(f"{path}: can't be loaded as a fairseq checkpoint ({first_sentence(error)})") from error
    if unknown:
        raise ValueError(f"{path}: unknown {unknown}; --user-dir (user_dir) names the folder of the plugin that has it")
    stored = {name for part in cfg.values() if isinstance(part, DictConfig) for name in part}
    for name in set(overrides or ()) - stored:
        raise ValueError(f"{name}: none of the checkpoint's options, which can be overridden")
    return LoadedModel(models[0], cfg, task, num_updates)


def _unknown_parts(cfg) -> str:
    """The task, the model and the criterion of a configuration that are not registered; empty if all are."""
    known = {
        "task": TASK_REGISTRY,
        "model": {*MODEL_REGISTRY, *ARCH_MODEL_REGISTRY},
        "criterion": CRITERION_REGISTRY,
    }
    return ", ".join(f"{part} {cfg[part]['_name']!r}" for part in known if cfg[part]["_name"] not in known[part])


def drop_unknown_options(part: str, cfg, dataclasses):
    """A stored configuration without the options that this version does not have, and a warning for each of them.

    Args:
        part: task, model or criterion, for the warning.
        cfg: its configuration, part of that of a run.
        dataclasses: the dataclasses of what is registered with fairseq, by name.
    """
    if dataclasses.get(cfg.get("_name")) is None:
        return cfg
    known = {option.name for option in fields(dataclasses[cfg._name])}
    for name in sorted(set(cfg) - known):
        logger.warning(f"{part} {cfg._name}: the checkpoint's option {name!r} is unknown to this version: ignored")
    parent, cfg = cfg._get_parent(), OmegaConf.masked_copy(cfg, [name for name in cfg if name in known])
    cfg._set_parent(parent)  # which options like ${common.seed} are looked up in
    return cfg
