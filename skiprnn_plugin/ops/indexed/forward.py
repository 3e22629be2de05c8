"""Skip RNN by update, not by time step: iteration k makes the k-th update of every sequence, each at its own time.

The mathematics and the names are those of :mod:`.reference`, the cells' own are in :mod:`.cells`. N is the number of
sequences that make a k-th update; those that have ended leave the working set.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import torch
from torch import Tensor

from ..cells import Cell, project
from ..clock import Clock, accumulate
from ..reference import update_probability
from ..types import Gate, LayerWeights, SkipState


class Inputs(NamedTuple):
    """What :func:`skiprnn_plugin.ops.reference.scan` takes, by these names; but ``real`` [B, T], False at padding. And
    ``biases``, :meth:`.cells.Cell.bias` of each layer."""

    x: Tensor
    weights: Sequence[LayerWeights]
    state: SkipState
    gate: Optional[Gate]
    cell: Type[Cell]
    real: Tensor
    schedule: Optional[Tensor]
    threshold: Union[float, Tensor]
    dropout_mask: Optional[Tensor]
    last_only: bool
    biases: Sequence[Tensor]


class Step(NamedTuple):
    """One iteration's updates. The last three hold a tensor, or a tuple of them, for each layer.

    Attributes:
        rows: whose they are, int64 [N]; None for all B sequences in their order.
        times: when they are, int64 [N].
        parent: places of these sequences in the iteration before, int64 [N]; None where they are the same ones.
        p: the update probabilities that they set, [N].
        h: the hidden states that they make, [N, H].
        c: the cell states; None without any.
        kept: what the cell's backward needs, each [N, H]; empty if there is to be none.
    """

    rows: Optional[Tensor]
    times: Tensor
    parent: Optional[Tensor]
    p: Tensor
    h: Sequence[Tensor]
    c: Sequence[Optional[Tensor]]
    kept: Sequence[Tuple[Tensor, ...]]


def forward(inputs: Inputs, keep: bool) -> Tuple[Tensor, SkipState, Tensor, List[Step]]:
    """Output, state and updates as ``reference.scan`` returns them; and if they are to ``keep``, the steps."""
    state, gate, has_c, batch = inputs.state, inputs.gate, inputs.cell.has_c, len(inputs.x)
    begin, end = bounds(inputs.real)
    schedule = None if inputs.schedule is None else inputs.schedule & inputs.real
    clock = Clock(end, schedule, inputs.threshold)
    final = SkipState(*(None if each is None else each.clone(memory_format=torch.contiguous_format) for each in state))
    rows, zero = torch.arange(batch, device=begin.device), torch.zeros_like(state.p)
    now, steps, made = start(inputs), [], []
    t, active = clock.find(rows, state.p, state.acc, begin)
    while len(rows) > 0:
        parent = None
        if active is not None:
            _store(final, now, rows, (~active).nonzero().squeeze(1))
            parent = active.nonzero().squeeze(1)
            rows, t, zero = rows[parent], t[parent], zero[parent]
            if len(rows) == 0:
                break
        whose = None if len(rows) == batch else rows
        h, c = pick(now.h, parent), pick(now.c, parent)
        h, c, kept = candidates(inputs, inputs.x[rows, t], h, c, whose)
        p = pick((now.p,), parent)[0] if gate is None else update_probability(c if has_c else h, gate, state.p.dtype)
        now = Step(whose, t, parent, p, h, c, kept)
        made.append((rows, t) if inputs.last_only else (rows, t, h[-1]))
        if keep:
            steps.append(now)
        t, active = clock.find(rows, p, zero, t + 1)
    updates = state.p.new_zeros(inputs.real.shape)
    if made:
        all_rows, all_times = (torch.cat(column) for column in list(zip(*made))[:2])
        updates[all_rows, all_times] = 1
    if gate is not None:
        final = final._replace(acc=_final_acc(updates, final.p, state.acc, begin, end))
    if inputs.last_only:
        return final.h[-1].clone(), final, updates, steps
    output = torch.cat([state.h[-1], *(each[2] for each in made)])[held_after(updates)]
    return output.masked_fill(~inputs.real.unsqueeze(-1), 0), final, updates, steps


def start(inputs: Inputs) -> Step:
    """What there is before the first update, in the form of a step."""
    state = inputs.state
    c = state.c.unbind(0) if inputs.cell.has_c else (None,) * len(state.h)
    return Step(None, None, None, state.p, state.h.unbind(0), c, ())


def pick(tensors: Sequence[Optional[Tensor]], places: Optional[Tensor]) -> List[Optional[Tensor]]:
    """Rows of each; all of them for None."""
    return [each if each is None or places is None else each[places] for each in tensors]


def candidates(inputs: Inputs, x: Tensor, h, c, rows: Optional[Tensor], recurred: Optional[Sequence[Tensor]] = None):
    """The state that reading ``x`` [N, D] would give to ``rows`` (None: all), and what the backward needs, by layer."""
    new_h, new_c, kept = [], [], []
    for layer, w in enumerate(inputs.weights):
        if layer > 0:
            x = new_h[-1]
            if inputs.dropout_mask is not None:
                x = x * pick(inputs.dropout_mask[layer - 1 : layer], rows)[0]
        u = inputs.cell.recur(h[layer], w) if recurred is None else recurred[layer]
        each = inputs.cell.combine(project(x, w.weight_ih, inputs.biases[layer]), u, h[layer], c[layer], w)
        for part, value in zip((new_h, new_c, kept), each):
            part.append(value)
    return new_h, new_c, kept


def bounds(real: Tensor) -> Tuple[Tensor, Tensor]:
    """First step of each sequence, and the one after its last, int64 [B]."""
    count = real.sum(1)
    begin = real.to(torch.uint8).argmax(1)
    return begin, begin + count


def held_after(updates: Tensor) -> Tensor:
    """Where the state stands that is held after each step, int64 [B, T], in an array of the B initial states and then
    those that the updates make, iteration by iteration, the sequences of one in their order."""
    batch = len(updates)
    ordinal = updates.long().cumsum(1)
    rows, times = updates.nonzero().unbind(1)
    order = ordinal[rows, times].argsort(stable=True)
    entries = torch.arange(batch, device=updates.device).unsqueeze(1).expand_as(ordinal).contiguous()
    entries[rows[order], times[order]] = torch.arange(batch, batch + len(order), device=updates.device)
    return entries.cummax(1).values


def _store(final: SkipState, now: Step, rows: Tensor, gone: Tensor) -> None:
    """Put the states of those that have ended into ``final``."""
    whose = rows[gone]
    final.p[whose] = now.p[gone]
    for layer, (h, c) in enumerate(zip(now.h, now.c)):
        final.h[layer, whose] = h[gone]
        if c is not None:
            final.c[layer, whose] = c[gone]


def _final_acc(updates: Tensor, p: Tensor, acc: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """What the steps skipped since the last update have added up to, [B]."""
    times = torch.arange(1, updates.shape[1] + 1, device=p.device) * (updates > 0)
    after = times.amax(1)  # the step after the last update, 0 if there is none
    return accumulate(p, acc.masked_fill(after > 0, 0), end - torch.maximum(after, begin))
