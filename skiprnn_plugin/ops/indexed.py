"""The ``indexed`` engine: by update, not by time step, in plain torch, with a backward of its own.

The algorithm is in :mod:`.by_update` and :mod:`.by_update_backward`. Here it meets torch: as an autograd function, and
for ``torch.compile`` as a registered op, whose number of updates is a size that the compiler takes from the data.
"""

from contextlib import nullcontext
from typing import List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from .by_update import Inputs, Step, forward
from .by_update_backward import backward
from .cells import CELLS
from .types import Gate, LayerWeights, SkipState

NO_SECOND = "engine 'indexed': has no double backward; expected engine='reference' for second derivatives"


class Options(NamedTuple):
    """What a scan takes beside tensors that may need a gradient."""

    cell: str
    real: Tensor
    schedule: Optional[Tensor]
    noise: Optional[Tensor]
    threshold: float
    gate_layers: List[int]
    last_only: bool


def scan(x, weights, state, gate, *, cell, real, schedule, threshold, dropout_mask, last_only):
    """As :func:`skiprnn_plugin.ops.reference.scan`."""
    if real is None:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    constant = isinstance(threshold, float)
    name = next(name for name, each in CELLS.items() if each is cell)
    layers = [] if gate is None else [layer % len(weights) for layer in gate.layers]
    options = Options(
        name, real, schedule, None if constant else threshold, threshold if constant else 0.5, layers, last_only
    )
    tensors = [x, state.h, state.c, state.p, state.acc, *((None, None) if gate is None else gate[:2]), dropout_mask]
    weights = [each for w in weights for each in w[:4]]
    autocast = torch.is_autocast_enabled(x.device.type)
    if autocast:  # as torch.nn's recurrent modules: all in the lower precision, and here but for the gate
        dtype = torch.get_autocast_dtype(x.device.type)
        low = [i for i, each in enumerate(tensors) if i in (0, 1, 2, 7) and each is not None]
        for i in low:
            tensors[i] = _lower(tensors[i], dtype)
        weights = [_lower(each, dtype) for each in weights]
    with torch.autocast(x.device.type, enabled=False) if autocast else nullcontext():
        if torch.compiler.is_compiling():
            results = scan_op(*tensors, weights, *options, torch.is_grad_enabled())[:6]
            c = results[2] if cell.has_c else None
            return results[0], SkipState(results[1], c, *results[3:5]), results[5]
        output, h, c, p, acc, updates = _Scan.apply(options, *tensors, *weights)
    return output, SkipState(h, c, p, acc), updates


def _lower(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """In autocast's precision; it leaves float64 alone."""
    return tensor if tensor.dtype == torch.float64 else tensor.to(dtype)


def _inputs(options: Options, tensors: Sequence[Optional[Tensor]], weights: Sequence[Tensor]) -> Inputs:
    x, h, c, p, acc, gate_weight, gate_bias, dropout_mask = tensors
    cell, layers = CELLS[options.cell], [LayerWeights(*weights[i : i + 4]) for i in range(0, len(weights), 4)]
    return Inputs(
        x,
        layers,
        SkipState(h, c, p, acc),
        None if gate_weight is None else Gate(gate_weight, gate_bias, tuple(options.gate_layers)),
        cell,
        options.real,
        options.schedule,
        options.threshold if options.noise is None else options.noise,
        dropout_mask,
        options.last_only,
        [cell.bias(w) for w in layers],
    )


class _Scan(torch.autograd.Function):
    """``tensors``: as ``_inputs`` takes them, the weights behind the others."""

    @staticmethod
    def forward(ctx, options, *tensors):
        inputs = _inputs(options, tensors[:8], tensors[8:])
        output, state, updates, steps = forward(inputs, any(ctx.needs_input_grad))
        ctx.options, ctx.count = options, len(tensors)
        # all of it, so that a change in place is noticed and activation checkpointing can do its work
        ctx.save_for_backward(*tensors, updates, *_flatten(steps))
        if state.acc is tensors[4]:
            state = state._replace(acc=state.acc.clone())
        return (output, *state, updates)

    @staticmethod
    def backward(ctx, *gradients):
        saved = ctx.saved_tensors
        tensors, updates, flat = saved[: ctx.count], saved[ctx.count], saved[ctx.count + 1 :]
        inputs = _inputs(ctx.options, tensors[:8], tensors[8:])
        steps = _unflatten(flat, len(inputs.weights), inputs.cell.num_kept)
        return None, *_no_second(_backward(inputs, steps, updates, gradients, ctx.needs_input_grad[1]))


def _flatten(steps: List[Step]) -> List[Optional[Tensor]]:
    return [each for step in steps for each in (*step[:4], *step.h, *step.c, *(k for kept in step.kept for k in kept))]


def _unflatten(flat: Sequence[Optional[Tensor]], layers: int, num_kept: int) -> List[Step]:
    def kept(begin):
        return [flat[i : i + num_kept] for i in range(begin, begin + layers * num_kept, num_kept)]

    size = 4 + layers * (2 + num_kept)
    return [
        Step(
            *flat[i : i + 4],
            flat[i + 4 : i + 4 + layers],
            flat[i + 4 + layers : i + 4 + 2 * layers],
            kept(i + 4 + 2 * layers),
        )
        for i in range(0, len(flat), size)
    ]


def _backward(inputs: Inputs, steps: List[Step], updates: Tensor, gradients, need_dx: bool) -> List[Optional[Tensor]]:
    """In the order of the arguments of ``_Scan``."""
    d_output, dh, dc, dp, dacc, d_updates = gradients
    with torch.no_grad(), torch.autocast(updates.device.type, enabled=False):
        d = backward(inputs, steps, updates, d_output, SkipState(dh, dc, dp, dacc), d_updates, need_dx)
    weights = [each for layer in d.weights for each in layer[:4]]
    return [d.x, *d.state, d.gate_weight, d.gate_bias, d.dropout_mask, *weights]


def _no_second(gradients: List[Optional[Tensor]]) -> List[Optional[Tensor]]:
    """The gradients, which raise an error where someone asks for theirs."""
    if not torch.is_grad_enabled():
        return gradients
    there = [each for each in gradients if each is not None]
    marked = iter(_Refuse.apply(*(each.requires_grad_() for each in there)))
    return [None if each is None else next(marked) for each in gradients]


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        return tuple(each.view_as(each) for each in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError(NO_SECOND)


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
    inputs = _inputs(options, (x, h, c, p, acc, gate_weight, gate_bias, dropout_mask), weights)
    output, state, updates, steps = forward(inputs, keep)
    c = x.new_empty(0) if state.c is None else state.c
    acc = state.acc.clone() if state.acc is acc else state.acc
    return [output, state.h, c, state.p, acc, updates, *(_pack(inputs, steps) if keep else ())]


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
    inputs = _inputs(options, (x, h, c, p, acc, gate_weight, gate_bias, dropout_mask), weights)
    found = _backward(inputs, _unpack(packed, inputs), updates, gradients, need_dx)
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
