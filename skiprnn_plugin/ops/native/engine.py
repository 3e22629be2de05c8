"""The engine as :mod:`skiprnn_plugin.ops.autograd` wants one: tensors to pointers and back."""

import mmap
import sys
from contextlib import suppress
from ctypes import addressof, byref, c_int64, c_void_p
from typing import Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..types import Operands, Options
from . import library
from .library import BACKWARD, BACKWARD_TO_X, FAULTS, FORWARD, Incoming, Outgoing, Problem, Result, Saved, Shape
from .packing import pack

CELLS = {"lstm": 0, "gru": 1, "gru_reset_before": 2, "rnn": 3}
NORESERVE = 0x4000 if sys.platform == "linux" else 0  # what Python's mmap has no name for before 3.13
NEAR = 1 << 25  # bytes that malloc keeps at hand: no new pages to clear, and mostly still in the caches


def refuse(x: Tensor) -> Optional[str]:
    """Why the engine cannot take ``x``; None if it can."""
    if x.dtype != torch.float32 or x.device.type != "cpu":
        return f"takes torch.float32 on the CPU, got {x.dtype} on {x.device}"
    if torch.is_autocast_enabled("cpu"):
        return "takes torch.float32 on the CPU, got autocast, which wants a lower precision"
    return library.missing()


def forward(
    operands: Operands, weights: Sequence[Tensor], options: Options, keep: bool
) -> Tuple[List[Optional[Tensor]], List[Tensor]]:
    """Output, h, c, p, acc and updates; and if the backward's needs are to be kept: the updates' records, the chains
    that they make [B, 2], and W x + b of every step (empty for inputs that are not wide)."""
    lib, call = library.load(), _Call(operands, weights, options)
    x, (batch, steps, _), hidden = operands.x, operands.x.shape, operands.h.shape[-1]
    results = [
        x.new_empty((batch, hidden) if options.last_only else (batch, steps, hidden)),
        *map(_empty_like, operands[1:5]),
        x.new_empty((batch, steps)),
    ]
    result = Result(*map(_address, results))
    if not keep:
        _check(lib.skiprnn_forward(byref(call.problem), byref(result), None))
        return results, []
    capacity, size = lib.skiprnn_records(byref(call.problem)), lib.skiprnn_record_size(byref(call.problem))
    records = _reserve(capacity * size)
    chains = x.new_empty((batch, 2), dtype=torch.int64)
    projected = x.new_empty(lib.skiprnn_projected_size(byref(call.problem)))
    saved = Saved(records.data_ptr(), capacity, 0, chains.data_ptr(), projected.data_ptr() or None)
    _check(lib.skiprnn_forward(byref(call.problem), byref(result), byref(saved)))
    return results, [records[: saved.used * size], chains, projected]


def backward(
    operands: Operands,
    weights: Sequence[Tensor],
    options: Options,
    saved: Sequence[Tensor],
    updates: Tensor,
    gradients: Sequence[Optional[Tensor]],
    need_dx: bool,
) -> List[Optional[Tensor]]:
    """Gradients of the operands and weights, in their order, from those of the results."""
    lib, call = library.load(), _Call(operands, weights, options)
    packed = pack(call.shape, call.weights, BACKWARD_TO_X if need_dx else BACKWARD)
    x, (records, chains, projected) = operands.x, (each.contiguous() for each in saved)
    used = records.numel() // lib.skiprnn_record_size(byref(call.problem))
    kept = Saved(records.data_ptr(), used, used, chains.data_ptr(), projected.data_ptr() or None)

    d_output, *rest = gradients
    d_output = d_output if d_output.stride(-1) == 1 else d_output.contiguous()
    if operands.c is None:
        rest[1] = None  # a registered op has an empty tensor for it
    rest = [each if each is None else each.contiguous() for each in rest]
    step_stride = 0 if options.last_only else d_output.stride(1)
    incoming = Incoming(d_output.data_ptr(), d_output.stride(0), step_stride, *map(_address, rest))

    dx = x.new_zeros(x.shape) if need_dx else None
    d_operands, d_weights = [dx, *map(_empty_like, operands[1:])], [*map(_empty_like, weights)]
    d_x, *pointers = map(_address, d_operands)
    array = (c_void_p * len(d_weights))(*map(_address, d_weights))
    outgoing = Outgoing(d_x, addressof(array), *pointers)
    _check(lib.skiprnn_backward(byref(call.problem), packed.address, byref(kept), byref(incoming), byref(outgoing)))
    return [*d_operands, *d_weights]


def fake_saved(operands: Operands, options: Options, new_size: Callable) -> List[Tensor]:
    """Tensors like those that ``forward`` keeps; ``new_size`` makes a size that the data decides."""
    x = operands.x
    return [x.new_empty(new_size()), x.new_empty((x.shape[0], 2), dtype=torch.int64), x.new_empty(new_size())]


class _Call:
    """``problem``, and what it points to: the tensors in the form that it wants, and the ``packed`` weights."""

    def __init__(self, operands: Operands, weights: Sequence[Tensor], options: Options):
        x, *rest = operands
        if x.stride(-1) != 1 and x.shape[-1] != 1:
            x = x.contiguous()
        batch, steps, inputs = x.shape
        layers, hidden = operands.h.shape[0], operands.h.shape[-1]
        self.shape = Shape(CELLS[options.cell], layers, inputs, hidden)
        self.weights = [each.contiguous() for each in weights]
        self.packed = pack(self.shape, self.weights, FORWARD)
        *state, gate_weight, gate_bias, dropout_mask = rest
        tensors = [x, *state, *options[1:5], dropout_mask, gate_weight, gate_bias]
        # kept, as those that were not contiguous are new; x has strides
        self.tensors = [x, *(each if each is None else each.contiguous() for each in tensors[1:])]
        address, *addresses, gate_weight, gate_bias = map(_address, self.tensors)
        self.layers = (c_int64 * len(options.gate_layers))(*options.gate_layers)
        self.problem = Problem(
            self.shape,
            batch,
            steps,
            options.last_only,
            torch.get_num_threads(),
            NEAR // 4,
            address,
            x.stride(0),
            x.stride(1),
            self.packed.address,
            *addresses,
            len(options.gate_layers),
            addressof(self.layers),
            gate_weight,
            gate_bias,
            options.threshold,
        )


def _address(tensor: Optional[Tensor]) -> Optional[int]:
    """Where its values begin; None where it is None."""
    return None if tensor is None else tensor.data_ptr()


def _empty_like(tensor: Optional[Tensor]) -> Optional[Tensor]:
    return None if tensor is None else torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _reserve(count: int) -> Tensor:
    """Room for so many floats, whose pages become memory only as they are written."""
    size = 4 * count
    if size <= NEAR:
        return torch.empty(count, dtype=torch.float32, device="cpu")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", NORESERVE)
    area = mmap.mmap(-1, size, flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # of a kernel without them
            area.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(area, dtype=torch.float32)


def _check(fault: int) -> None:
    if fault:
        raise RuntimeError(f"engine 'native': {FAULTS.get(fault, f'fault {fault}')}")
