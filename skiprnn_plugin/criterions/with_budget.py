"""Any fairseq criterion + budget, for models that contain Skip RNN modules."""

import argparse
import contextlib
import copy
import functools
import json
import sys
from argparse import Namespace
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Type

import torch
import yaml
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY, FairseqCriterion, register_criterion
from fairseq.criterions import build_criterion as build_registered
from fairseq.dataclass.utils import _set_legacy_defaults
from fairseq.logging import metrics as fairseq_metrics
from fairseq.logging.meters import AverageMeter, MetersDict
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from .. import metrics
from .._fairseq.configuration import read_options
from ..reading import first_sentence
from .budget import Budget, BudgetConfig, BudgetCriterion, LoadsBudget, last_update
from .listening import Call, listen

_MISFIT = (AssertionError, AttributeError, LookupError, TypeError)
BASE_LOSS = "_base_loss"  # fairseq does not show names that begin with _
PREFIX = "with_budget."  # of the names that this criterion adds to the base criterion's logging output


@dataclass
class WithBudgetConfig(BudgetConfig):
    base_criterion: str = field(
        default=MISSING, metadata={"help": "the criterion to add the budget to; its options can be given too"}
    )
    base_options: Any = field(
        default=None,
        metadata={"help": "options of the base criterion as YAML, as in '{label_smoothing: 0.1}'; or give its flags"},
    )


@register_criterion("with_budget", dataclass=WithBudgetConfig)
class WithBudgetCriterion(LoadsBudget, FairseqCriterion):
    """The base criterion's loss + the mean over sequences of the budget.

    Lambda means the same as in the other criterions, whether the base criterion takes its mean over tokens or over
    sentences. As fairseq divides the returned sum by the sample size, the budget's mean over a batch's sequences is
    multiplied by the batch's sample size. Over several batches, every batch then has the weight of its sample size, as
    it has in the base criterion's loss.

    This criterion logs what is trained on as ``loss``, the sum of ``task_loss``, which is the base criterion's loss per
    sample, and ``budget_loss``; what the base criterion logs besides its loss, such as its accuracy, and its perplexity
    without the budget; and the updates, which it takes from the calls of the model's Skip RNN modules.
    """

    base_class: Type[FairseqCriterion]

    def __init__(self, task, base: FairseqCriterion, budget: Budget):
        super().__init__(task)
        self.base = base
        self.budget = budget

    @classmethod
    def add_args(cls, parser):
        """Options of this criterion, and those of the base criterion that the command line names."""
        super().add_args(parser)
        finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        finder.add_argument("--base-criterion")
        name = finder.parse_known_args(sys.argv[1:])[0].base_criterion
        if name in CRITERION_REGISTRY and name != "with_budget":
            add_collected_args(parser, CRITERION_REGISTRY[name])

    @classmethod
    def build_criterion(cls, cfg, task):
        """fairseq's constructor."""
        base = build_base(cfg, task)
        options = ("cost_per_sample", "cost_warmup_updates", "budget", "target_updates", "target_fraction")
        options += ("good_at_least", "good_at_most")
        budget = Budget(*(getattr(cfg, name) for name in options))
        budget.plan(last_update(cfg))
        budget.cost.keep_in(task)
        return class_with_budget(cls, type(base))(task, base, budget)

    def __reduce__(self):
        """For copies: the class is made for the base criterion, and so is found by no name."""
        return _make_empty, (type(self).__bases__[0], self.base_class), self.__dict__

    def forward(self, model, sample, reduce=True):
        """What the base criterion returns, with the budget added to the loss and further sums to the logging output."""
        with listen(model) as calls, refuse_misfits(self.task, type(self.base).__name__, type(model).__name__):
            loss, sample_size, logging_output = self.base(model, sample, reduce=reduce)
        if not calls:
            raise ValueError("--criterion with_budget: expected a model that runs Skip RNN modules, got none that ran")
        sequences = int(logging_output.get("nsentences", sample.get("nsentences", len(calls[0].count))))
        count = sum(per_sequence(call.count, sequences) for call in calls)
        encoder = getattr(self.task, "encoder_flops", 0)  # fairseq's own tasks do not have it
        flops = sum(
            per_sequence(call.count.detach() * (call.module.flops_per_update + encoder), sequences) for call in calls
        )
        steps = sum(per_sequence(call.steps, sequences) for call in calls)
        paid = self.budget(count, steps)
        budget_loss = paid.sum() * sample_size / max(sequences, 1)
        task_loss = loss.detach().sum()
        sums = {
            "loss": task_loss + budget_loss.detach(),
            "task_loss": task_loss,
            "sample_size": sample_size,
            "nsentences": sequences,
            **self.budget.sums(paid, steps),
            **metrics.update_sums(count, steps, flops, increments(calls)),
        }
        # without reduction every element gets an equal share
        loss = loss + (budget_loss if reduce else budget_loss / max(loss.numel(), 1))
        return loss, sample_size, {**logging_output, **{PREFIX + name: value for name, value in sums.items()}}

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        with base_loss_apart():
            cls.base_class.reduce_metrics(  # some criterions log every name that they find
                [
                    {name: value for name, value in output.items() if not name.startswith(PREFIX)}
                    for output in logging_outputs
                ]
            )

    def log_budget(self, logging_outputs) -> None:
        """As :meth:`BudgetCriterion.log_budget`, and the losses with and without the budget."""
        totals = metrics.add_up(
            {name[len(PREFIX) :]: output[name] for name in output if name.startswith(PREFIX)}
            for output in logging_outputs
        )
        metrics.log_mean("loss", totals, "loss", "sample_size", priority=0)
        metrics.log_mean("task_loss", totals, "task_loss", "sample_size", priority=10)
        self.budget.log(totals)

    def logging_outputs_can_be_summed(self) -> bool:
        return self.base.logging_outputs_can_be_summed()


