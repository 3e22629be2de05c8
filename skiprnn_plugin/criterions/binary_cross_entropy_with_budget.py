"""Binary cross-entropy + budget, for any number of labels at each step."""

import torch
from fairseq.criterions import register_criterion
from torch.nn.functional import binary_cross_entropy_with_logits

from .. import metrics
from ..average_precision import ScoredPoints
from .budget import BudgetConfig, BudgetCriterion, as_float


@register_criterion("binary_cross_entropy_with_budget", dataclass=BudgetConfig)
class BinaryCrossEntropyWithBudgetCriterion(BudgetCriterion):
    """Of each sequence the mean of the binary cross-entropy, in NATS, over its real steps and the classes.

    A batch's ``target`` is bool [B, T, C]. Where it has ``points`` to be evaluated, ``{"steps": int64 [B, N], "target":
    bool [B, N, C]}``, the step whose prediction each is judged by and what is true of it, it logs ``mAP``, over the
    points of the whole set, and ``mAP_classes``, the number of classes that have any positives.
    """

    def task_loss(self, model, net_output, sample):
        logits = as_float(net_output.prediction)
        loss = binary_cross_entropy_with_logits(logits, sample["target"].to(logits.dtype), reduction="none").mean(-1)
        lengths = sample["net_input"].get("lengths")
        if lengths is not None:
            real = torch.arange(loss.shape[1], device=loss.device) < lengths.unsqueeze(1)
            loss = loss.masked_fill(~real, 0).sum(1) / lengths.clamp(min=1)
        else:
            loss = loss.mean(1)
        if self.training or "points" not in sample:
            return loss, {}
        return loss, {"points": score_points(logits, sample)}

    @classmethod
    def reduce_metrics(cls, logging_outputs):
        super().reduce_metrics(logging_outputs)
        metrics.log_average_precision(output["points"] for output in logging_outputs if "points" in output)

    @classmethod
    def log_task_metric(cls, totals):
        """Sums say nothing of it: see :meth:`reduce_metrics`."""

    def logging_outputs_can_be_summed(self) -> bool:
        return self.training  # points can't


def score_points(logits: torch.Tensor, sample) -> ScoredPoints:
    """The logits [B, T, C] at the points of a batch. They rank as probabilities do, of which float32 makes many 1."""
    points = sample["points"]
    rows = torch.arange(len(logits), device=logits.device).unsqueeze(1)
    scores = logits[rows, points["steps"]].float()
    return ScoredPoints(*(each.cpu().numpy() for each in (sample["id"], scores, points["target"])))
