"""Label-smoothed cross-entropy + budget. Logs how often the right class is one of the two likeliest."""

from dataclasses import dataclass, field

from fairseq.criterions import register_criterion

from skiprnn_plugin import metrics
from skiprnn_plugin.criterions.budget import BudgetConfig
from skiprnn_plugin.criterions.cross_entropy_with_budget import CrossEntropyWithBudgetCriterion


@dataclass
class LabelSmoothedConfig(BudgetConfig):
    label_smoothing: float = field(
        default=0.1, metadata={"help": "probability that the target distribution spreads over all classes"}
    )


@register_criterion("label_smoothed_cross_entropy_with_budget", dataclass=LabelSmoothedConfig)
class LabelSmoothedCrossEntropyWithBudgetCriterion(CrossEntropyWithBudgetCriterion):
    @classmethod
    def build_criterion(cls, cfg, task):
        if not 0 <= cfg.label_smoothing < 1:
            raise ValueError(f"--label-smoothing: expected a probability in [0, 1), got {cfg.label_smoothing}")
        criterion = super().build_criterion(cfg, task)
        criterion.label_smoothing = cfg.label_smoothing
        return criterion

    def task_loss(self, model, net_output, sample):
        loss, sums = super().task_loss(model, net_output, sample)
        log_probs = model.get_normalized_probs(net_output, log_probs=True)
        smoothed = (1 - self.label_smoothing) * loss - self.label_smoothing * log_probs.mean(1)
        among_two = (log_probs.topk(2).indices == sample["target"][:, None]).sum()
        return smoothed, {**sums, "among_two": among_two}

    @classmethod
    def log_task_metric(cls, totals):
        super().log_task_metric(totals)
        metrics.log_mean("top2_accuracy", totals, "among_two", "nsentences", priority=6)
