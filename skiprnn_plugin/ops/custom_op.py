"""The engines that have a backward of their own, as one registered op, for ``torch.compile``."""

from typing import List, Optional

import torch
from torch import Tensor

from .autograd import SIZE
from .engines import ENGINES
from .types import Operands, Options


@torch.library.custom_op("skiprnn_plugin::scan", mutates_args=())
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
    begin: Optional[Tensor],
    end: Optional[Tensor],
    schedule: Optional[Tensor],
    noise: Optional[Tensor],
    threshold: float,
    gate_layers: List[int],
    last_only: bool,
    engine: str,
    keep: bool,
) -> List[Tensor]:
    """``Operands``, weights and ``Options`` to output, h, c (empty without one), p, acc, updates, and then what the
    engine's backward needs."""
    _check_span(begin, end, x.shape[1])
    options = Options(cell, begin, end, schedule, noise, threshold, gate_layers, last_only)
    operands = Operands(x, h, c, p, acc, gate_weight, gate_bias, dropout_mask)
    results, saved = ENGINES[engine].kernels.forward(operands, weights, options, keep)
    return [x.new_empty(0) if each is None else each for each in results + saved]


def _check_span(begin: Optional[Tensor], end: Optional[Tensor], steps: int) -> None:
    """What ``skip_scan`` checks, but for compiled code, in which it can't look at values."""
    before = 0 if begin is None else begin
    if begin is not None and bool(((begin < 0) | (begin > steps)).any()):
        low, high = int(begin.min()), int(begin.max())
        raise ValueError(f"offsets: expected values from 0 to the {steps} steps of x, got {low} to {high}")
    if end is not None and bool(((end < before) | (end > steps)).any()):
        low, high = int((end - before).min()), int(end.max())
        raise ValueError(
            f"lengths: expected values from 0, and none beyond the {steps} steps of x, got {low} as the smallest, and "
            f"{high} as the last step"
        )


@scan_op.register_fake
def _(*arguments):
    operands, options, (engine, keep) = Operands(*arguments[:SIZE]), Options(*arguments[SIZE + 1 : -2]), arguments[-2:]
    x, h, c, p, acc = operands[:5]
    batch, steps, hidden = *x.shape[:2], h.shape[-1]
    results = [h.new_empty((batch, hidden) if options.last_only else (batch, steps, hidden))]
    results += [x.new_empty(0) if each is None else each.new_empty(each.shape) for each in (h, c, p, acc)]
    results.append(p.new_empty(batch, steps))
    if keep:
        results += ENGINES[engine].kernels.fake_saved(operands, options, torch.library.get_ctx().new_dynamic_size)
    return results


@torch.library.custom_op("skiprnn_plugin::scan_backward", mutates_args=())
def backward_op(
    gradients: List[Tensor],
    saved: List[Tensor],
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
    begin: Optional[Tensor],
    end: Optional[Tensor],
    schedule: Optional[Tensor],
    noise: Optional[Tensor],
    threshold: float,
    gate_layers: List[int],
    last_only: bool,
    engine: str,
    need_dx: bool,
) -> List[Tensor]:
    """The gradients of the tensors among ``scan_op``'s arguments, in their order; empty where there is none."""
    options = Options(cell, begin, end, schedule, noise, threshold, gate_layers, last_only)
    operands = Operands(x, h, c, p, acc, gate_weight, gate_bias, dropout_mask)
    found = ENGINES[engine].kernels.backward(operands, weights, options, saved, updates, gradients, need_dx)
    return [x.new_empty(0) if each is None else each for each in found]


@backward_op.register_fake
def _(gradients, saved, updates, x, *arguments):
    need_dx = arguments[-1]
    first = [x if need_dx else None, *arguments[: SIZE - 1], *arguments[SIZE - 1]]
    return [x.new_empty(0) if each is None else each.new_empty(each.shape) for each in first]


def _save(ctx, inputs, output):
    operands, weights, options = inputs[:SIZE], inputs[SIZE], inputs[SIZE + 1 : -1]
    cell, *tensors, threshold, gate_layers, last_only, engine = options
    ctx.options = cell, threshold, gate_layers, last_only, engine
    ctx.layers, ctx.need_dx = len(weights), inputs[0].requires_grad
    ctx.save_for_backward(*operands, *tensors, *weights, *output[5:])


def _differentiate(ctx, gradients):
    saved = ctx.saved_tensors
    operands, tensors = saved[:SIZE], saved[SIZE : SIZE + 4]
    weights, rest = saved[SIZE + 4 : SIZE + 4 + ctx.layers], saved[SIZE + 4 + ctx.layers :]
    cell, *options = ctx.options
    found = backward_op(
        list(gradients[:6]), list(rest[1:]), rest[0], *operands, list(weights), cell, *tensors, *options, ctx.need_dx
    )
    found = [
        None if each.numel() == 0 and argument is None else each for each, argument in zip(found, (*operands, *weights))
    ]
    if not ctx.need_dx:
        found[0] = None
    return (*found[:SIZE], found[SIZE:], *[None] * 10)


scan_op.register_autograd(_differentiate, setup_context=_save)
