"""A call of the engine: its tensors in the form that the kernels read, and the records that the forward pass makes."""

import os
from typing import List, NamedTuple, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from ..cells import CELLS, Cell
from ..types import LayerWeights, Operands, Options, group_weights

EMULATED = os.environ.get("TRITON_INTERPRET") == "1"  # triton itself reads this when a kernel is defined
NARROW = 2  # features of x up to which the kernel for whole sequences multiplies them itself
KERNEL_CELLS = {"lstm": 0, "gru": 1, "gru_reset_before": 2, "rnn": 3}  # as in :mod:`.arithmetic`


class Call(NamedTuple):
    """What a scan was asked for.

    Attributes:
        operands: of the scan; all but ``x`` contiguous, and ``p``, ``acc``, ``begin`` and ``end`` never None.
        options: of the scan.
        layers: the weights of each layer, contiguous.
        cell: the class of the cell.
        num_states: tensors of the state (S): h of every layer and then, for a cell with c, c of every layer.
        width: units of a layer in the records (P): H padded to a multiple of 16, so that rows begin at multiples of 16
            bytes.
    """

    operands: Operands
    options: Options
    layers: List[LayerWeights]
    cell: Type[Cell]
    num_states: int
    width: int

    @property
    def hidden(self) -> int:
        """Units of a layer (H)."""
        return self.operands.h.shape[-1]

    @property
    def is_gated(self) -> bool:
        """Whether there is a gate, so that p and acc change."""
        return self.operands.gate_weight is not None

    @property
    def is_learned(self) -> bool:
        """Whether the gate decides, so that its decisions have a gradient."""
        return self.operands.schedule is None

    def rows(self, some: slice) -> "Call":
        """The same call for some of the sequences."""
        x, h, c, p, acc, weight, bias, mask, *per_row = self.operands
        states = (None if tensor is None else tensor[:, some].contiguous() for tensor in (h, c))
        mask = None if mask is None else mask[:, some].contiguous()
        per_row = (None if tensor is None else tensor[some] for tensor in per_row)
        operands = Operands(x[some], *states, p[some], acc[some], weight, bias, mask, *per_row)
        return self._replace(operands=operands)


class Records(NamedTuple):
    """What the forward pass keeps of every update; K is the largest number of updates of a sequence, and 0 is the state
    that a sequence starts with. What lies beyond a sequence's number of updates is 0 in ``states``, and anything
    elsewhere.

    Attributes:
        states: the states after the updates, in the dtype of x, [K + 1, B, S, P].
        p: the update probabilities that they set, [K + 1, B].
        acc: what the steps skipped before an update had added up to when it came, [K + 1, B].
        times: the steps that were updated, int32 [K + 1, B].
        counts: number of updates of each sequence, int32 [B].
    """

    states: Tensor
    p: Tensor
    acc: Tensor
    times: Tensor
    counts: Tensor

    @classmethod
    def empty(cls, call: Call, capacity: int) -> "Records":
        """Room for ``capacity`` updates."""
        h, p = call.operands.h, call.operands.p
        batch, shape = h.shape[1], (capacity + 1, h.shape[1])
        return cls(
            states=h.new_zeros(*shape, call.num_states, call.width),
            p=p.new_empty(shape),
            acc=p.new_empty(shape),
            times=p.new_empty(shape, dtype=torch.int32),
            counts=p.new_empty(batch, dtype=torch.int32),
        )

    def rows(self, some: slice) -> "Records":
        """Those of some of the sequences; the tensors are views."""
        return Records(*(tensor[:, some] for tensor in self.by_update), self.counts[some])

    @property
    def by_update(self) -> Tuple[Tensor, ...]:
        """The fields whose first dimension is K + 1: all but ``counts``."""
        return self[:-1]


def describe(operands: Operands, weights: Sequence[Tensor], options: Options) -> Call:
    """The call, from what an engine is given."""
    x, *others = operands
    others = [None if tensor is None else tensor.contiguous() for tensor in others]
    operands = Operands(x, *others)
    batch, steps, _ = x.shape
    if operands.begin is None:
        operands = operands._replace(begin=torch.zeros(batch, dtype=torch.int64, device=x.device))
    if operands.end is None:
        operands = operands._replace(end=torch.full((batch,), steps, dtype=torch.int64, device=x.device))
    cell, count = CELLS[options.cell], len(operands.h)
    layers = group_weights([weight.contiguous() for weight in weights])
    return Call(operands, options, layers, cell, count * (1 + cell.has_c), round_up(operands.h.shape[-1]))


