"""A model and a criterion of a user's own in fairseq's older way: their options come from ``add_args`` alone."""

import torch
from fairseq.criterions import register_criterion
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from torch import nn

from skiprnn_plugin.criterions.budget import BudgetCriterion, as_float
from skiprnn_plugin.models.skip_rnn import SkipRNNOutput
from skiprnn_plugin.modules import SkipGRU


@register_model("own_by_argparse")
class OwnByArgparse(BaseFairseqModel):
    def __init__(self, hidden_size, update_bias, temperature, input_size, output_size):
        super().__init__()
        self.temperature = temperature
        self.rnn = SkipGRU(input_size, hidden_size, update_bias=update_bias)
        self.head = nn.Linear(hidden_size, output_size)

    @staticmethod
    def add_args(parser):
        parser.add_argument("--hidden-size", type=int)
        parser.add_argument("--update-bias", type=float, default=float("inf"))
        parser.add_argument("--temperature", type=float)  # fairseq-generate has one too

    @classmethod
    def build_model(cls, args, task):
        return cls(args.hidden_size, args.update_bias, args.temperature, task.input_size, task.output_size)

    def forward(self, x, lengths=None, seeds=None):
        last, state, updates = self.rnn(x, lengths=lengths, last_only=True)
        steps = torch.full(x.shape[:1], x.shape[1]) if lengths is None else lengths
        prediction = self.head(last) / self.temperature
        return SkipRNNOutput(prediction, updates.unsqueeze(1), steps, self.rnn.flops_per_update, state.p)


@register_model_architecture("own_by_argparse", "own_by_argparse_warm")
def warm(args):
    args.temperature = getattr(args, "temperature", 2.0)


@register_criterion("own_absolute_error")
class OwnAbsoluteError(BudgetCriterion):
    """The absolute error to a power, + budget."""

    def __init__(self, task, cost_per_sample, own_power):
        super().__init__(task, cost_per_sample, 0, "per_sample", None, None)
        self.power = own_power

    @staticmethod
    def add_args(parser):
        parser.add_argument("--cost-per-sample", type=float, default=0.0)
        parser.add_argument("--own-power", type=float, default=1.0)

    def task_loss(self, model, net_output, sample):
        error = (as_float(net_output.prediction) - sample["target"].view_as(net_output.prediction)).abs()
        return error.pow(self.power).mean(-1), {}

    @classmethod
    def log_task_metric(cls, totals):
        """No more than the loss."""
