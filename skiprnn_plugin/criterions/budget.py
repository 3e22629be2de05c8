"""Task loss + budget: the loss of every Skip RNN criterion."""

import math
import warnings
from dataclasses import dataclass, field, fields
from typing import Any, Dict, Iterable, Optional, Tuple

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

from .. import metrics
from .._fairseq.configuration import read_run
from ..arguments import check_choice
from ..modules.budget import CLOSED, LEARNED
from .cost import Cost
from .good import UsedIfGood

BUDGETS = ("per_sample", "l1", "l2")

# A gate counts as closed where less than CLOSED of the steps is used while all update probabilities are at one end
END, SPREAD = 0.05, 0.02
# What is added up over workers; a subclass may log objects besides sums
SUMS = ("nsentences", "sample_size", "task_loss", "budget_loss", "cost")  # and those of the updates
PATIENCE = 100  # training updates for which a gate has to be closed


@dataclass
class BudgetConfig(FairseqDataclass):
    cost_per_sample: float = field(
        default=0.0,
        metadata={"help": "the paper's lambda: weight of the budget (without --target-fraction)"},
    )
    cost_warmup_updates: int = field(
        default=0,
        metadata={
            "help": "raise lambda from 0 to --cost-per-sample, linearly, over the first N training updates; with "
            "--target-fraction, lower the fraction that is allowed from 1 to the target in N training updates (0: 600, "
            "or a fifth of --max-update if that is less)"
        },
    )
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
    target_fraction: Optional[float] = field(
        default=None,
        metadata={
            "help": "fraction of the samples to use, such as 0.25: lambda is found while training (budget per_sample)"
        },
    )
    good_at_least: Optional[str] = field(
        default=None,
        metadata={
            "help": "METRIC=VALUE, as accuracy=0.95: validations log used_if_good, the fraction of the samples used if "
            "the metric is at least the value, otherwise 1 plus how far it is from that; --best-checkpoint-metric "
            "used_if_good then keeps the checkpoint that uses the fewest samples and is good enough"
        },
    )
    good_at_most: Optional[str] = field(
        default=None, metadata={"help": "the same for a metric that should be at most the value, as mse=0.01"}
    )


