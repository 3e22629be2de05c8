"""The engines that have a backward of their own, as one operation that torch knows by name, for ``torch.compile``.

torch's operations take and return neither the named tuples that the engines do nor None in a list of results. So the
operations' arguments are the fields of ``Operands``, the list of weights, the fields of ``Options`` except for
``LIMITS``, and the engine's name; and an empty tensor is returned for None.
"""

from itertools import islice
from typing import Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .checks import check_compiled_span
from .clock import NEVER
from .engines import find_engine
from .types import Operands, Options, Results, prescribe_updates, split_operands

REQUIRED = ("x", "h")  # operands that are never None
OPTIONS = {"cell": "str", "threshold": "float", "gate_layers": "int[]", "last_only": "bool"}  # their types in a schema
ARGUMENTS = ", ".join(
    [
        *(f"{'Tensor' if name in REQUIRED else 'Tensor?'} {name}" for name in Operands._fields),
        "Tensor[] weights",
        *(f"{kind} {name}" for name, kind in OPTIONS.items()),
        "str engine",
    ]
)
# Options of the forward alone. They come last and have defaults, so that programs of torch.export load which were saved
# before there were limits. For another SymInt torch does not compile again, as it does for another int
LIMITS = {"min_skip": 0, "max_skip": NEVER}
FORWARD_ARGUMENTS = ", ".join(
    [ARGUMENTS, "bool keep", *(f"SymInt {name}={default}" for name, default in LIMITS.items())]
)


def scan_op(operands: Operands, weights: Sequence[Tensor], options: Options, engine: str, keep: bool) -> Results:
    """The engine's forward; ``keep`` says that its backward may follow."""
    limits = [getattr(options, name) for name in LIMITS]
    found = _forward(*operands, weights, *options[: len(OPTIONS)], engine, keep, *limits)
    results = _results(found)
    return results if operands.c is not None else results._replace(c=None)


def parse(arguments: Sequence) -> Tuple[Operands, List[Tensor], Options, str, bool]:
    """The operands, weights, options and engine of a forward, and whether to keep what its backward needs."""
    operands, weights, options, engine, (keep, *limits) = _parse(arguments)
    return operands, weights, options._replace(**dict(zip(LIMITS, limits))), engine, keep


def _parse(arguments: Sequence) -> Tuple[Operands, List[Tensor], Options, str, Iterator]:
    """The operands, weights, options and engine, and the arguments that follow."""
    rest = iter(arguments)
    operands = Operands(*islice(rest, len(Operands._fields)))
    weights = next(rest)
    options = Options(*islice(rest, len(OPTIONS)))
    return operands, weights, options, next(rest), rest


def _results(tensors: Sequence[Tensor]) -> Results:
    return Results(*tensors[: len(Results._fields)])


def _without_none(tensors: Sequence[Optional[Tensor]], x: Tensor) -> List[Tensor]:
    return [x.new_empty(0) if tensor is None else tensor for tensor in tensors]


@torch.library.custom_op("skiprnn_plugin::scan", mutates_args=(), schema=f"({FORWARD_ARGUMENTS}) -> Tensor[]")
def _forward(*arguments):
    """The results, then what the engine's backward needs."""
    operands, weights, options, engine, keep = parse(arguments)
    check_compiled_span(operands.begin, operands.end, operands.x.shape[1])
    results, saved = find_engine(engine).kernels.forward(operands, weights, options, keep)
    return _without_none((*results, *saved), operands.x)


@_forward.register_fake
def _(*arguments):
    operands, _, options, engine, keep = parse(arguments)
    x, h, p = operands.x, operands.h, operands.p
    batch, steps, hidden = *x.shape[:2], h.shape[-1]
    results = Results(
        output=h.new_empty((batch, hidden) if options.last_only else (batch, steps, hidden)),
        h=h.new_empty(h.shape),
        c=None if operands.c is None else operands.c.new_empty(h.shape),
        p=p.new_empty(p.shape),
        acc=p.new_empty(p.shape),
        updates=p.new_empty(batch, steps),
    )
    saved = ()
    if keep:
        saved = find_engine(engine).kernels.fake_saved(operands, options, torch.library.get_ctx().new_dynamic_size)
    return _without_none((*results, *saved), x)


@torch.library.custom_op(
    "skiprnn_plugin::scan_backward",
    mutates_args=(),
    schema=f"({ARGUMENTS}, Tensor[] saved, Tensor updates, Tensor[] gradients, bool need_dx) -> Tensor[]",
)
def _backward(*arguments):
    """The gradients of the operands, then those of the weights."""
    operands, weights, options, engine, (saved, updates, gradients, need_dx) = _parse(arguments)
    d_operands, d_weights = find_engine(engine).kernels.backward(
        operands, weights, options, saved, updates, Results(*gradients), need_dx
    )
    return _without_none((*d_operands, *d_weights), operands.x)


@_backward.register_fake
def _(*arguments):
    operands, weights, _, _, (_, _, _, need_dx) = _parse(arguments)
    sources = operands.differentiable()
    if not need_dx:
        sources = sources._replace(x=None)
    gradients = [None if source is None else source.new_empty(source.shape) for source in (*sources, *weights)]
    return _without_none(gradients, operands.x)


def _save(ctx, inputs, output):
    operands, weights, ctx.options, ctx.engine, _ = parse(inputs)
    ctx.num_tensors, ctx.need_dx = len(operands) + len(weights), operands.x.requires_grad
    ctx.save_for_backward(*operands, *weights, _results(output).updates, *output[len(Results._fields) :])


def _differentiate(ctx, gradients):
    unpacked = ctx.saved_tensors  # once, as activation checkpointing refuses to give a tensor again
    operands, weights = split_operands(unpacked[: ctx.num_tensors])
    updates, *saved = unpacked[ctx.num_tensors :]
    operands, options = prescribe_updates(operands, ctx.options, updates)
    options = options[: len(OPTIONS)]
    found = _backward(*operands, weights, *options, ctx.engine, saved, updates, list(_results(gradients)), ctx.need_dx)
    d_operands, d_weights = split_operands(found)
    # torch takes an empty list, as the layers of no gate, for one of tensors, whose gradient is a list
    none = [[] if isinstance(option, (list, tuple)) and len(option) == 0 else None for option in options]
    found = [*(d if d.numel() > 0 else None for d in d_operands), d_weights, *none]
    # torch expects None for the further arguments too, but not for those that it has left out as they are the default
    return *found, *[None] * (len(ctx.needs_input_grad) - len(found))


_forward.register_autograd(_differentiate, setup_context=_save)
