"""Half the squared error + budget, for regression."""

from fairseq.criterions import register_criterion

from .. import metrics
from .budget import BudgetConfig, BudgetCriterion, as_float


@register_criterion("mse_with_budget", dataclass=BudgetConfig)
class MSEWithBudgetCriterion(BudgetCriterion):
    """HALF the squared error, as in the authors' program, so that lambda means the same; logs the plain ``mse``."""

    def task_loss(self, model, net_output, sample):
        prediction = as_float(net_output.prediction)
        target = sample["target"].to(prediction.dtype).view_as(prediction)
        squared_error = (prediction - target).square().mean(-1)
        return 0.5 * squared_error, {"squared_error": squared_error.detach().sum()}

    @classmethod
    def log_task_metric(cls, totals):
        metrics.log_mean("mse", totals, "squared_error", "nsentences", priority=5)