class BudgetLoss(nn.Module):
    """The budget loss of a sequence: lambda sum_t u_t, lambda |sum_t u_t - target| or lambda (sum_t u_t - target)^2.

    The arguments are those of :class:`BudgetConfig`. In a validation after the last training update that was planned
    (:meth:`plan`), a target fraction that was missed gives a warning.

    Raises:
        ValueError: an option is out of its range; the message names it.
    """

    def __init__(
        self,
        cost_per_sample: float,
        cost_warmup_updates: int,
        budget: str,
        target_updates: Optional[float],
        target_fraction: Optional[float],
        good_at_least: Optional[str] = None,
        good_at_most: Optional[str] = None,
    ):
        super().__init__()
        is_judged = good_at_least is not None or good_at_most is not None
        self.good = UsedIfGood(good_at_least, good_at_most) if is_judged else None
        check_choice("--budget", budget, BUDGETS)
        if (target_updates is None) != (budget == "per_sample"):
            need = "no" if budget == "per_sample" else "a"
            raise ValueError(f"--target-updates: --budget {budget} takes {need} target, got {target_updates}")
        if target_updates is not None and not (math.isfinite(target_updates) and target_updates >= 0):
            raise ValueError(f"--target-updates: expected a number of at least 0, got {target_updates}")
        if target_fraction is not None and budget != "per_sample":
            raise ValueError(f"--target-fraction: expected --budget per_sample with it, got --budget {budget}")
        self.kind = budget
        self.target_updates = target_updates
        self.cost = Cost(cost_per_sample, cost_warmup_updates, target_fraction)
        self.max_update = 0
        self.trained = False
        self.warned = False
        self.closed_updates = 0  # training updates since the gate closed
        self.first_loss: Optional[float] = None  # the task loss of the first training update in this process

    @classmethod
    def from_config(cls, cfg: BudgetConfig) -> "BudgetLoss":
        """The budget that options describe, among which may be others."""
        names = (option.name for option in fields(BudgetConfig) if option.name != "_name")
        return cls(**{name: getattr(cfg, name) for name in names})

    def join_run(self, cfg, task) -> None:
        """Take the number of training updates of a run into account, and keep lambda in the state of its task."""
        self.plan(last_update(cfg))
        self.cost.keep_in(task)

    def plan(self, max_update: int) -> None:
        """Take the number of training updates into account; 0 if it is not known."""
        self.max_update = max_update
        if max_update > 0:
            self.cost.plan(max_update)

    def forward(self, count: Tensor, steps: Tensor) -> Tensor:
        """The loss, [B], of sequences with ``count`` updates, [B], float32 or wider, in ``steps`` real steps,
        [B]."""
        if self.kind == "l1":
            count = (count - self.target_updates).abs()
        elif self.kind == "l2":
            count = (count - self.target_updates).square()
        return self.cost(count, steps)

    def sums(self, budget_loss: Tensor, steps: Tensor) -> Dict[str, Any]:
        """What :meth:`log` needs, from a batch's budget losses, whose sum is divided by the sample size as that of the
        task losses is, and from the real steps of its sequences, [B]."""
        return {"budget_loss": budget_loss.detach().sum(), "cost": self.cost.of_steps(steps).sum()}

    def log(self, totals: Dict[str, float]) -> None:
        """Log the updates, the budget loss and, unless it is constant, lambda. In training, also let lambda take its
        next value.

        Raises:
            ValueError: there is a target fraction, but no gate that lambda could steer towards it.
        """
        metrics.log_updates(totals)
        metrics.log_mean("budget_loss", totals, "budget_loss", "sample_size", priority=10)
        if not self.cost.is_constant:
            metrics.log_mean("cost_per_sample", totals, "cost", "nsentences", priority=22)
        if self.training and totals.get("steps", 0.0) > 0:
            if self.cost.rule is not None and totals["increments"] == 0:
                raise ValueError("--target-fraction: expected a model with a learned gate, got one without")
            self.trained = True
            task_loss = totals["task_loss"] / totals["sample_size"]
            self.cost.step(totals["updates"] / totals["steps"], task_loss)
            if self.cost.rule is None and totals["increments"] > 0:  # the rule gives a warning where one is needed
                self._warn_if_closed(totals, task_loss)
        elif self.trained and self.cost.rule is not None and 0 < self.max_update <= self.cost.progress["num_updates"]:
            self.cost.rule.warn_if_missed()
        if self.good is not None and not self.training:
            self.good.log()

    def _warn_if_closed(self, totals: Dict[str, float], task_loss: float) -> None:
        self.first_loss = task_loss if self.first_loss is None else self.first_loss
        mean = totals["increment"] / totals["increments"]
        spread = math.sqrt(max(totals["increment_squared"] / totals["increments"] - mean**2, 0.0))
        fraction = totals["updates"] / totals["steps"]
        closed = fraction < CLOSED and min(mean, 1 - mean) < END and spread < SPREAD
        self.closed_updates = self.closed_updates + 1 if closed else 0
        if self.closed_updates != PATIENCE or self.warned:
            return
        self.warned = True
        learned = "" if task_loss < LEARNED * self.first_loss else ", and the task is not learned"
        warnings.warn(
            f"--cost-per-sample: only {fraction:.1%} of the samples have been used for {PATIENCE} training updates"
            f"{learned}: the gate is closed. Give the fraction that you want with --target-fraction, which opens a "
            "closed gate again; or a smaller lambda, --cost-warmup-updates or --gate-init zeros",
            stacklevel=2,
        )


def last_update(cfg) -> int:
    """``--max-update`` of the run that a criterion's configuration belongs to; 0 if there is none."""
    return (read_run(cfg).get("optimization") or {}).get("max_update") or 0


class LoadsBudget:
    """A mixin for criterions with a :class:`BudgetLoss`. It must precede ``FairseqCriterion`` in the list of bases."""

    def load_state_dict(self, state_dict, strict=True):
        """As torch's, but do nothing for a checkpoint without a criterion's state, as a run with a constant lambda
        writes."""
        return None if state_dict is None else super().load_state_dict(state_dict, strict)

    def begin_training(self) -> None:
        """Let lambda start as in a new run. The plugin's wrapper of fairseq's trainer calls this if updates are counted
        from 0, although the model is from a checkpoint."""
        self.budget.cost.begin_training()