@contextlib.contextmanager
def base_loss_apart() -> Iterator[None]:
    """A block in which the meter ``loss`` of every active aggregator is the base criterion's own.

    Outside it, that meter has the name ``_base_loss``, and ``loss`` is another one. What the base criterion derives
    from ``loss``, such as a perplexity, is derived from its own.
    """
    aggregators = []
    for meters in fairseq_metrics.get_active_aggregators():
        total = meters.get("loss")
        is_new = total is not None and BASE_LOSS not in meters
        aggregators.append((meters, set(meters), total, copy.deepcopy(total.state_dict()) if is_new else None))
        if BASE_LOSS in meters:
            _replace(meters, "loss", meters[BASE_LOSS])
    try:
        yield
    finally:
        for meters, known, total, before in aggregators:
            for name in set(meters) - known:
                if isinstance(meters[name], MetersDict._DerivedMeter):
                    meters[name].fn = functools.partial(_derive, meters[name].fn)
            if BASE_LOSS in known:
                _replace(meters, "loss", total)
            elif "loss" in meters and (total is None or total.state_dict() != before):  # the base criterion logged it
                meters.add_meter(BASE_LOSS, meters["loss"], 0)
                _replace(meters, "loss", AverageMeter())


def _replace(meters: MetersDict, name: str, meter) -> None:
    OrderedDict.__setitem__(meters, name, meter)  # fairseq's own method refuses names that exist


def _derive(function, meters: MetersDict) -> float:
    """A number that the base criterion derives from its meters."""
    if BASE_LOSS not in meters:
        return function(meters)
    view = MetersDict()
    for name, meter in meters.items():
        _replace(view, name, meters[BASE_LOSS] if name == "loss" else meter)
    return function(view)


@functools.cache
def class_with_budget(cls: Type[WithBudgetCriterion], base_class: Type[FairseqCriterion]) -> Type[WithBudgetCriterion]:
    """The class of the criterions with one kind of base criterion: fairseq reduces metrics on the class, and compares
    its name with that in a checkpoint when a run is resumed."""
    attributes = {"base_class": base_class, "__doc__": cls.__doc__, "__module__": cls.__module__}
    return type(f"{base_class.__name__}WithBudget", (cls,), attributes)


def _make_empty(cls: Type[WithBudgetCriterion], base_class: Type[FairseqCriterion]) -> WithBudgetCriterion:
    made = class_with_budget(cls, base_class)
    return made.__new__(made)


def per_sequence(values: Tensor, sequences: int) -> Tensor:
    """Sums over the rows of each sequence, [sequences], from one value per row, [B].

    The rows of one sequence, for example its segments, follow one another. If B is not a multiple of ``sequences``, it
    is not known which rows belong together, and every sequence gets an equal share.
    """
    if sequences > 0 and len(values) % sequences == 0:
        return values.view(sequences, -1).sum(1)
    return (values.sum() / max(sequences, 1)).expand(sequences)


def increments(calls: List[Call]):
    """The last update probabilities of all gates, in one dimension; None without a gate."""
    found = [call.increment.flatten() for call in calls if call.increment is not None]
    return torch.cat(found) if found else None


class Collected(argparse.Action):
    """A flag of the base criterion on the command line; its value is added to ``--base-options``.

    The value, or the default, is also kept under its own name, because a task may refer to the criterion's options, as
    ``sentence_prediction`` does to ``criterion.classification_head_name``.
    """

    def __init__(self, action: argparse.Action):
        names = ("option_strings", "dest", "nargs", "const", "default", "type", "choices", "help", "metavar")
        super().__init__(**{name: getattr(action, name) for name in names})
        self.action = action

    def __call__(self, parser, namespace, values, option_string=None):
        given = Namespace()
        self.action(parser, given, values, option_string)
        vars(namespace).update(vars(given))
        namespace.base_options = json.dumps({**parse_options(namespace.base_options), **vars(given)})


def add_collected_args(parser, criterion: Type[FairseqCriterion]) -> None:
    """Add a criterion's flags, except those that the parser has already, which are fairseq's common ones."""
    collector = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    criterion.add_args(collector)
    for action in collector._actions:
        if action.option_strings and not set(action.option_strings) & set(parser._option_string_actions):
            parser._add_action(Collected(action))


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
        known = ", ".join(sorted(set(CRITERION_REGISTRY) - {"with_budget"}))
        raise ValueError(f"--base-criterion: expected one of {known}, got {name!r}")
    if issubclass(CRITERION_REGISTRY[name], (BudgetCriterion, WithBudgetCriterion)):
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
        place = type(task).__name__ + (model and f" and {model}")
        raise ValueError(
            f"--base-criterion: expected one that works with {place}, got {base}, which fails there "
            f"({first_sentence(error)})"
        ) from error


def legacy_options(name: str, options: Dict[str, Any], root) -> Namespace:
    """For criterions older than fairseq's dataclasses: all options of the run in one namespace."""
    parts = [] if root is None else sorted(root.values(), key=lambda part: isinstance(part, DictConfig))
    flat = {key: value for part in map(read_options, parts) for key, value in part.items()}
    args = Namespace(**{**flat, **options, "criterion": name})
    _set_legacy_defaults(args, CRITERION_REGISTRY[name])
    return args
