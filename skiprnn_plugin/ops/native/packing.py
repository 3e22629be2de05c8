"""The weights in the kernels' layout, laid out anew only when their content has changed."""

import threading
from collections import OrderedDict
from ctypes import byref, c_uint64, c_void_p
from typing import Sequence

import torch
from torch import Tensor

from .library import Shape, load

CAPACITY = 32  # sets of weights, each counting once for the forward and once for the backward
ALIGNMENT = 64  # bytes


class _Packed:
    """One set of weights; ``address`` is where it begins in ``buffer``."""

    def __init__(self, size: int):
        self.buffer = torch.empty(size + ALIGNMENT // 4, dtype=torch.float32, device="cpu")
        self.address = -(-self.buffer.data_ptr() // ALIGNMENT) * ALIGNMENT
        self.known = c_uint64(0)
        self.lock = threading.Lock()


_lock = threading.Lock()
_cache: "OrderedDict[tuple, _Packed]" = OrderedDict()


def pack(shape: Shape, weights: Sequence[Tensor], purpose: int) -> _Packed:
    """The weights as ``skiprnn_forward`` or ``skiprnn_backward`` takes them.

    The library compares the weights' content with what it laid out last: fairseq's optimizers write through ``.data``,
    which no version counter notices. Where weights stand in memory only tells sets apart.

    Args:
        shape: of the stack.
        purpose: FORWARD, BACKWARD or BACKWARD_TO_X.
        weights: contiguous, four of each layer. They and the result must live as long as the library uses the result,
            so that meanwhile no others take their place in memory, and in the cache.
    """
    library = load()
    pointers = [each.data_ptr() for each in weights]
    key = (purpose, shape.cell, shape.layers, shape.input, shape.hidden, *pointers)
    with _lock:
        packed = _cache.get(key)
        if packed is None:
            packed = _cache[key] = _Packed(library.skiprnn_packed_size(byref(shape), purpose))
            if len(_cache) > CAPACITY:
                _cache.popitem(last=False)
        else:
            _cache.move_to_end(key)
    with packed.lock:
        array = (c_void_p * len(pointers))(*pointers)
        library.skiprnn_pack(byref(shape), array, purpose, packed.address, byref(packed.known))
    return packed
