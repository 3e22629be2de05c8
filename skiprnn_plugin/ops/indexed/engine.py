"""The ``indexed`` engine: by update, not by time step, in plain torch, with a backward of its own.

The algorithm is in :mod:`.forward` and :mod:`.backward`. This module has the functions that the engine's row of
:data:`skiprnn_plugin.ops.engines.ENGINES` names.
"""

from typing import Callable, List, Sequence, Tuple

import torch
from torch import Tensor

from ..cells import CELLS
from ..reference import real_steps
from ..types import Gate, Operands, Options, Results, SkipState, flatten_weights, group_weights
from . import backward as backward_by_update
from . import forward as forward_by_update
from .forward import Inputs, Iteration


def forward(
    operands: Operands, weights: Sequence[Tensor], options: Options, keep: bool
) -> Tuple[Results, List[Tensor]]:
    """The results; and what the backward needs if it is to ``keep`` that: the iterations' sizes, and one tensor for all
    updates of each thing that an ``Iteration`` holds."""
    inputs = _inputs(operands, weights, options)
    output, state, updates, iterations = forward_by_update.forward(inputs, keep)
    return Results(output, *state, updates), _pack(inputs, iterations) if keep else []


def backward(
    operands: Operands,
    weights: Sequence[Tensor],
    options: Options,
    saved: Sequence[Tensor],
    updates: Tensor,
    gradients: Results,
    need_dx: bool,
) -> Tuple[Operands, List[Tensor]]:
    """The gradients of the operands and of the weights, from those of the results."""
    inputs = _inputs(operands, weights, options)
    iterations = _unpack(saved, inputs)
    with torch.no_grad(), torch.autocast(updates.device.type, enabled=False):
        d_operands, d_weights = backward_by_update.backward(inputs, iterations, updates, gradients, need_dx)
    return d_operands, flatten_weights(d_weights)


def fake_saved(operands: Operands, options: Options, new_size: Callable) -> List[Tensor]:
    """Tensors like those that ``forward`` keeps; ``new_size`` makes a size that the data decides."""
    x, h, p, cell = operands.x, operands.h, operands.p, CELLS[options.cell]
    iterations, total = new_size(), new_size()
    width = h.shape[0] * (1 + cell.has_c + cell.num_kept)
    return [
        torch.empty(iterations, dtype=torch.int64, device="cpu"),
        *(x.new_empty(total, dtype=torch.int64) for _ in range(2)),
        p.new_empty(total),
        *(h.new_empty(total, h.shape[-1]) for _ in range(width)),
    ]


def _inputs(operands: Operands, weights: Sequence[Tensor], options: Options) -> Inputs:
    x, gate_weight, begin, end = operands.x, operands.gate_weight, operands.begin, operands.end
    batch, steps, _ = x.shape
    cell, layers, real = CELLS[options.cell], group_weights(weights), real_steps(x, begin, end)
    return Inputs(
        x=x,
        weights=layers,
        state=SkipState(operands.h, operands.c, operands.p, operands.acc),
        gate=None if gate_weight is None else Gate(gate_weight, operands.gate_bias, tuple(options.gate_layers)),
        cell=cell,
        begin=torch.zeros(batch, dtype=torch.int64, device=x.device) if begin is None else begin,
        end=torch.full((batch,), steps, device=x.device) if end is None else end,
        schedule=operands.schedule,
        noise=operands.noise,
        threshold=options.threshold,
        dropout_mask=operands.dropout_mask,
        last_only=options.last_only,
        min_skip=options.min_skip,
        max_skip=options.max_skip,
        real=torch.ones(batch, steps, dtype=torch.bool, device=x.device) if real is None else real,
        biases=[cell.bias(w) for w in layers],
    )


def _pack(inputs: Inputs, iterations: List[Iteration]) -> List[Tensor]:
    """The iterations as tensors of all updates; empties ``iterations``."""
    state = inputs.state
    every = torch.arange(len(inputs.x), device=state.h.device)
    rows = [every if iteration.rows is None else iteration.rows for iteration in iterations]
    sizes = torch.tensor([len(places) for places in rows], dtype=torch.int64, device="cpu")
    columns = [rows, [iteration.times for iteration in iterations], [iteration.p for iteration in iterations]]
    columns += zip(
        *(
            (*iteration.h, *(iteration.c if inputs.cell.has_c else ()), *(k for kept in iteration.kept for k in kept))
            for iteration in iterations
        )
    )
    if not iterations:
        width = len(inputs.weights) * (1 + inputs.cell.has_c + inputs.cell.num_kept)
        empty = (state.h.new_empty(0, state.h.shape[-1]) for _ in range(width))
        return [sizes, every[:0], every[:0].clone(), state.p[:0].clone(), *empty]
    del rows
    iterations.clear()
    packed = [sizes]
    while columns:  # so that no more than one column is there twice
        packed.append(torch.cat(list(columns.pop(0))))
    return packed


def _unpack(packed: Sequence[Tensor], inputs: Inputs) -> List[Iteration]:
    batch, layers, num_kept = len(inputs.x), len(inputs.weights), inputs.cell.num_kept
    sizes = packed[0].tolist()
    columns = zip(*(column.split(sizes) for column in packed[1:]))
    iterations: List[Iteration] = []
    before = torch.arange(batch, device=inputs.x.device)
    for rows, times, p, *flat in columns:
        parent = None if len(rows) == len(before) else torch.searchsorted(before, rows)
        h, rest = flat[:layers], flat[layers:]
        c, rest = (rest[:layers], rest[layers:]) if inputs.cell.has_c else ([None] * layers, rest)
        kept = [tuple(rest[i : i + num_kept]) for i in range(0, len(rest), num_kept)]
        iterations.append(Iteration(None if len(rows) == batch else rows, times, parent, p, h, c, kept))
        before = rows
    return iterations
