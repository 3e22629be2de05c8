"""From the arguments of a scan to an engine that has a backward of its own, with autograd told about that backward."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .clock import NEVER
from .custom_op import scan_op
from .engines import find_engine
from .tracing import is_batched, needs_registered_op
from .types import (
    Gate,
    LayerWeights,
    Operands,
    Options,
    Results,
    SkipState,
    flatten_weights,
    prescribe_updates,
    split_operands,
)


def scan(
    engine: str,
    x: Tensor,
    weights: Sequence[LayerWeights],
    state: SkipState,
    gate: Optional[Gate],
    *,
    cell: str,
    begin: Optional[Tensor],
    end: Optional[Tensor],
    schedule: Optional[Tensor],
    noise: Optional[Tensor],
    threshold: float,
    dropout_mask: Optional[Tensor],
    last_only: bool,
    min_skip: int = 0,
    max_skip: int = NEVER,
) -> Tuple[Tensor, SkipState, Tensor]:
    """As ``reference.scan``, by the engine of that name, which has ``kernels``; B is 1 or more."""
    kernels = find_engine(engine).kernels
    weights = flatten_weights(weights)
    h, c, p, acc = state
    gate_weight, gate_bias, gate_layers = (None, None, ()) if gate is None else gate
    operands = Operands(x, h, c, p, acc, gate_weight, gate_bias, dropout_mask, begin, end, schedule, noise)
    options = Options(cell, threshold, gate_layers, last_only, min_skip, max_skip)
    registered = needs_registered_op((*operands, *weights))
    if registered or not kernels.accepts_none:
        state = state.filled()
        operands = operands._replace(p=state.p, acc=state.acc)
    keep = torch.is_grad_enabled() and any(
        [tensor is not None and tensor.requires_grad for tensor in (*operands, *weights)]
    )
    if keep and kernels.backward is None:
        raise ValueError(
            f"engine: {engine!r} has no gradients; call it under torch.no_grad(), or expected auto for training"
        )
    if registered:
        results = scan_op(operands, weights, options, engine, keep)
    elif keep:
        _, *others = operands
        results = Results(*Scan.apply(x, engine, options, *others, *weights))
    else:
        results, _ = kernels.forward(operands, weights, options, keep)
    return results.output, SkipState(results.h, results.c, results.p, results.acc), results.updates


class Scan(torch.autograd.Function):
    """The engine with its backward.

    ``x``, the first of the operands, is the first argument; ``tensors`` are the other operands and then the weights.
    """

    @staticmethod
    def forward(ctx, x: Tensor, engine: str, options: Options, *tensors):
        tensors = (x, *tensors)
        kernels = find_engine(engine).kernels
        results, saved = kernels.forward(*split_operands(tensors), options, True)
        ctx.set_materialize_grads(not kernels.accepts_none)
        ctx.engine, ctx.options, ctx.num_tensors = engine, options, len(tensors)
        # every tensor, so that autograd notices a change in place, and that activation checkpointing works
        ctx.save_for_backward(*tensors, results.updates, *saved)
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        unpacked = ctx.saved_tensors  # once, as activation checkpointing refuses to give a tensor again
        tensors, (updates, *saved) = unpacked[: ctx.num_tensors], unpacked[ctx.num_tensors :]
        needs_dx, *_ = ctx.needs_input_grad
        if is_batched(*gradients):
            raise RuntimeError(
                f"engine {ctx.engine!r}: takes no batched gradients, such as those of jacobian(vectorize=True); "
                "expected engine='reference' for them"
            )
        operands, weights = split_operands(tensors)
        operands, options = prescribe_updates(operands, ctx.options, updates)
        d_operands, d_weights = find_engine(ctx.engine).kernels.backward(
            operands, weights, options, saved, updates, Results(*gradients), needs_dx
        )
        dx, *others = _refuse_second((*d_operands, *d_weights), (*tensors, *gradients), ctx.engine)
        return dx, None, None, *others


def _refuse_second(
    gradients: Sequence[Optional[Tensor]], sources: Sequence[Optional[Tensor]], engine: str
) -> List[Optional[Tensor]]:
    """The gradients, which raise an error where someone asks for theirs with respect to any of the ``sources``."""
    if not torch.is_grad_enabled():
        return gradients
    found = [gradient for gradient in gradients if gradient is not None]
    sources = [source for source in sources if source is not None and source.requires_grad]
    marked = iter(_Refuse.apply(engine, len(found), *found, *sources))
    return [None if gradient is None else next(marked) for gradient in gradients]


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, engine: str, count: int, *tensors) -> Tuple[Tensor, ...]:
        ctx.engine = engine
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError(
            f"engine {ctx.engine!r}: has no double backward; expected engine='reference' for second derivatives"
        )
