"""The weights in the kernels' layout, laid out anew only when their content has changed."""

import sys
import threading
from collections import OrderedDict
from ctypes import c_uint64, c_void_p
from typing import Sequence, Tuple

import torch
from torch import Tensor

from .library import Shape, in_forks, load

CAPACITY = 32  # sets of weights, each counting once for the forward and once for the backward
ALIGNMENT = 64  # bytes


class Packed:
    """One set of weights for one purpose; ``address`` is where it begins in ``buffer``, ``struct`` the ``shape``."""

    def __init__(self, shape: Tuple[int, ...], pointers: Sequence[int], purpose: int):
        self.shape, self.struct = shape, Shape(*shape)
        self.pointers = (c_void_p * len(pointers))(*pointers)
        size = load().skiprnn_packed_size(self.struct, purpose)
        self.buffer = torch.empty(size + ALIGNMENT // 4, dtype=torch.float32, device="cpu")
        self.address = -(-self.buffer.data_ptr() // ALIGNMENT) * ALIGNMENT
        self.forget()

    def forget(self) -> None:
        """Have everything laid out anew."""
        self.known = c_uint64(0)
        self.lock = threading.Lock()


def _count_references() -> int:
    """How many an object has that is in a dictionary, and in use where it was found there."""
    held = {0: object()}
    found = held[0]
    return sys.getrefcount(found)


ALONE = _count_references()

_lock = threading.Lock()
_cache: "OrderedDict[tuple, Packed]" = OrderedDict()


@in_forks
def _start_anew() -> None:
    """Another thread of the parent's may have held a lock, or been laying weights out."""
    global _lock
    _lock = threading.Lock()
    for packed in _cache.values():
        packed.forget()


def pack(shape: Tuple[int, ...], weights: Sequence[Tensor], purpose: int) -> Packed:
    """The weights as ``skiprnn_forward`` or ``skiprnn_backward`` takes them.

    The library compares the weights' content with what it laid out last: fairseq's optimizers write through ``.data``,
    which no version counter notices. Where weights stand in memory only tells sets apart.

    Args:
        shape: of the stack, the fields of ``Shape``.
        purpose: FORWARD, BACKWARD or BACKWARD_TO_X.
        weights: contiguous, four of each layer. They and the result must live as long as the library uses the result,
            so that meanwhile no others take their place in memory, and in the cache.
    """
    pointers = [each.data_ptr() for each in weights]
    key = (purpose, *shape, *pointers)
    with _lock:
        packed = _cache.get(key)
        if packed is None:
            packed = _cache[key] = Packed(shape, pointers, purpose)
            while len(_cache) > CAPACITY:
                _cache.popitem(last=False)
        else:
            _cache.move_to_end(key)
    with packed.lock:
        # Whoever finds it waits here, so that it is nobody else's if the references are the cache's and this one
        if packed.known.value == 0 or (sys.getrefcount(packed) <= ALONE and _cache.get(key) is packed):
            _lay_out(packed, purpose)
            return packed
        # else other threads may be reading it, and find nothing half written
        if load().skiprnn_packed_is(packed.struct, packed.pointers, purpose, packed.address):
            return packed
    packed = Packed(shape, pointers, purpose)
    _lay_out(packed, purpose)
    with _lock:
        _cache[key] = packed
    return packed


def _lay_out(packed: Packed, purpose: int) -> None:
    threads = torch.get_num_threads()
    load().skiprnn_pack(packed.struct, packed.pointers, purpose, threads, packed.address, packed.known)
