"""The forward and the backward of the engine: both hand the addresses of tensors to the library."""

from ctypes import CDLL, Array, addressof, c_int64, c_void_p
from functools import lru_cache
from typing import Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..types import Operands, Options, Results
from . import areas, library
from .library import (
    BACKWARD,
    BACKWARD_TO_X,
    FAULTS,
    FLOAT32,
    FORWARD,
    INT8,
    Incoming,
    Outgoing,
    Problem,
    Result,
    Saved,
    Shape,
)
from .packing import pack

CELLS = {"lstm": 0, "gru": 1, "gru_reset_before": 2, "rnn": 3}
KEEP_LIMIT = 1 << 26  # bytes; records that fit also keep what a backward would otherwise compute again
SMALL = 1 << 25  # bytes; malloc keeps blocks up to this size for later use


def forward(
    operands: Operands, weights: Sequence[Tensor], options: Options, keep: bool, stored: int = FLOAT32
) -> Tuple[Results, List[Optional[Tensor]]]:
    """The results, and what the backward needs if ``keep`` is true: the updates' records, every sequence's last record
    and number of updates [B, 2], and W x + b of every step (None for inputs that are not wide). ``stored`` is how the
    recurrent weights are packed."""
    lib, (problem, shape, operands, weights) = library.load(), _describe(operands, weights, options, stored)
    x, h, c = operands.x, operands.h, operands.c
    batch, steps, hidden = *x.shape[:2], h.shape[2]
    results = Results(
        output=x.new_empty(batch, hidden) if options.last_only else x.new_empty(batch, steps, hidden),
        h=torch.empty_like(h),
        c=None if c is None else torch.empty_like(c),
        p=x.new_empty(batch),
        acc=x.new_empty(batch),
        updates=x.new_empty(batch, steps),
    )
    result = Result(*_addresses(results))
    if not keep:
        _run_forward(lib, problem, result, None, shape, weights)
        return results, []
    capacity, size = lib.skiprnn_records(problem), lib.skiprnn_record_size(problem)
    records = _reserve(x, capacity * size)
    chains = x.new_empty(batch, 2, dtype=torch.int64)
    width = lib.skiprnn_projected_size(problem)
    projected = x.new_empty(width) if width > 0 else None
    to_records, *addresses = _addresses([records, chains, projected])
    saved = Saved(to_records, capacity, 0, *addresses)
    _run_forward(lib, problem, result, saved, shape, weights)
    return results, [records[: saved.used * size], chains, projected]


def forward_int8(
    operands: Operands, weights: Sequence[Tensor], options: Options, keep: bool
) -> Tuple[Results, List[Optional[Tensor]]]:
    """As ``forward``, with recurrent weights that are rounded to int8. There is no backward, so ``keep`` is false."""
    return forward(operands, weights, options, False, INT8)


def _run_forward(
    lib: CDLL, problem: Problem, result: Result, saved: Optional[Saved], shape: Tuple[int, ...], weights: List[Tensor]
) -> None:
    with pack(shape, weights, FORWARD) as packed:
        problem.packed = packed.address
        _check(lib.skiprnn_forward(problem, result, saved))


def backward(
    operands: Operands,
    weights: Sequence[Tensor],
    options: Options,
    saved: Sequence[Tensor],
    updates: Tensor,
    gradients: Results,
    need_dx: bool,
) -> Tuple[Operands, List[Tensor]]:
    """The gradients of the operands and of the weights, from those of the results, of which None means 0."""
    lib, (problem, shape, operands, weights) = library.load(), _describe(operands, weights, options)
    saved = _contiguous(saved)
    to_records, to_chains, to_projected = _addresses(saved)
    used = saved[0].numel() // lib.skiprnn_record_size(problem)
    kept = Saved(to_records, used, used, to_chains, to_projected or None)  # a registered op has an empty tensor instead

    d_output, strides = gradients.output, (0, 0)
    if d_output is not None:
        d_output = (d_output if d_output.stride(-1) == 1 else d_output.contiguous()).resolve_neg()
        strides = (d_output.stride(0), 0 if options.last_only else d_output.stride(1))
    d_c = None if operands.c is None else gradients.c  # a registered op has an empty tensor for None
    d_rest = _contiguous((gradients.h, d_c, gradients.p, gradients.acc, gradients.updates))
    incoming = Incoming(*_addresses([d_output]), *strides, *_addresses(d_rest))

    dx = operands.x.new_zeros(operands.x.shape) if need_dx else None
    states = operands.h, operands.c, operands.p, operands.acc
    d_others = _empty_like((*states, operands.gate_weight, operands.gate_bias, operands.dropout_mask))
    d_weights = _empty_like(weights)
    array = (c_void_p * len(d_weights))(*_addresses(d_weights))
    outgoing = Outgoing(*_addresses([dx]), addressof(array), *_addresses(d_others))
    purpose = BACKWARD_TO_X if need_dx else BACKWARD
    with pack(shape, weights, FORWARD) as packed, pack(shape, weights, purpose) as transposed:
        problem.packed = packed.address
        _check(lib.skiprnn_backward(problem, transposed.address, kept, incoming, outgoing))
    return Operands(dx, *d_others), d_weights


