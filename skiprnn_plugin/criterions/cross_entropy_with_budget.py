"""Cross-entropy + budget, for one label per sequence, or at each of its steps."""

from fairseq.criterions import register_criterion
from torch.nn.functional import nll_loss

from .. import metrics
from .budget import BudgetConfig, BudgetCriterion, mean_over_steps


@register_criterion("cross_entropy_with_budget", dataclass=BudgetConfig)
class CrossEntropyWithBudgetCriterion(BudgetCriterion):
    """Cross-entropy in NATS, in the logs too (fairseq logs bits), as the budget is added to it. Logs ``accuracy``. Both
    are means over a sequence's real steps if the task predicts at each of them."""

    def task_loss(self, model, net_output, sample):
        log_probs = model.get_normalized_probs(net_output, log_probs=True, sample=sample)
        target = sample["target"]
        correct = (log_probs.argmax(-1) == target).to(log_probs.dtype)
        task_loss = nll_loss(log_probs.movedim(-1, 1), target, reduction="none")
        return mean_over_steps(task_loss, sample), {"correct": mean_over_steps(correct, sample).sum()}

    @classmethod
    def log_task_metric(cls, totals):
        metrics.log_mean("accuracy", totals, "correct", "nsentences", priority=5)
