"""The base criterion of ``with_budget``: its options, by flags or as YAML, and how it is made of them."""

import argparse
import contextlib
import json
import re
import sys
from argparse import Namespace
from typing import Any, Dict, Iterator

import yaml
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY, FairseqCriterion
from fairseq.criterions import build_criterion as build_registered
from fairseq.dataclass.utils import _set_legacy_defaults
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from .._fairseq.configuration import read_options
from ..reading import first_sentence
from .budget import LoadsBudget

_TOO_FEW_CLASSES = re.compile(r"Target \d+ is out of bounds")
_MISFIT = (AssertionError, AttributeError, LookupError, TypeError)


class Collected(argparse.Action):
    """A flag of the base criterion on the command line; its value is added to ``--base-options``.

    The value, or the default, is also kept under its own name, because a task may refer to the criterion's options, as
    ``sentence_prediction`` does to ``criterion.classification_head_name``.
    """

    def __init__(self, action: argparse.Action, flags: Dict[str, Any]):
        names = ("option_strings", "dest", "nargs", "const", "default", "type", "choices", "help", "metavar")
        super().__init__(**{name: getattr(action, name) for name in names})
        self.action = action
        self.flags = flags  # those that have been given

    def __call__(self, parser, namespace, values, option_string=None):
        given = Namespace()
        self.action(parser, given, values, option_string)
        vars(namespace).update(vars(given))
        self.flags.update(vars(given))
        namespace.base_options = json.dumps({**parse_options(namespace.base_options), **vars(given)})


class Joined(argparse.Action):
    """``--base-options`` on the command line; flags of the base criterion that stand before it are kept."""

    flags: Dict[str, Any]

    def __call__(self, parser, namespace, values, option_string=None):
        namespace.base_options = json.dumps({**parse_options(values), **self.flags}) if self.flags else values


def add_base_args(parser) -> None:
    """Add the flags of the base criterion that the command line names, except those that the parser has already, which
    are fairseq's common ones. They may stand before and after ``--base-options``."""
    options = parser._option_string_actions["--base-options"]
    options.__class__, options.flags = Joined, {}  # fairseq made it of the option's dataclass
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--base-criterion")
    name = finder.parse_known_args(sys.argv[1:])[0].base_criterion
    if name not in CRITERION_REGISTRY or name == "with_budget":
        return
    collector = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    CRITERION_REGISTRY[name].add_args(collector)
    for action in collector._actions:
        if action.option_strings and not set(action.option_strings) & set(parser._option_string_actions):
            parser._add_action(Collected(action, options.flags))


def parse_options(options: Any) -> Dict[str, Any]:
    """``--base-options`` as a dictionary, from YAML text, a configuration node or nothing."""
    try:
        parsed = yaml.safe_load(options) if isinstance(options, str) else options
    except yaml.YAMLError:
        parsed = options
    parsed = OmegaConf.to_container(parsed) if isinstance(parsed, DictConfig) else parsed
    if not isinstance(parsed, (dict, type(None))):
        raise ValueError(f"--base-options: expected YAML as in '{{label_smoothing: 0.1}}', got {options!r}")
    return parsed or {}


def build_base(cfg, task) -> FairseqCriterion:
    """The base criterion. Its options can refer to the rest of the run's configuration, like any criterion's."""
    name = None if OmegaConf.is_missing(cfg, "base_criterion") else cfg.base_criterion
    if name not in CRITERION_REGISTRY:
        known = (name for name, criterion in CRITERION_REGISTRY.items() if not issubclass(criterion, LoadsBudget))
        raise ValueError(f"--base-criterion: expected one of {', '.join(sorted(known))}, got {name!r}")
    if issubclass(CRITERION_REGISTRY[name], LoadsBudget):
        raise ValueError(f"--base-criterion: expected a criterion that has no budget yet, got {name!r}")
    options = parse_options(cfg.base_options)
    root = cfg._get_root() if isinstance(cfg, DictConfig) else None
    if name not in CRITERION_DATACLASS_REGISTRY:
        with refuse_misfits(task, name):
            return build_registered(legacy_options(name, options, root), task)
    node = OmegaConf.create({"_name": name, **options})
    if root is not None:
        node._set_parent(root)
    try:
        with refuse_misfits(task, name):
            return build_registered(node, task)
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0]
        raise ValueError(f"--base-options: got {options} for criterion {name!r}: {reason}") from error


@contextlib.contextmanager
def refuse_misfits(task, base: str, model: str = "") -> Iterator[None]:
    """Raise ValueError where a base criterion asks for what its task or model does not have.

    fairseq's criterions for texts and speech do, in many ways. Other errors, such as those of a device, pass.
    """
    try:
        yield
    except Exception as error:
        # OmegaConfBaseException: an option that is wrong or missing
        if type(error) is not Exception and not isinstance(error, _MISFIT) or isinstance(error, OmegaConfBaseException):
            raise
        if type(error) is IndexError and _TOO_FEW_CLASSES.match(str(error)):  # torch's cross-entropy on a CPU
            raise ValueError(
                f"target: expected classes that {model} predicts, got another ({first_sentence(error)}); "
                "in the task sentence_prediction --num-classes is their number"
            ) from error
        place = type(task).__name__ + (model and f" and {model}")
        # what fairseq says itself may end with what to do
        reason = " ".join(str(error).split()) if type(error) is Exception else first_sentence(error)
        raise ValueError(
            f"--base-criterion: expected one that works with {place}, got {base}, which fails there ({reason})"
        ) from error


def legacy_options(name: str, options: Dict[str, Any], root) -> Namespace:
    """For criterions older than fairseq's dataclasses: all options of the run in one namespace."""
    parts = [] if root is None else sorted(root.values(), key=lambda part: isinstance(part, DictConfig))
    flat = {key: value for part in map(read_options, parts) for key, value in part.items()}
    args = Namespace(**{**flat, **options, "criterion": name})
    _set_legacy_defaults(args, CRITERION_REGISTRY[name])
    return args
