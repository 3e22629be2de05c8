"""The recurrent cells: one step of one layer, in torch's gate order.

A cell is a class with the constants and the ``step`` of :class:`Cell`; list it in ``CELLS`` and every engine that is
written in terms of cells, the modules and the tests know it.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from .types import LayerWeights

NORM_EPS = 1e-3  # added to the standard deviation, as in the authors' program


class Cell:
    """One recurrent layer's step.

    Attributes:
        num_gates: blocks of H rows in the weights (G).
        num_normalized: how many of them, from the first, layer norm applies to.
        has_c: whether there is a cell state beside the hidden state.
        matrices: how many gates each of the authors' weight matrices holds (their initial values depend on it).
        start_bias: what each gate's bias starts at in the authors' program.
        bias_after_norm: whether that bias is added after layer norm, which takes away any added before it.
    """

    num_gates: int
    num_normalized: int
    has_c: bool = False
    matrices: Tuple[int, ...]
    start_bias: Tuple[float, ...]
    bias_after_norm: bool = False

    @staticmethod
    def step(
        x: Tensor, h: Tensor, c: Optional[Tensor], w: LayerWeights, mask: Optional[Tensor] = None
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Candidate state after reading ``x`` [B, input] in state ``h``, ``c`` [B, H]: new ``h``, ``c``.

        ``mask`` [B, H] are recurrent dropout's factors (Semeniuta et al. 2016) on what the step would write, an LSTM's
        g, a GRU's n: the state that stands is never dropped. A plain RNN writes its whole state at every step.
        """
        raise NotImplementedError


class LSTM(Cell):
    """i, f, o = sigmoid(.), g = tanh(.) of W x + b + U h + b'; c~ = f c + i g; h~ = o tanh(c~)."""

    num_gates = 4
    num_normalized = 4
    has_c = True
    matrices = (4,)
    start_bias = (0, 1, 0, 0)
    bias_after_norm = True

    @staticmethod
    def step(x, h, c, w, mask=None):
        gates = linear(x, w.weight_ih, w.bias_ih) + linear(h, w.weight_hh, w.bias_hh)
        i, f, g, o = _normalize(gates, w).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * _drop(torch.tanh(g), mask)
        return torch.sigmoid(o) * torch.tanh(c), c


class GRU(Cell):
    """torch's and cuDNN's GRU, which resets AFTER the recurrent product.

    r, z = sigmoid(W x + b + U h + b'); n = tanh(W_n x + b_n + r (U_n h + b'_n)); h~ = (1 - z) n + z h.
    """

    num_gates = 3
    num_normalized = 2
    matrices = (2, 1)
    start_bias = (1, 1, 0)

    @staticmethod
    def step(x, h, c, w, mask=None):
        size = h.shape[-1]
        x_rz, x_n = linear(x, w.weight_ih, w.bias_ih).split([2 * size, size], -1)
        h_rz, h_n = linear(h, w.weight_hh, w.bias_hh).split([2 * size, size], -1)
        r, z = torch.sigmoid(_normalize(x_rz + h_rz, w)).chunk(2, -1)
        n = _drop(torch.tanh(x_n + r * h_n), mask)
        return (1 - z) * n + z * h, None


class GRUResetBefore(GRU):
    """The original GRU and TensorFlow 1's, the one of the paper's tables, which resets BEFORE the recurrent product.

    r, z as in :class:`GRU`; n = tanh(W_n x + b_n + U_n (r h) + b'_n); h~ = (1 - z) n + z h.
    """

    @staticmethod
    def step(x, h, c, w, mask=None):
        size = h.shape[-1]
        x_rz, x_n = linear(x, w.weight_ih, w.bias_ih).split([2 * size, size], -1)
        h_rz = linear(h, w.weight_hh[: 2 * size], w.bias_hh[: 2 * size])
        r, z = torch.sigmoid(_normalize(x_rz + h_rz, w)).chunk(2, -1)
        n = _drop(torch.tanh(x_n + linear(r * h, w.weight_hh[2 * size :], w.bias_hh[2 * size :])), mask)
        return (1 - z) * n + z * h, None


class RNN(Cell):
    """The plain RNN, h~ = tanh(W x + b + U h + b')."""

    num_gates = 1
    num_normalized = 1
    matrices = (1,)
    start_bias = (0,)

    @staticmethod
    def step(x, h, c, w, mask=None):
        gates = linear(x, w.weight_ih, w.bias_ih) + linear(h, w.weight_hh, w.bias_hh)
        return _drop(torch.tanh(_normalize(gates, w)), mask), None


def zone_out(old: Tensor, new: Tensor, mask: Tensor) -> Tensor:
    """Zoneout (Krueger et al. 2017): a unit keeps its old value where ``mask`` is 1."""
    return mask * old + (1 - mask) * new


def _drop(candidate: Tensor, mask: Optional[Tensor]) -> Tensor:
    return candidate if mask is None else candidate * mask


def _normalize(gates: Tensor, w: LayerWeights) -> Tensor:
    """Layer norm of each gate by itself, (x - mean) / (std + eps), [B, N * H]; without its weights, nothing."""
    if w.norm_weight is None:
        return gates
    each = gates.unflatten(-1, (-1, w.weight_hh.shape[-1]))
    deviation = each - each.mean(-1, keepdim=True)
    variance = deviation.square().mean(-1, keepdim=True)
    # sqrt has no gradient at 0 (a gate whose units are all equal, as with one unit): hold such a row at 0 instead
    std = torch.where(variance > 0, variance, 1.0).sqrt() * (variance > 0)
    return (deviation / (std + NORM_EPS)).flatten(-2) * w.norm_weight + w.norm_bias


CELLS = {"lstm": LSTM, "gru": GRU, "gru_reset_before": GRUResetBefore, "rnn": RNN}
