"""Any fairseq criterion + budget, for models that contain Skip RNN modules."""

import functools
from dataclasses import dataclass, field
from typing import Any, List, Type

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from omegaconf import MISSING
from torch import Tensor

from .. import metrics
from .._fairseq.meters import base_loss_apart
from .base import add_base_args, build_base, refuse_misfits
from .budget import BudgetConfig, BudgetLoss, LoadsBudget
from .listening import Call, listen

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

    def __init__(self, task, base: FairseqCriterion, budget: BudgetLoss):
        super().__init__(task)
        self.base = base
        self.budget = budget

    @classmethod
    def add_args(cls, parser):
        """Options of this criterion, and those of the base criterion that the command line names."""
        super().add_args(parser)
        add_base_args(parser)

    @classmethod
    def build_criterion(cls, cfg, task):
        """fairseq's constructor."""
        base = build_base(cfg, task)
        if getattr(base, "rdrop_alpha", 0) > 0:
            raise ValueError(
                f"--rdrop-alpha: expected 0, as R-drop reads each sentence twice, which would be paid twice; got "
                f"{base.rdrop_alpha}"
            )
        budget = BudgetLoss.from_config(cfg)
        budget.join_run(cfg, task)
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
            **self.budget.sums(budget_loss, steps),
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
