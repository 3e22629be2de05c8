"""The small tuples of tensors that the engines take and return."""

from typing import NamedTuple, Optional, Sequence, Tuple

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

    def filled(self) -> "SkipState":
        """With the tensors that ``p`` and ``acc`` stand for where they are None."""
        h, c, p, acc = self
        like = {"dtype": torch.promote_types(h.dtype, torch.float32), "device": h.device}
        p = torch.ones(h.shape[1], **like) if p is None else p
        return SkipState(h, c, p, torch.zeros(h.shape[1], **like) if acc is None else acc)

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


class Operands(NamedTuple):
    """The tensors of a scan that may need a gradient, all but the layers' weights, which stand in a list of their own,
    ``weight_ih``, ``weight_hh``, ``bias_ih``, ``bias_hh`` of the lowest layer, then those of the next.

    Attributes:
        x: [B, T, D].
        h: [num_layers, B, H].
        c: like ``h``; None for cells without one.
        p: [B]; None for 1, to the engines of that accept None alone.
        acc: [B]; None for 0, to the same.
        gate_weight: [1, len(gate_layers) * H]; None without a gate.
        gate_bias: [1]; None without a gate.
        dropout_mask: [num_layers - 1, B, H], or None.
    """

    x: Tensor
    h: Tensor
    c: Optional[Tensor]
    p: Optional[Tensor]
    acc: Optional[Tensor]
    gate_weight: Optional[Tensor]
    gate_bias: Optional[Tensor]
    dropout_mask: Optional[Tensor]


class Options(NamedTuple):
    """What a scan takes beside tensors that may need a gradient.

    Attributes:
        cell: a key of ``CELLS``.
        begin: first real step of each sequence, int64 [B]; None for 0.
        end: the one after its last; None for T.
        schedule: updates from outside, bool [B, T], or None.
        noise: u = v > noise, [B, T], or None for ``threshold``.
        threshold: u = v > threshold.
        gate_layers: which layers the gate reads, each from 0.
        last_only: whether the output is that after the last real step alone.
    """

    cell: str
    begin: Optional[Tensor]
    end: Optional[Tensor]
    schedule: Optional[Tensor]
    noise: Optional[Tensor]
    threshold: float
    gate_layers: Sequence[int]
    last_only: bool