def round_up(hidden: int) -> int:
    return -(-hidden // 16) * 16


def tile_units(hidden: int) -> int:
    """Units of a tile that holds a layer (HP): a power of two, and at least the 16 that a product of tiles needs."""
    return max(16, 1 << (hidden - 1).bit_length())


def pad_gates(call: Call, tensor: Tensor) -> Tensor:
    """A layer's tensor [G * H, ...] as [G * P, ...], every gate padded with zeros."""
    if call.width == call.hidden:
        return tensor
    gates = tensor.unflatten(0, (-1, call.hidden))
    return pad(gates, (0, 0) * (gates.dim() - 2) + (0, call.width - call.hidden)).flatten(0, 1)


def project(call: Call, layer: int, x: Tensor) -> Tensor:
    """W x + b of a layer, [..., G * P], from ``x`` [..., input]."""
    weights = call.layers[layer]
    bias = call.cell.bias(weights)
    return linear(x, pad_gates(call, weights.weight_ih), pad_gates(call, bias))


class Prepared(NamedTuple):
    """What the backward's chain over updates reads of every run: an update and the steps skipped after it; run 0 is the
    steps before the first update. All float32, and 0 beyond a sequence's number of updates. :mod:`.prepare` has the
    equations.

    Attributes:
        through_p: E, by which the gradient of the state reaches p, [K + 1, B, S, P]; None without a gate.
        through_acc: F, by which it reaches acc, like ``through_p``.
        scalars: a, alpha, kappa and lambda, [K + 1, B, 4]; None without a gate.
        outputs: sum of the gradients of the run's outputs (O), [K + 1, B, P]; None if only the last output counts.
        factors: coefficients of the cell's backward (C of them, see :mod:`.candidates`), [K + 1, B, L, C, P].
    """

    through_p: Optional[Tensor]
    through_acc: Optional[Tensor]
    scalars: Optional[Tensor]
    outputs: Optional[Tensor]
    factors: Tensor


class Chained(NamedTuple):
    """What the backward's chain computes. The gradients at updates are 0 for run 0 and beyond a sequence's number of
    updates.

    Attributes:
        candidates: gradients of the candidate states, float32 [K + 1, B, S, P]; in the place of c they include what
            comes from h.
        logits: gradients of the gate's w . q + b, float32 [K + 1, B]; None without a gate.
        resets: gradients of r h, for GRUs that reset before the product, float32 [K + 1, B, L, P]; None for others.
        h: gradient of the initial h, float32 [L, B, H].
        c: like ``h``; None for cells without c.
        p: gradient of the initial p, [B]; None without a gate.
        acc: gradient of the initial acc, [B]; None without a gate.
    """

    candidates: Tensor
    logits: Optional[Tensor]
    resets: Optional[Tensor]
    h: Tensor
    c: Optional[Tensor]
    p: Optional[Tensor]
    acc: Optional[Tensor]


def room(x: Tensor) -> int:
    """Bytes that a pass may take for what it computes on its way: an eighth of the memory of the device. This never
    depends on what is free, as the order of sums follows from it."""
    return torch.cuda.get_device_properties(x.device).total_memory // 8 if x.is_cuda else 1 << 32


def fit_rows(x: Tensor, bytes_per_row: int) -> int:
    """How many sequences to work on at once, so that they take no more than :func:`room`."""
    batch, count = len(x), max(1, room(x) // max(1, bytes_per_row))
    return batch if count >= batch else max(count // 16 * 16, min(count, 16))


def pad_units(call: Call, tensor: Tensor) -> Tensor:
    """[..., H] as [..., P], padded with zeros; contiguous."""
    return tensor if call.width == call.hidden else pad(tensor, (0, call.width - call.hidden))


def weights_by_layer(call: Call) -> Optional[Tensor]:
    """The gate's weights for each layer, [num_layers, P], 0 where it does not read; None without a gate."""
    if not call.is_gated:
        return None
    weight, chosen = call.operands.gate_weight, call.options.gate_layers
    if len(call.layers) == len(chosen) == 1:  # mostly
        return pad_units(call, weight)
    weights = weight.new_zeros(len(call.layers), call.width)
    for layer, values in zip(chosen, weight.view(len(chosen), call.hidden)):
        weights[layer, : call.hidden] += values  # a layer may be read twice
    return weights


def weights_by_state(call: Call) -> Optional[Tensor]:
    """The gate's weights for each part of the state, [S, P]: :func:`weights_by_layer` for c, if the cell has one, and
    otherwise for h."""
    weights = weights_by_layer(call)
    return torch.cat([torch.zeros_like(weights), weights]) if call.is_gated and call.cell.has_c else weights
