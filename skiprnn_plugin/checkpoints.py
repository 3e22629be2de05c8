"""Find a checkpoint and load its model. This module imports neither the models nor the tasks of this package."""

import logging
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, Iterable, NamedTuple, Optional, Union

from fairseq import checkpoint_utils, file_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import nn

from . import zoo
from ._fairseq.configuration import read_options
from .reading import first_sentence

LIMITS = {"min_skip", "max_skip"}  # options that are checked together

logger = logging.getLogger(__name__)


class LoadedModel(NamedTuple):
    """The contents of a checkpoint: the model, its configuration, its task and the number of its training updates."""

    model: nn.Module
    cfg: Any
    task: Any
    num_updates: int


def find_checkpoint(path: Union[str, Path], checkpoint_file: Optional[str] = None) -> Path:
    """The file of a checkpoint. For the arguments and errors see :func:`skiprnn_plugin.hub.from_pretrained`."""
    if zoo.is_name(path):
        return zoo.find(path)
    path = Path(_download(str(path)) if "://" in str(path) else path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if not path.is_dir():
        return path
    names = [checkpoint_file] if checkpoint_file is not None else ["checkpoint_best.pt", "checkpoint_last.pt"]
    for name in names:
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(f"{path}: holds no {' or '.join(names)}")


def _download(address: str) -> str:
    """The path of the file or folder that fairseq loads from an address, or keeps from the last time."""
    try:
        path = file_utils.load_archive_file(address)
    except Exception as error:  # of the address, or of what was found there, as other than archives are refused
        raise ValueError(f"{address}: can't be loaded ({first_sentence(error)})") from error
    if path is None:
        raise FileNotFoundError(f"{address}: nothing can be loaded from this address")
    return path


def load_model(path: Path, overrides: Optional[Dict[str, Any]] = None) -> LoadedModel:
    """Load a checkpoint, with the options ``overrides`` in place of the stored ones.

    Raises ValueError, in one line that names ``path`` or the override that is wrong, if that can't be done.
    """
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        state["args"] = None  # of an old checkpoint; fairseq has made "cfg" of it, where options are overridden
        _add_new_options(state["cfg"].model, overrides or {})
        # Read before they are overridden, as fairseq adds any name to what is configured by argparse
        stored = {name for part in state["cfg"].values() for name in read_options(part)}
        overwrite_args_by_name(state["cfg"], overrides or {})
        unknown = _unknown_parts(state["cfg"])
        if not unknown:
            if isinstance(state["cfg"].task, DictConfig):
                state["cfg"].task = drop_unknown_options("task", state["cfg"].task, TASK_DATACLASS_REGISTRY)
            num_updates = state["optimizer_history"][-1]["num_updates"]
            models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], state=state)
    except Exception as error:  # a file can be broken, or be something else, in any way
        option, _, reason = str(error).partition(":")
        name = option.removeprefix("--").replace("-", "_")
        replaced = set(overrides or ())
        if replaced & LIMITS:  # a stored one may not go with the other
            replaced |= LIMITS
        if isinstance(error, ValueError) and name in replaced:  # the checkpoint is not to blame
            raise ValueError(f"{name}:{reason}") from error
        raise ValueError(f"{path}: can't be loaded as a fairseq checkpoint ({first_sentence(error)})") from error
    if unknown:
        raise ValueError(f"{path}: unknown {unknown}; --user-dir (user_dir) names the folder of the plugin that has it")
    for name in set(overrides or ()) - stored:
        raise ValueError(f"{name}: none of the checkpoint's options, and only those can be overridden")
    return LoadedModel(models[0], cfg, task, num_updates)


def read_state(path: Union[str, Path]) -> Dict[str, Any]:
    """What a checkpoint holds, such as ``cfg``, its configuration, and ``extra_state``, values besides the model.

    Raises FileNotFoundError if the file does not exist, and ValueError if it is not a checkpoint of fairseq.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        missing = {"cfg", "extra_state"} - state.keys()
        if missing:
            raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
        return state
    except Exception as error:  # a file can be broken, or be something else, in any way
        raise ValueError(f"{path}: can't be loaded as a fairseq checkpoint ({first_sentence(error)})") from error


def _add_new_options(cfg, names: Iterable[str]) -> None:
    """Add options of these names that the model has, but that the version of its checkpoint did not have."""
    name = read_options(cfg)["_name"]
    dataclass = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY.get(name, name))
    if isinstance(cfg, DictConfig) and dataclass is not None:
        with open_dict(cfg):
            for option in fields(dataclass):
                if option.name in names and option.name not in cfg:
                    cfg[option.name] = option.default


def _unknown_parts(cfg) -> str:
    """Those of a configuration's task, model and criterion that are not registered, as text; empty if all are."""
    known = {
        "task": TASK_REGISTRY,
        "model": {*MODEL_REGISTRY, *ARCH_MODEL_REGISTRY},
        "criterion": CRITERION_REGISTRY,
    }
    names = {part: read_options(cfg[part])["_name"] for part in known}
    return ", ".join(f"{part} {name!r}" for part, name in names.items() if name not in known[part])


def drop_unknown_options(part: str, cfg, dataclasses):
    """A stored configuration without the options that this version does not have; a warning names each of them.

    Args:
        part: "task", "model" or "criterion", for the warning.
        cfg: the configuration of this part, a node in the configuration of a run.
        dataclasses: the dataclasses of all tasks, models or criterions that fairseq has registered, by name.
    """
    if not isinstance(cfg, DictConfig) or dataclasses.get(cfg.get("_name")) is None:
        return cfg  # of a Namespace fairseq takes the options that it needs
    known = {option.name for option in fields(dataclasses[cfg._name])}
    for name in sorted(set(cfg) - known):
        logger.warning(f"{part} {cfg._name}: the checkpoint's option {name!r} is unknown to this version: ignored")
    parent, cfg = cfg._get_parent(), OmegaConf.masked_copy(cfg, [name for name in cfg if name in known])
    cfg._set_parent(parent)  # so that options such as ${common.seed} can be looked up
    return cfg
