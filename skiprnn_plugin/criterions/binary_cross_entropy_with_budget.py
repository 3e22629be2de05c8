"""Binary cross-entropy + budget, for any number of labels at each step."""

import torch
from fairseq.criterions import register_criterion
from torch.nn.functional import binary_cross_entropy_with_logits

from .. import metrics
from ..average_precision import ScoredPoints
from .budget import BudgetConfig, BudgetCriterion, as_float, mean_over_steps


@register_criterion("binary_cross_entropy_with_budget", dataclass=BudgetConfig)
class BinaryCrossEntropyWithBudgetCriterion(BudgetCriterion):
    """The task loss of a sequence is the mean binary cross-entropy, in NATS, over its real steps and the classes.

    A batch's ``target`` is bool [B, T, C]. A batch for evaluation may have ``points``, ``{"steps": int64 [B, N],
    "target": bool [B, N, C]}``: the step whose prediction is judged at each point, and the labels that are true there.
    Then the criterion logs ``mAP``, over the points of the whole set, and ``mAP_classes``, the number of classes that
    have any positives.
    """

    def task_loss(self, model, net_output, sample):
        logits = as_float(net_output.prediction)
        loss = binary_cross_entropy_with_logits(logits, sample["target"].to(logits.dtype), reduction="none").mean(-1)
        loss = mean_over_steps(loss, sample)
        if self.training or "points" not in sample:
            return loss, {}
        return loss, {"points": score_points(logits, sample)}

    @classmethod
    def reduce_metrics(cls, logging_outputs):
        super().reduce_metrics(logging_outputs)
        metrics.log_average_precision(output["points"] for output in logging_outputs if "points" in output)

    @classmethod
    def log_task_metric(cls, totals):
        """Nothing: mAP cannot be computed from sums, so :meth:`reduce_metrics` logs it."""

    def logging_outputs_can_be_summed(self) -> bool:
        return self.training  # points cannot be summed


def score_points(logits: torch.Tensor, sample) -> ScoredPoints:
    """The logits [B, T, C] at the points of a batch. Logits have the same ranks as probabilities, many of which float32
    would round to 1."""
    points = sample["points"]
    rows = torch.arange(len(logits), device=logits.device).unsqueeze(1)
    scores = logits[rows, points["steps"]].float()
    return ScoredPoints(*(tensor.cpu().numpy() for tensor in (sample["id"], scores, points["target"])))