class BudgetCriterion(LoadsBudget, FairseqCriterion):
    """Mean over sequences of task loss + budget.

    A subclass computes the task loss. fairseq divides the returned sum by the sample size, the number of sequences,
    over all workers and accumulated batches, so the mean is exact however the sequences are split into batches.
    """

    def __init__(
        self,
        task,
        cost_per_sample,
        cost_warmup_updates,
        budget,
        target_updates,
        target_fraction,
        good_at_least=None,
        good_at_most=None,
    ):
        super().__init__(task)
        self.budget = BudgetLoss(
            cost_per_sample=cost_per_sample,
            cost_warmup_updates=cost_warmup_updates,
            budget=budget,
            target_updates=target_updates,
            target_fraction=target_fraction,
            good_at_least=good_at_least,
            good_at_most=good_at_most,
        )

    @classmethod
    def build_criterion(cls, cfg, task):
        """fairseq's constructor."""
        criterion = super().build_criterion(cfg, task)
        criterion.budget.join_run(cfg, task)
        return criterion

    def task_loss(self, model, net_output, sample) -> Tuple[Tensor, Dict[str, Tensor]]:
        """The loss of each sequence, float32 [B], and further sums to log."""
        raise NotImplementedError

    def forward(self, model, sample, reduce=True):
        """The summed loss, the number of sequences and the sums that ``reduce_metrics`` needs."""
        net_output = model(**sample["net_input"])
        task_loss, logged = self.task_loss(model, net_output, sample)
        count = net_output.updates.flatten(1).sum(1)  # over steps and directions
        budget_loss = self.budget(count, net_output.steps)
        loss = task_loss + budget_loss
        if reduce:
            loss = loss.sum()
        sample_size = task_loss.numel()
        logging_output = {
            "loss": loss.detach().sum(),
            "task_loss": task_loss.detach().sum(),
            "nsentences": sample_size,
            "ntokens": net_output.steps.sum(),
            "sample_size": sample_size,
            **self.budget.sums(budget_loss, net_output.steps),
            **metrics.update_sums(count, net_output.steps, count * net_output.flops_per_update, net_output.increment),
            **logged,
        }
        return loss, sample_size, logging_output

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        totals = metrics.add_up(logging_outputs)
        metrics.log_mean("loss", totals, "loss", "sample_size", priority=0)
        metrics.log_mean("task_loss", totals, "task_loss", "sample_size", priority=10)
        cls.log_task_metric(totals)

    def log_budget(self, logging_outputs: Iterable[Dict[str, Any]]) -> None:
        """Log the budget and the updates of all workers; in training also let lambda take its next value.

        The plugin's wrapper of ``FairseqTask.reduce_metrics`` calls it after the classmethod ``reduce_metrics``, which
        does not know the criterion that it is called for.
        """
        names = (*SUMS, *metrics.UPDATE_SUMS)
        sums = ({name: output[name] for name in names if name in output} for output in logging_outputs)
        self.budget.log(metrics.add_up(sums))

    @classmethod
    def log_task_metric(cls, totals: Dict[str, float]) -> None:
        """Log the metric of the task, computed from the summed logging outputs."""
        raise NotImplementedError

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def as_float(tensor: Tensor) -> Tensor:
    """The tensor in float32 or wider: losses are not summed in half precision."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def mean_over_steps(values: Tensor, sample: Dict[str, Any]) -> Tensor:
    """The mean over the real steps of each sequence, [B], of values at its steps, [B, T]. Values [B], of a model that
    makes one prediction for a sequence, are returned as they are."""
    if values.dim() == 1:
        return values
    lengths = sample["net_input"].get("lengths")
    if lengths is None:
        return values.mean(1)
    real = torch.arange(values.shape[1], device=values.device) < lengths.unsqueeze(1)
    return values.masked_fill(~real, 0).sum(1) / lengths.clamp(min=1)
