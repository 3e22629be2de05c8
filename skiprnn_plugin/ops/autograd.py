"""The engines that have a backward of their own, as one autograd function.

Such an engine's row of :data:`.engines.ENGINES` has ``kernels``.
"""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .engines import ENGINES
from .types import Operands, Options

SIZE = len(Operands._fields)


class Scan(torch.autograd.Function):
    """``tensors``: the operands, and behind them the weights; ``keep``: for a backward."""

    @staticmethod
    def forward(ctx, engine: str, options: Options, keep: bool, *tensors):
        results, saved = ENGINES[engine].kernels.forward(Operands(*tensors[:SIZE]), tensors[SIZE:], options, keep)
        if keep:
            ctx.set_materialize_grads(not ENGINES[engine].kernels.accepts_none)
            cell, begin, end, schedule, noise, *rest = options
            ctx.engine, ctx.cell, ctx.rest, ctx.count = engine, cell, rest, len(tensors)
            # all of it, so that a change in place is noticed and activation checkpointing can do its work
            ctx.save_for_backward(*tensors, begin, end, schedule, noise, results[-1], *saved)
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        tensors, count = ctx.saved_tensors, ctx.count
        options = Options(ctx.cell, *tensors[count : count + 4], *ctx.rest)
        updates, saved = tensors[count + 4], tensors[count + 5 :]
        found = ENGINES[ctx.engine].kernels.backward(
            Operands(*tensors[:SIZE]),
            tensors[SIZE:count],
            options,
            saved,
            updates,
            gradients,
            ctx.needs_input_grad[3],
        )
        return None, None, None, *_no_second(ctx.engine, found, (*tensors[:count], *gradients))


def _no_second(
    engine: str, gradients: List[Optional[Tensor]], sources: Sequence[Optional[Tensor]]
) -> List[Optional[Tensor]]:
    """The gradients, which raise an error where someone asks for theirs, with respect to any of the ``sources``."""
    if not torch.is_grad_enabled():
        return gradients
    there = [each for each in gradients if each is not None]
    sources = [each for each in sources if each is not None and each.requires_grad]
    marked = iter(_Refuse.apply(engine, len(there), *there, *sources))
    return [None if each is None else next(marked) for each in gradients]


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, engine: str, count: int, *tensors) -> Tuple[Tensor, ...]:
        ctx.engine = engine
        return tuple(each.view_as(each) for each in tensors[:count])

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError(
            f"engine {ctx.engine!r}: has no double backward; expected engine='reference' for second derivatives"
        )
