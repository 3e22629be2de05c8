"""Cross-entropy + budget, for one label per sequence."""

from fairseq.criterions import register_criterion
from torch.nn.functional import nll_loss

from .. import metrics
from .budget import BudgetConfig, BudgetCriterion


@register_criterion("cross_entropy_with_budget", dataclass=BudgetConfig)
class CrossEntropyWithBudgetCriterion(BudgetCriterion):
    """Cross-entropy in NATS, in the logs too (fairseq logs bits), as the budget is added to it. Logs ``accuracy``."""

    def task_loss(self, model, net_output, sample):
        log_probs = model.get_normalized_probs(net_output, log_probs=True, sample=sample)
        target = sample["target"]
        correct = (log_probs.argmax(-1) == target).sum()
        return nll_loss(log_probs, target, reduction="none"), {"correct": correct}

    @classmethod
    def log_task_metric(cls, totals):
        metrics.log_mean("accuracy", totals, "correct", "nsentences", priority=5)
