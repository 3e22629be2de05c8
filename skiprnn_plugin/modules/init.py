"""Initial values of a Skip RNN's parameters."""

import math
from typing import Iterable

import torch
from torch import Tensor, nn

from ..ops import LayerWeights


@torch.no_grad()
def init_layer_like_authors(cell: str, w: LayerWeights) -> None:
    """The authors' program: Glorot-uniform weights over the concatenated matrix, biases at 0 but for the gates.

    The LSTM's matrix is [input + H, 4 H]; the GRU has one for r and z, [input + H, 2 H], whose biases start at 1, and
    one for n, [input + H, H]. The LSTM's forget bias of 1 stands in ``bias_ih``; under layer norm, which would take a
    bias before it away again, in the norm's bias.
    """
    hidden = w.weight_hh.shape[-1]
    blocks = [slice(None)] if cell == "lstm" else [slice(0, 2 * hidden), slice(2 * hidden, None)]
    for block in blocks:
        parts = w.weight_ih[block], w.weight_hh[block]
        limit = math.sqrt(6 / (parts[0].shape[1] + hidden + parts[0].shape[0]))
        for part in parts:
            part.uniform_(-limit, limit)
    nn.init.zeros_(w.bias_ih)
    nn.init.zeros_(w.bias_hh)
    if w.norm_weight is not None:
        nn.init.ones_(w.norm_weight)
        nn.init.zeros_(w.norm_bias)
    if cell == "lstm":
        forget = w.bias_ih if w.norm_bias is None else w.norm_bias
        forget[hidden : 2 * hidden] = 1
    else:
        w.bias_ih[: 2 * hidden] = 1


@torch.no_grad()
def init_layer_like_torch(cell: str, w: LayerWeights) -> None:
    """``nn.LSTM``'s and ``nn.GRU``'s: everything uniform within 1 / sqrt(H)."""
    limit = 1 / math.sqrt(w.weight_hh.shape[-1])
    for tensor in (w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh):
        tensor.uniform_(-limit, limit)
    if w.norm_weight is not None:
        nn.init.ones_(w.norm_weight)
        nn.init.zeros_(w.norm_bias)


@torch.no_grad()
def init_gate(weight: Tensor, bias: Tensor, update_bias: float) -> None:
    """Glorot-uniform weight and a bias that makes nearly every step update at first."""
    nn.init.xavier_uniform_(weight)
    nn.init.constant_(bias, update_bias)


@torch.no_grad()
def init_states(states: Iterable[Tensor]) -> None:
    """Learned initial states, drawn from N(0, 1)."""
    for state in states:
        nn.init.normal_(state)


INITS = {"authors": init_layer_like_authors, "torch": init_layer_like_torch}
