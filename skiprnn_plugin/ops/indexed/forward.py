"""Skip RNN with one iteration per update instead of one per step: iteration k makes the k-th update of every sequence,
whichever step of the sequence that is.

The mathematics and the names are those of :mod:`..reference`; those of the cells are in :mod:`..cells`. N is the number
of sequences that make a k-th update; sequences that have ended leave the working set.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple, Type

import torch
from torch import Tensor

from ..cells import Cell, project
from ..clock import Clock, accumulate
from ..reference import update_probability
from ..types import Gate, LayerWeights, SkipState


class Inputs(NamedTuple):
    """The arguments of :func:`skiprnn_plugin.ops.reference.scan`, by the same names, with the class of the cell, with
    ``begin`` and ``end`` never None, and with two tensors that follow from them: ``real``, bool [B, T], False at
    padding, and ``biases``, :meth:`..cells.Cell.bias` of each layer.
    """

    x: Tensor
    weights: Sequence[LayerWeights]
    state: SkipState
    gate: Optional[Gate]
    cell: Type[Cell]
    begin: Tensor
    end: Tensor
    schedule: Optional[Tensor]
    noise: Optional[Tensor]
    threshold: float
    dropout_mask: Optional[Tensor]
    last_only: bool
    min_skip: int
    max_skip: int
    real: Tensor
    biases: Sequence[Tensor]


class Iteration(NamedTuple):
    """One iteration's updates. ``h``, ``c`` and ``kept`` hold a tensor, or a tuple of tensors, for each layer.

    Attributes:
        rows: the sequences that update, int64 [N]; None for all B sequences in their order.
        times: the step at which each of them updates, int64 [N].
        parent: positions of these sequences in the iteration before, int64 [N]; None if both have the same sequences.
        p: the update probabilities after the updates, [N].
        h: the hidden states after the updates, [N, H].
        c: the cell states after the updates, [N, H]; None for a cell without a cell state.
        kept: what the cell's backward needs, [N, H] each; empty if there will be no backward pass.
    """

    rows: Optional[Tensor]
    times: Tensor
    parent: Optional[Tensor]
    p: Tensor
    h: Sequence[Tensor]
    c: Sequence[Optional[Tensor]]
    kept: Sequence[Tuple[Tensor, ...]]


def forward(inputs: Inputs, keep: bool) -> Tuple[Tensor, SkipState, Tensor, List[Iteration]]:
    """Output, state and updates as ``reference.scan`` returns them, and the iterations, a list that is empty unless
    ``keep``, which says that a backward pass will follow."""
    state, gate, has_c, batch = inputs.state, inputs.gate, inputs.cell.has_c, len(inputs.x)
    begin, end = inputs.begin, inputs.end
    clock = Clock(end, inputs.schedule, inputs.noise, inputs.threshold, inputs.max_skip)
    final = SkipState(*(None if part is None else part.clone(memory_format=torch.contiguous_format) for part in state))
    rows, zero = torch.arange(batch, device=begin.device), torch.zeros_like(state.p)
    iteration, iterations, made = start(inputs), [], []
    t, active = clock.find(rows, state.p, state.acc, begin)
    while len(rows) > 0:
        parent = None
        if active is not None:
            _store(final, iteration, rows, (~active).nonzero().squeeze(1))
            parent = active.nonzero().squeeze(1)
            rows, t, zero = rows[parent], t[parent], zero[parent]
            if len(rows) == 0:
                break
        some_rows = None if len(rows) == batch else rows
        h, c = pick(iteration.h, parent), pick(iteration.c, parent)
        h, c, kept = candidates(inputs, inputs.x[rows, t], h, c, some_rows)
        p = (
            pick((iteration.p,), parent)[0]
            if gate is None
            else update_probability(c if has_c else h, gate, state.p.dtype)
        )
        iteration = Iteration(some_rows, t, parent, p, h, c, kept)
        made.append((rows, t) if inputs.last_only else (rows, t, h[-1]))
        if keep:
            iterations.append(iteration)
        t, active = clock.find(rows, p, zero, t + 1, inputs.min_skip)
    updates = state.p.new_zeros(inputs.real.shape)
    if made:
        all_rows, all_times = (torch.cat(column) for column in list(zip(*made))[:2])
        updates[all_rows, all_times] = 1
    if gate is not None:
        final = final._replace(acc=_final_acc(updates, final.p, state.acc, begin, end))
    if inputs.last_only:
        return final.h[-1].clone(), final, updates, iterations
    output = torch.cat([state.h[-1], *(top for _, _, top in made)])[held_after(updates)]
    return output.masked_fill(~inputs.real.unsqueeze(-1), 0), final, updates, iterations


def start(inputs: Inputs) -> Iteration:
    """The initial state in the form of an iteration: the state before the first update."""
    state = inputs.state
    c = state.c.unbind(0) if inputs.cell.has_c else (None,) * len(state.h)
    return Iteration(None, None, None, state.p, state.h.unbind(0), c, ())


def pick(tensors: Sequence[Optional[Tensor]], places: Optional[Tensor]) -> List[Optional[Tensor]]:
    """The rows ``places`` of every tensor, int64 [N]; all rows for None."""
    return [tensor if tensor is None or places is None else tensor[places] for tensor in tensors]


def candidates(inputs: Inputs, x: Tensor, h, c, rows: Optional[Tensor], recurred: Optional[Sequence[Tensor]] = None):
    """The state after reading ``x`` [N, D] in the state ``h``, ``c``.

    Args:
        inputs: for the weights and masks.
        x: what the lowest layer reads, [N, D].
        h: hidden states before, [N, H] for each layer.
        c: cell states before; None for a cell without a cell state.
        rows: the sequences that read, int64 [N]; None for all.
        recurred: :meth:`..cells.Cell.recur` of each layer's ``h``, where it is computed already.

    Returns:
        New ``h``, new ``c``, and what the cell keeps for its backward, one entry for each layer.
    """
    new_h, new_c, kept = [], [], []
    for layer, w in enumerate(inputs.weights):
        if layer > 0:
            x = new_h[-1]
            if inputs.dropout_mask is not None:
                x = x * pick(inputs.dropout_mask[layer - 1 : layer], rows)[0]
        u = inputs.cell.recur(h[layer], w) if recurred is None else recurred[layer]
        results = inputs.cell.combine(project(x, w.weight_ih, inputs.biases[layer]), u, h[layer], c[layer], w)
        for layers, result in zip((new_h, new_c, kept), results):
            layers.append(result)
    return new_h, new_c, kept


def held_after(updates: Tensor) -> Tensor:
    """Which state is held after each step, int64 [B, T]: its index when all states are numbered, first the B initial
    ones, then the states after the updates of each iteration, in the order of the sequences."""
    batch = len(updates)
    ordinal = updates.long().cumsum(1)
    rows, times = updates.nonzero().unbind(1)
    order = ordinal[rows, times].argsort(stable=True)
    entries = torch.arange(batch, device=updates.device).unsqueeze(1).expand_as(ordinal).contiguous()
    entries[rows[order], times[order]] = torch.arange(batch, batch + len(order), device=updates.device)
    return entries.cummax(1).values


def _store(final: SkipState, iteration: Iteration, rows: Tensor, ended: Tensor) -> None:
    """Copy the states of the sequences that have ended, at positions ``ended`` of ``rows``, into ``final``."""
    sequences = rows[ended]
    final.p[sequences] = iteration.p[ended]
    for layer, (h, c) in enumerate(zip(iteration.h, iteration.c)):
        final.h[layer, sequences] = h[ended]
        if c is not None:
            final.c[layer, sequences] = c[ended]


def _final_acc(updates: Tensor, p: Tensor, acc: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """The sum that the steps skipped since the last update have accumulated, [B]."""
    times = torch.arange(1, updates.shape[1] + 1, device=p.device) * (updates > 0)
    after = times.amax(1)  # the step after the last update, 0 if there is none
    return accumulate(p, acc.masked_fill(after > 0, 0), end - torch.maximum(after, begin))
