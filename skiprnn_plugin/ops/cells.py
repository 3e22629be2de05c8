"""The recurrent cells: one step of one layer, in torch's gate order.

A cell is a class with the constants and functions of :class:`Cell`; list it in ``CELLS`` and every engine that is
written in terms of cells, the modules and the tests know it.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from .types import LayerWeights

# The gradient of x for y = sigmoid(x) and y = tanh(x), from that of y, and y; written to ``grad_input`` if given
sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward

NORM_EPS = 1e-3  # added to the standard deviation, as the authors' program does


class Cell:
    """One recurrent layer's step, in the parts that engines need. :func:`project` with :meth:`bias` computes the
    input's part of the gates, :meth:`recur` the part that is the same for all steps from one state, :meth:`combine` the
    rest, and :meth:`backward` the gradient. N is the number of rows.

    Attributes:
        num_gates: blocks of H rows in the weights (G).
        num_normalized: number of gates, from the first, that layer norm applies to.
        has_c: whether there is a cell state besides the hidden state.
        num_kept: number of tensors [N, H] that :meth:`combine` returns for :meth:`backward`.
        matrices: number of gates in each weight matrix of the authors' program (their initial values depend on it).
        start_bias: initial value of each gate's bias in the authors' program.
        bias_after_norm: whether ``start_bias`` is added after layer norm, which would remove a bias added before.
        keeping_gate: number of the gate that the old state is multiplied with; None if there is none.
        admitting_gate: number of the gate that the new values are multiplied with; None if there is none, or if it is 1
            minus the other one.
    """

    num_gates: int
    num_normalized: int
    has_c: bool = False
    num_kept: int
    matrices: Tuple[int, ...]
    start_bias: Tuple[float, ...]
    bias_after_norm: bool = False
    keeping_gate: Optional[int] = None
    admitting_gate: Optional[int] = None

    @classmethod
    def step(
        cls, x: Tensor, h: Tensor, c: Optional[Tensor], w: LayerWeights, mask: Optional[Tensor] = None
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Candidate state after reading ``x`` [N, input] in state ``h``, ``c`` [N, H]: new ``h``, ``c``.

        ``mask`` [N, H] holds recurrent dropout's factors (Semeniuta et al. 2016). They multiply what the step would
        write, an LSTM's g or a GRU's n; the state that is already there is never dropped. A plain RNN writes its whole
        state at every step.
        """
        return cls.combine(project(x, w.weight_ih, cls.bias(w)), cls.recur(h, w), h, c, w, mask)[:2]

    @staticmethod
    def bias(w: LayerWeights) -> Tensor:
        """What is added to W x in the input's part of the gates, [G * H]: both biases, unless ``combine`` adds b'."""
        return w.bias_ih + w.bias_hh

    @staticmethod
    def recur(h: Tensor, w: LayerWeights) -> Tensor:
        """U h, the state's part of the gates, [N, G * H]; only of the first gates if the others need more than h."""
        return linear(h, w.weight_hh)

    @staticmethod
    def combine(
        x: Tensor, u: Tensor, h: Tensor, c: Optional[Tensor], w: LayerWeights, mask: Optional[Tensor] = None
    ) -> Tuple[Tensor, Optional[Tensor], Tuple[Tensor, ...]]:
        """New ``h``, new ``c`` and what ``backward`` needs, from ``x`` = W x + bias(w) and ``u`` = ``recur(h, w)``."""
        raise NotImplementedError

    @staticmethod
    def backward(
        dh: Tensor, dc: Optional[Tensor], kept: Tuple[Tensor, ...], h: Tensor, c: Optional[Tensor], w: LayerWeights
    ) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
        """From the gradients of the new ``h`` and ``c`` (without layer norm and masks): the gradients of W x + b and of
        U h + b', [N, G * H] each, and of the old ``h`` and ``c``."""
        raise NotImplementedError

    @staticmethod
    def add_weight_hh_grad(total: Tensor, du: Tensor, h: Tensor, kept: Tuple[Tensor, ...]) -> None:
        """Add the gradient of ``weight_hh`` to ``total``, from that of U h + b', for any number of steps at once."""
        add_product(total, du, h)


