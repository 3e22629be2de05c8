"""Programs of torch.export (``.pt2``), for PyTorch without fairseq."""

import copy
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from ..predictions import as_probabilities
from .parts import Parts


class Deployed(nn.Module):
    """A trained model from a sensor's numbers to its prediction: what :func:`make_program` exports.

    Args:
        model: the trained fairseq model.
        parts: its parts.
    """

    def __init__(self, model: nn.Module, parts: Parts):
        super().__init__()
        self.rnn, self.head = copy.deepcopy(model.rnn), copy.deepcopy(model.head)
        self.head.weight.data.copy_(torch.from_numpy(parts.tensors["head_weight"]))
        self.head.bias.data.copy_(torch.from_numpy(parts.tensors["head_bias"]))
        self.requires_grad_(False)  # a program whose results can be used without no_grad
        self.predicts, self.per_step = parts.predicts, parts.per_step
        self.always = not parts.gate_layers
        self.mean: Optional[Tensor]
        self.register_buffer("mean", None if parts.mean is None else torch.from_numpy(parts.mean))
        self.register_buffer("std", None if parts.std is None else torch.from_numpy(parts.std))

    def forward(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """Predict for sequences ``x`` [B, T, D] of ``lengths`` int64 [B]. Returns the prediction [B, output_size]
        ([B, T, output_size] if the model predicts at every step), and where steps were updated, bool [B, T]."""
        if self.mean is not None:
            x = ((x.double() - self.mean) / self.std).float()
        schedule = torch.ones(x.shape[:2], device=x.device) if self.always else None
        output, _, updates = self.rnn(x, lengths=lengths, schedule=schedule, last_only=not self.per_step)
        return as_probabilities(self.head(output), self.predicts), updates > 0


def make_program(model: nn.Module, parts: Parts) -> torch.export.ExportedProgram:
    """The model as a program for any batch size and any number of steps.

    It calls this package's registered operators, so the program that loads it has to import ``skiprnn_plugin.ops``,
    which needs only torch.
    """
    dims = torch.export.Dim("batch", min=1), torch.export.Dim("time", min=1)
    example = torch.zeros(2, 3, parts.input_size), torch.tensor([3, 2])  # torch would take sizes of 1 as constants
    shapes = {"x": {0: dims[0], 1: dims[1]}, "lengths": {0: dims[0]}}
    with torch.no_grad():
        return torch.export.export(Deployed(model, parts).eval(), example, dynamic_shapes=shapes)
