"""Half the squared error + budget, for regression."""

import torch
from fairseq.criterions import register_criterion
from torch import Tensor

from .. import metrics
from .budget import BudgetConfig, BudgetCriterion, as_float, mean_over_steps


@register_criterion("mse_with_budget", dataclass=BudgetConfig)
class MSEWithBudgetCriterion(BudgetCriterion):
    """HALF the squared error, as in the authors' program, so that lambda means the same; logs the plain ``mse``, in the
    square of the unit of the task's ``target_scale``. Both are means over a sequence's real steps if the task predicts
    at each of them."""

    def task_loss(self, model, net_output, sample):
        prediction = as_float(net_output.prediction)
        target = sample["target"].to(prediction.dtype).view_as(prediction)
        squared_error = (prediction - target).square()
        task_loss = 0.5 * mean_over_steps(squared_error.mean(-1), sample)
        in_unit = mean_over_steps(self._in_unit(squared_error.detach()).mean(-1), sample)
        return task_loss, {"squared_error": in_unit.sum()}

    def _in_unit(self, squared_error: Tensor) -> Tensor:
        """Squared errors [..., output_size] in the square of the unit that users know."""
        scale = getattr(self.task, "target_scale", None)
        if scale is None:
            return squared_error
        return squared_error * torch.as_tensor(scale, dtype=torch.float64).to(squared_error.device) ** 2

    @classmethod
    def log_task_metric(cls, totals):
        metrics.log_mean("mse", totals, "squared_error", "nsentences", priority=5)