class LSTM(Cell):
    """i, f, o = sigmoid(.), g = tanh(.) of W x + b + U h + b'; c~ = f c + i g; h~ = o tanh(c~)."""

    num_gates = 4
    num_normalized = 4
    has_c = True
    num_kept = 5
    matrices = (4,)
    start_bias = (0, 1, 0, 0)
    bias_after_norm = True
    keeping_gate, admitting_gate = 1, 0

    @staticmethod
    def combine(x, u, h, c, w, mask=None):
        i, f, g, o = _normalize(x + u, w).chunk(4, -1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        c = torch.addcmul(f * c, i, _drop(g, mask))
        tanh_c = torch.tanh(c)
        return o * tanh_c, c, (i, f, g, o, tanh_c)

    @staticmethod
    def backward(dh, dc, kept, h, c, w):
        i, f, g, o, tanh_c = kept
        dc = dc + tanh_backward(dh * o, tanh_c)
        du = dh.new_empty(len(dh), 4 * dh.shape[-1])
        di, df, dg, do = du.chunk(4, -1)
        sigmoid_backward(dc * g, i, grad_input=di)
        sigmoid_backward(dc * c, f, grad_input=df)
        tanh_backward(dc * i, g, grad_input=dg)
        sigmoid_backward(dh * tanh_c, o, grad_input=do)
        return du, du, du @ w.weight_hh, dc * f


class GRU(Cell):
    """The GRU of torch and cuDNN, which resets AFTER the recurrent product.

    r, z = sigmoid(W x + b + U h + b'); n = tanh(W_n x + b_n + r (U_n h + b'_n)); h~ = (1 - z) n + z h.
    """

    num_gates = 3
    num_normalized = 2
    num_kept = 4
    matrices = (2, 1)
    start_bias = (1, 1, 0)
    keeping_gate = 1

    @staticmethod
    def bias(w):
        size = w.weight_hh.shape[-1]
        return w.bias_ih + pad(w.bias_hh[: 2 * size], (0, size))  # r multiplies b'_n

    @staticmethod
    def combine(x, u, h, c, w, mask=None):
        size = h.shape[-1]
        x_rz, x_n = x.split([2 * size, size], -1)
        u_rz, u_n = u[:, : 2 * size], u[:, 2 * size :] + w.bias_hh[2 * size :]
        r, z = torch.sigmoid(_normalize(x_rz + u_rz, w)).chunk(2, -1)
        n = torch.tanh(torch.addcmul(x_n, r, u_n))
        return torch.lerp(_drop(n, mask), h, z), None, (r, z, n, u_n)

    @staticmethod
    def backward(dh, dc, kept, h, c, w):
        r, z, n, u_n = kept
        size = h.shape[-1]
        dx, du = dh.new_empty(2, len(dh), 3 * size).unbind(0)
        dr, dz, dn = dx.chunk(3, -1)
        dh_z = dh * z
        tanh_backward(dh - dh_z, n, grad_input=dn)
        sigmoid_backward(dh * (h - n), z, grad_input=dz)
        sigmoid_backward(dn * u_n, r, grad_input=dr)
        du[:, : 2 * size] = dx[:, : 2 * size]
        torch.mul(dn, r, out=du[:, 2 * size :])
        return dx, du, torch.addmm(dh_z, du, w.weight_hh), None


class GRUResetBefore(GRU):
    """The original GRU, also that of TensorFlow 1 and of the paper's tables, which resets BEFORE the recurrent product.

    r, z as in :class:`GRU`; n = tanh(W_n x + b_n + U_n (r h) + b'_n); h~ = (1 - z) n + z h.
    """

    num_kept = 3
    bias = Cell.bias

    @staticmethod
    def recur(h, w):
        return linear(h, w.weight_hh[: 2 * h.shape[-1]])

    @staticmethod
    def combine(x, u, h, c, w, mask=None):
        size = h.shape[-1]
        x_rz, x_n = x.split([2 * size, size], -1)
        r, z = torch.sigmoid(_normalize(x_rz + u, w)).chunk(2, -1)
        n = torch.tanh(x_n + linear(r * h, w.weight_hh[2 * size :]))
        return torch.lerp(_drop(n, mask), h, z), None, (r, z, n)

    @staticmethod
    def backward(dh, dc, kept, h, c, w):
        r, z, n = kept
        size = h.shape[-1]
        du = dh.new_empty(len(dh), 3 * size)
        dr, dz, dn = du.chunk(3, -1)
        dh_z = dh * z
        tanh_backward(dh - dh_z, n, grad_input=dn)
        sigmoid_backward(dh * (h - n), z, grad_input=dz)
        d_reset = dn @ w.weight_hh[2 * size :]  # of r h
        sigmoid_backward(d_reset * h, r, grad_input=dr)
        dh = torch.addcmul(dh_z, d_reset, r)
        return du, du, torch.addmm(dh, du[:, : 2 * size], w.weight_hh[: 2 * size]), None

    @staticmethod
    def add_weight_hh_grad(total, du, h, kept):
        size = h.shape[-1]
        add_product(total[: 2 * size], du[:, : 2 * size], h)
        add_product(total[2 * size :], du[:, 2 * size :], kept[0] * h)


class RNN(Cell):
    """The plain RNN, h~ = tanh(W x + b + U h + b')."""

    num_gates = 1
    num_normalized = 1
    num_kept = 1
    matrices = (1,)
    start_bias = (0,)

    @staticmethod
    def combine(x, u, h, c, w, mask=None):
        new = torch.tanh(_normalize(x + u, w))
        return _drop(new, mask), None, (new,)

    @staticmethod
    def backward(dh, dc, kept, h, c, w):
        du = tanh_backward(dh, kept[0])
        return du, du, du @ w.weight_hh, None


def project(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """W x + b, [N, G * H]."""
    if x.shape[-1] == 1:
        return torch.addcmul(bias, x, weight.t())  # takes half the time of a product of one column and one row
    return linear(x, weight, bias)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a^T b to ``total``, whose precision may be higher."""
    if total.dtype == a.dtype:
        total.addmm_(a.t(), b)
    else:
        total.add_(a.t() @ b)


def zone_out(old: Tensor, new: Tensor, mask: Tensor) -> Tensor:
    """Zoneout (Krueger et al. 2017): a unit keeps its old value where ``mask`` is 1."""
    return mask * old + (1 - mask) * new


def _drop(candidate: Tensor, mask: Optional[Tensor]) -> Tensor:
    return candidate if mask is None else candidate * mask


def _normalize(gates: Tensor, w: LayerWeights) -> Tensor:
    """Layer norm of every gate separately, (x - mean) / (std + eps), [B, N * H]; the gates as they are if there are no
    weights for it."""
    if w.norm_weight is None:
        return gates
    units = gates.unflatten(-1, (-1, w.weight_hh.shape[-1]))
    units = units.to(torch.promote_types(units.dtype, torch.float32))  # float16 could not hold the squares
    deviation = units - units.mean(-1, keepdim=True)
    variance = deviation.square().mean(-1, keepdim=True)
    # The gradient of sqrt is infinite at 0, where all units of a gate are equal (as a single unit is); use std 0 there
    std = torch.where(variance > 0, variance, 1.0).sqrt() * (variance > 0)
    return (deviation / (std + NORM_EPS)).flatten(-2).to(gates.dtype) * w.norm_weight + w.norm_bias


CELLS = {"lstm": LSTM, "gru": GRU, "gru_reset_before": GRUResetBefore, "rnn": RNN}
