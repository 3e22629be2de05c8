"""Task loss + budget: the loss of every Skip RNN criterion."""

import math
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from .. import metrics

BUDGETS = ("per_sample", "l1", "l2")


@dataclass
class BudgetConfig(FairseqDataclass):
    cost_per_sample: float = field(default=0.0, metadata={"help": "the paper's lambda: weight of the budget"})
    budget: str = field(
        default="per_sample",
        metadata={
            "help": "what a sequence pays for: per_sample (its updates), l1 or l2 (absolute or squared distance of "
            "its updates from --target-updates)"
        },
    )
    target_updates: Optional[float] = field(
        default=None, metadata={"help": "updates per sequence to aim at (budgets l1 and l2)"}
    )


class BudgetCriterion(FairseqCriterion):
    """Mean over sequences of task loss + budget, with budget = lambda sum_t u_t, lambda |sum_t u_t - target| or
    lambda (sum_t u_t - target)^2.

    A subclass computes the task loss. fairseq divides the returned sum by the sample size, the number of sequences,
    over all workers and accumulated batches, so the mean is exact however they are cut.
    """

    def __init__(self, task, cost_per_sample: float, budget: str, target_updates: Optional[float]):
        super().__init__(task)
        if not (math.isfinite(cost_per_sample) and cost_per_sample >= 0):
            raise ValueError(f"--cost-per-sample: expected a number of at least 0, got {cost_per_sample}")
        if budget not in BUDGETS:
            raise ValueError(f"--budget: expected one of {', '.join(BUDGETS)}, got {budget!r}")
        if (target_updates is None) != (budget == "per_sample"):
            need = "no" if budget == "per_sample" else "a"
            raise ValueError(f"--target-updates: --budget {budget} takes {need} target, got {target_updates}")
        if target_updates is not None and not (math.isfinite(target_updates) and target_updates >= 0):
            raise ValueError(f"--target-updates: expected a number of at least 0, got {target_updates}")
        self.cost_per_sample = cost_per_sample
        self.budget = budget
        self.target_updates = target_updates

    def task_loss(self, model, net_output, sample) -> Tuple[Tensor, Dict[str, Tensor]]:
        """Loss of each sequence, float32 [B], and the sums to log beside it."""
        raise NotImplementedError

    def forward(self, model, sample, reduce=True):
        """Returns the summed loss, the number of sequences and the sums that ``reduce_metrics`` needs."""
        net_output = model(**sample["net_input"])
        task_loss, logged = self.task_loss(model, net_output, sample)
        budget_loss = self.budget_loss(net_output.updates)
        loss = task_loss + budget_loss
        if reduce:
            loss = loss.sum()
        sample_size = task_loss.numel()
        logging_output = {
            "loss": loss.detach().sum(),
            "task_loss": task_loss.detach().sum(),
            "budget_loss": budget_loss.detach().sum(),
            "nsentences": sample_size,
            "ntokens": net_output.steps.sum(),
            "sample_size": sample_size,
            **metrics.update_sums(net_output.updates, net_output.steps, net_output.flops_per_update),
            **logged,
        }
        return loss, sample_size, logging_output

    def budget_loss(self, updates: Tensor) -> Tensor:
        """What each sequence pays, float32 or wider, [B], from its updates [B, T]."""
        count = updates.sum(1)
        if self.budget == "l1":
            count = (count - self.target_updates).abs()
        elif self.budget == "l2":
            count = (count - self.target_updates).square()
        return self.cost_per_sample * count

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        totals = metrics.add_up(logging_outputs)
        for name in ("loss", "task_loss", "budget_loss"):
            metrics.log_mean(name, totals, name, "sample_size", priority=0 if name == "loss" else 10)
        metrics.log_updates(totals)
        cls.log_task_metric(totals)

    @classmethod
    def log_task_metric(cls, totals: Dict[str, float]) -> None:
        """Log the task's own metric from the summed logging outputs."""
        raise NotImplementedError

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def as_float(tensor: Tensor) -> Tensor:
    """At least float32: losses are not summed in half precision."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
