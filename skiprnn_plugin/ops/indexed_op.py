"""The ``indexed`` engine as a registered op, for ``torch.compile``: the number of updates is a size from the data."""

from typing import List, Optional, Sequence

import torch
from torch import Tensor

from .by_update import Inputs, Step, forward
from .cells import CELLS
from .indexed_autograd import Options, make_inputs, run_backward


@torch.library.custom_op("skiprnn_plugin::indexed_scan", mutates_args=())
def scan_op(
    x: Tensor,
    h: Tensor,
    c: Optional[Tensor],
    p: Tensor,
    acc: Tensor,
    gate_weight: Optional[Tensor],
    gate_bias: Optional[Tensor],
    dropout_mask: Optional[Tensor],
    weights: List[Tensor],
    cell: str,
    real: Tensor,
    schedule: Optional[Tensor],
    noise: Optional[Tensor],
    threshold: float,
    gate_layers: List[int],
    last_only: bool,
    keep: bool,
) -> List[Tensor]:
    """The engine as a torch op: output, h, c (empty without one), p, acc, updates, and then what its backward needs:
    the iterations' sizes, and one tensor for all updates of each thing that a ``Step`` holds."""
    options = Options(cell, real, schedule, noise, threshold, gate_layers, last_only)
    inputs = make_inputs(options, (x, h, c, p, acc, gate_weight, gate_bias, dropout_mask), weights)
    output, state, updates, steps = forward(inputs, keep)
    c = x.new_empty(0) if state.c is None else state.c
    return [output, state.h, c, state.p, state.acc, updates, *(_pack(inputs, steps) if keep else ())]


def _pack(inputs: Inputs, steps: List[Step]) -> List[Tensor]:
    batch, state, hidden = len(inputs.x), inputs.state, inputs.state.h.shape[-1]
    every = torch.arange(batch, device=state.h.device)
    rows = [every if step.rows is None else step.rows for step in steps]
    sizes = torch.tensor([len(each) for each in rows], dtype=torch.int64, device="cpu")
    columns = [rows, [step.times for step in steps], [step.p for step in steps]]
    flat = [
        (*step.h, *(step.c if inputs.cell.has_c else ()), *(k for kept in step.kept for k in kept)) for step in steps
    ]
    columns += zip(*flat)
    if not steps:
        width = len(inputs.weights) * (1 + inputs.cell.has_c + inputs.cell.num_kept)
        return [sizes, every[:0], every[:0], state.p[:0].clone(), *(state.h.new_empty(0, hidden) for _ in range(width))]
    return [sizes, *(torch.cat(list(column)) for column in columns)]


def _unpack(packed: Sequence[Tensor], inputs: Inputs) -> List[Step]:
    batch, layers, num_kept = len(inputs.x), len(inputs.weights), inputs.cell.num_kept
    sizes = packed[0].tolist()
    columns = zip(*(each.split(sizes) for each in packed[1:]))
    steps: List[Step] = []
    before = torch.arange(batch, device=inputs.x.device)
    for rows, times, p, *flat in columns:
        parent = None if len(rows) == len(before) else torch.searchsorted(before, rows)
        h, rest = flat[:layers], flat[layers:]
        c, rest = (rest[:layers], rest[layers:]) if inputs.cell.has_c else ([None] * layers, rest)
        kept = [tuple(rest[i : i + num_kept]) for i in range(0, len(rest), num_kept)]
        steps.append(Step(None if len(rows) == batch else rows, times, parent, p, h, c, kept))
        before = rows
    return steps


@scan_op.register_fake
def _(
    x,
    h,
    c,
    p,
    acc,
    gate_weight,
    gate_bias,
    dropout_mask,
    weights,
    cell,
    real,
    schedule,
    noise,
    threshold,
    gate_layers,
    last_only,
    keep,
):
    batch, hidden = x.shape[0], h.shape[-1]
    output = h.new_empty(batch, hidden) if last_only else h.new_empty(batch, x.shape[1], hidden)
    results = [output, torch.empty_like(h), x.new_empty(0) if c is None else torch.empty_like(c)]
    results += [torch.empty_like(p), torch.empty_like(acc), p.new_empty(x.shape[:2])]
    if keep:
        context = torch.library.get_ctx()
        iterations, total = context.new_dynamic_size(), context.new_dynamic_size()
        width = h.shape[0] * (1 + CELLS[cell].has_c + CELLS[cell].num_kept)
        integers = {"dtype": torch.int64}
        results += [
            torch.empty(iterations, device="cpu", **integers),
            x.new_empty(total, **integers),
            x.new_empty(total, **integers),
        ]
        results += [p.new_empty(total), *(h.new_empty(total, hidden) for _ in range(width))]
    return results


@torch.library.custom_op("skiprnn_plugin::indexed_scan_backward", mutates_args=())
def backward_op(
    gradients: List[Tensor],
    packed: List[Tensor],
    updates: Tensor,
    x: Tensor,
    h: Tensor,
    c: Optional[Tensor],
    p: Tensor,
    acc: Tensor,
    gate_weight: Optional[Tensor],
    gate_bias: Optional[Tensor],
    dropout_mask: Optional[Tensor],
    weights: List[Tensor],
    cell: str,
    real: Tensor,
    schedule: Optional[Tensor],
    noise: Optional[Tensor],
    threshold: float,
    gate_layers: List[int],
    last_only: bool,
    need_dx: bool,
) -> List[Tensor]:
    """The gradients of the tensors among ``scan_op``'s arguments, in their order; empty where there is none."""
    options = Options(cell, real, schedule, noise, threshold, gate_layers, last_only)
    inputs = make_inputs(options, (x, h, c, p, acc, gate_weight, gate_bias, dropout_mask), weights)
    found = run_backward(inputs, _unpack(packed, inputs), updates, gradients, need_dx)
    return [x.new_empty(0) if each is None else each for each in found]


@backward_op.register_fake
def _(
    gradients,
    packed,
    updates,
    x,
    h,
    c,
    p,
    acc,
    gate_weight,
    gate_bias,
    dropout_mask,
    weights,
    cell,
    real,
    schedule,
    noise,
    threshold,
    gate_layers,
    last_only,
    need_dx,
):
    first = [x if need_dx else None, h, c, p, acc, gate_weight, gate_bias, dropout_mask, *weights]
    return [
        x.new_empty(0) if each is None else torch.empty_like(each, memory_format=torch.contiguous_format)
        for each in first
    ]


def _save(ctx, inputs, output):
    tensors, weights, options = inputs[:8], inputs[8], inputs[9:16]
    ctx.options = options[0], *options[4:]
    ctx.layers, ctx.need_dx = len(weights), inputs[0].requires_grad
    ctx.save_for_backward(*tensors, *options[1:4], *weights, *output[5:])


def _differentiate(ctx, gradients):
    saved = ctx.saved_tensors
    tensors, (real, schedule, noise) = saved[:8], saved[8:11]
    weights, rest = saved[11 : 11 + ctx.layers], saved[11 + ctx.layers :]
    cell, threshold, gate_layers, last_only = ctx.options
    found = backward_op(
        list(gradients[:6]), list(rest[1:]), rest[0], *tensors, list(weights),
        cell, real, schedule, noise, threshold, gate_layers, last_only, ctx.need_dx,
    )  # fmt: skip
    found = [
        None if each.numel() == 0 and argument is None else each for each, argument in zip(found, (*tensors, *weights))
    ]
    if not ctx.need_dx:
        found[0] = None
    return (*found[:8], found[8:], *[None] * 8)


scan_op.register_autograd(_differentiate, setup_context=_save)
