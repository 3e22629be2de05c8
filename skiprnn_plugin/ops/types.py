"""The small tuples of tensors that the engines take and return."""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor


class SkipState(NamedTuple):
    """What a Skip RNN carries from one step, or one chunk of a sequence, to the next.

    Attributes:
        h: hidden state of every layer, [num_layers, B, H].
        c: cell state of every LSTM layer, [num_layers, B, H]; None for cells without one.
        p: update probability that the last update set, [B], float32 or wider. None stands for 1: the next step updates.
        acc: what the skipped steps since then have added up to, [B], like ``p``. None stands for 0.
    """

    h: Tensor
    c: Optional[Tensor] = None
    p: Optional[Tensor] = None
    acc: Optional[Tensor] = None

    def detach(self) -> "SkipState":
        """The same values cut off from the graph, for truncated backpropagation through time."""
        return SkipState(*(value if value is None else value.detach() for value in self))


torch.serialization.add_safe_globals([SkipState])  # so that torch.load takes a saved state


class LayerWeights(NamedTuple):
    """Parameters of one layer; G is the cell's number of gates, ``input`` is D in the lowest layer and H above.

    Attributes:
        weight_ih: [G * H, input].
        weight_hh: [G * H, H].
        bias_ih: [G * H].
        bias_hh: [G * H].
        norm_weight: gain of the gates' layer norm, [N * H] with N the cell's normalised gates; None for no layer norm.
        norm_bias: its bias, [N * H].
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor
    norm_weight: Optional[Tensor] = None
    norm_bias: Optional[Tensor] = None


class Gate(NamedTuple):
    """The unit that sets the update probability, p = sigmoid(weight . q + bias).

    Attributes:
        weight: [1, len(layers) * H].
        bias: [1].
        layers: the layers whose candidate states make q, lowest first (the paper's W_p with the other columns at 0).
    """

    weight: Tensor
    bias: Tensor
    layers: Tuple[int, ...] = (-1,)
