"""The ``indexed`` engine as an autograd function."""

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


def make_inputs(options: Options, tensors: Sequence[Optional[Tensor]], weights: Sequence[Tensor]) -> Inputs:
    """From x, h, c, p, acc, the gate's weight and bias and the dropout mask, and four weights of each layer."""
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


class Scan(torch.autograd.Function):
    """``tensors``: as :func:`make_inputs` takes them, the weights behind the others; ``keep``: for a backward."""

    @staticmethod
    def forward(ctx, options, keep, *tensors):
        inputs = make_inputs(options, tensors[:8], tensors[8:])
        output, state, updates, steps = forward(inputs, keep)
        ctx.options, ctx.count = options, len(tensors)
        # all of it, so that a change in place is noticed and activation checkpointing can do its work
        ctx.save_for_backward(*tensors, updates, *_flatten(steps))
        return (output, *state, updates)

    @staticmethod
    def backward(ctx, *gradients):
        saved = ctx.saved_tensors
        tensors, updates, flat = saved[: ctx.count], saved[ctx.count], saved[ctx.count + 1 :]
        inputs = make_inputs(ctx.options, tensors[:8], tensors[8:])
        steps = _unflatten(flat, len(inputs.weights), inputs.cell.num_kept)
        return None, None, *_no_second(run_backward(inputs, steps, updates, gradients, ctx.needs_input_grad[2]))


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


def run_backward(
    inputs: Inputs, steps: List[Step], updates: Tensor, gradients, need_dx: bool
) -> List[Optional[Tensor]]:
    """Gradients of ``Scan``'s tensors, in their order, from those of its results."""
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
