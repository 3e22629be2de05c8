"""The model ``conv_skip_lstm``: a convolution with a stride, whose outputs a Skip LSTM reads or skips."""

from dataclasses import dataclass, field

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import nn

from skiprnn_plugin.models.skip_rnn import SkipRNNModel, SkipRNNOutput
from skiprnn_plugin.modules import SkipLSTM


@dataclass
class ConvSkipLSTMConfig(FairseqDataclass):
    channels: int = field(default=32, metadata={"help": "outputs of the convolution"})
    kernel_size: int = field(default=8, metadata={"help": "steps that one output sees"})
    stride: int = field(default=4, metadata={"help": "steps from one output to the next"})
    hidden_size: int = field(default=64, metadata={"help": "units of the Skip LSTM"})


@register_model("conv_skip_lstm", dataclass=ConvSkipLSTMConfig)
class ConvSkipLSTM(BaseFairseqModel):
    """Convolution -> ReLU -> last output of a Skip LSTM -> linear head."""

    def __init__(self, cfg: ConvSkipLSTMConfig, input_size: int, output_size: int):
        super().__init__()
        self.conv = nn.Conv1d(input_size, cfg.channels, cfg.kernel_size, cfg.stride)
        self.rnn = SkipLSTM(cfg.channels, cfg.hidden_size)
        self.head = nn.Linear(cfg.hidden_size, output_size)

    @classmethod
    def build_model(cls, cfg, task):
        return cls(cfg, task.input_size, task.output_size)

    def forward(self, x, lengths=None, seeds=None):
        """Predict from ``x``, [B, T, input_size], with ``lengths`` real steps, [B]; None means T for all."""
        if lengths is None:
            lengths = torch.full(x.shape[:1], x.shape[1], device=x.device)
        # Output k sees the steps up to k * stride, so that no real output sees padding at the end
        (kernel_size,), (stride,) = self.conv.kernel_size, self.conv.stride
        x = nn.functional.pad(x.transpose(1, 2), (kernel_size - 1, 0))
        x = self.conv(x).relu().transpose(1, 2)
        steps = (lengths - 1) // stride + 1
        last, state, updates = self.rnn(x, lengths=steps, last_only=True)
        return SkipRNNOutput(self.head(last), updates.unsqueeze(1), steps, self.rnn.flops_per_update, state.p)

    get_normalized_probs = SkipRNNModel.get_normalized_probs