def fake_saved(operands: Operands, options: Options, new_size: Callable) -> List[Tensor]:
    """Tensors like those that ``forward`` keeps; ``new_size`` makes a size that depends on the data."""
    x = operands.x
    return [x.new_empty(new_size()), x.new_empty((x.shape[0], 2), dtype=torch.int64), x.new_empty(new_size())]


def _describe(
    operands: Operands, weights: Sequence[Tensor], options: Options, stored: int = FLOAT32
) -> Tuple[Problem, Tuple[int, ...], Operands, List[Tensor]]:
    """The problem for the library, yet without packed weights, and its shape; the operands in the form that the library
    reads, which must live as long as the problem does; and the weights, contiguous."""
    x, *others = operands
    layers, threads = _array(tuple(options.gate_layers)), torch.get_num_threads()
    limits = None if options.has_no_limits() else _array((options.min_skip, options.max_skip))
    batch, steps, inputs = x.shape
    batch_stride, step_stride, input_stride = x.stride()
    if (input_stride != 1 and inputs != 1) or x.is_neg():
        x = x.contiguous().resolve_neg()
        batch_stride, step_stride, _ = x.stride()
    count, _, hidden = operands.h.shape
    weights, others = _contiguous(weights), _contiguous(others)
    shape = (CELLS[options.cell], count, inputs, hidden, stored)
    problem = Problem(
        _struct(shape),
        batch,
        steps,
        options.last_only,
        threads,
        KEEP_LIMIT // 4,
        x.data_ptr(),
        batch_stride,
        step_stride,
        None,
        *_addresses(others),
        len(layers),
        addressof(layers),
        options.threshold,
        None if limits is None else addressof(limits),
    )
    return problem, shape, Operands(x, *others), weights


@lru_cache
def _struct(shape: Tuple[int, ...]) -> Shape:
    """The shape for the library; nobody may change it, because it is cached."""
    return Shape(*shape)


@lru_cache
def _array(numbers: Tuple[int, ...]) -> Array:
    """The numbers as an array that the library reads; nobody may change it, because it is cached."""
    return (c_int64 * len(numbers))(*numbers)


def _contiguous(tensors: Sequence[Optional[Tensor]]) -> List[Optional[Tensor]]:
    """The tensors, contiguous, and with their values in memory: torch may keep a minus sign apart from them, as it does
    for an imaginary part."""
    return [
        tensor
        if tensor is None or (tensor.is_contiguous() and not tensor.is_neg())  # to ask first is faster
        else tensor.contiguous().resolve_neg()
        for tensor in tensors
    ]


def _addresses(tensors: Sequence[Optional[Tensor]]) -> List[Optional[int]]:
    """Where the values of the tensors begin; None for None."""
    return [tensor if tensor is None else tensor.data_ptr() for tensor in tensors]


def _empty_like(tensors: Sequence[Optional[Tensor]]) -> List[Optional[Tensor]]:
    """New tensors like the given ones, which are contiguous; None for None."""
    return [tensor if tensor is None else torch.empty_like(tensor) for tensor in tensors]


def _reserve(x: Tensor, count: int) -> Tensor:
    """A tensor like ``x`` of ``count`` floats, whose pages become memory only when they are written."""
    size = 4 * count
    if size <= SMALL:
        return x.new_empty(count)
    return torch.frombuffer(areas.take(size), dtype=torch.float32, count=count)


def _check(fault: int) -> None:
    if fault:
        raise RuntimeError(f"engine 'native': {FAULTS.get(fault, f'fault {fault}')}")
