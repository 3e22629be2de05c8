"""The weights in the kernels' layout. They are laid out again only when their content has changed."""

import threading
import weakref
from collections import OrderedDict, deque
from copy import copy
from ctypes import c_uint64, c_void_p
from typing import Deque, Sequence, Tuple

import torch
from torch import Tensor

from .library import Shape, in_forks, load

CAPACITY = 32  # sets of weights that are kept; one for a forward and one for a backward count as two
ALIGNMENT = 64  # bytes


class PackedWeights:
    """One set of weights, laid out for one purpose, as a context manager that :func:`pack` has entered for the caller.

    Attributes:
        address: where the weights in the kernels' layout begin.
        readers: one entry for each ``with`` block that has not ended. The weights are not overwritten while there are
            any.
    """

    def __init__(self, shape: Tuple[int, ...], pointers: Sequence[int], purpose: int):
        self.library, self.shape, self.purpose = load(), Shape(*shape), purpose
        self.pointers = (c_void_p * len(pointers))(*pointers)
        size = self.library.skiprnn_packed_size(self.shape, purpose)
        self.buffer = torch.empty(size + ALIGNMENT // 4, dtype=torch.float32, device="cpu")
        self.address = -(-self.buffer.data_ptr() // ALIGNMENT) * ALIGNMENT
        self._reset()

    def _reset(self) -> None:
        self.known = c_uint64(0)  # 1 once the buffer has been filled
        self.readers: Deque[None] = deque()
        self.lock = threading.Lock()

    def for_child(self) -> "PackedWeights":
        """An entry for the child of a fork: with the same buffer, which may be half filled, and with no reader."""
        packed = copy(self)
        packed._reset()
        return packed

    def start_reading(self) -> bool:
        """Count a reader, if the buffer holds the weights' present content or can be made to hold it."""
        with self.lock:
            if not self.readers:
                threads = torch.get_num_threads()
                self.library.skiprnn_pack(self.shape, self.pointers, self.purpose, threads, self.address, self.known)
            elif not self.library.skiprnn_packed_is(self.shape, self.pointers, self.purpose, self.address):
                return False
            self.readers.append(None)
            return True

    def __enter__(self) -> "PackedWeights":
        return self

    def __exit__(self, *exception) -> None:
        self.readers.pop()  # needs no lock: deques are thread-safe, and a reader too many does no harm


_lock = threading.Lock()
_cache: "OrderedDict[tuple, PackedWeights]" = OrderedDict()


@in_forks
def _replace_entries() -> None:
    """Another thread of the parent may have held a lock, been reading weights or been laying them out; the child has no
    such thread."""
    global _lock, _cache
    _lock, _cache = threading.Lock(), OrderedDict((key, packed.for_child()) for key, packed in _cache.items())


def pack(shape: Tuple[int, ...], weights: Sequence[Tensor], purpose: int) -> PackedWeights:
    """The weights as ``skiprnn_forward`` or ``skiprnn_backward`` takes them, for ``with pack(...) as packed:``.

    The library compares the weights' content with what it laid out last, because fairseq's optimizers write through
    ``.data``, which no version counter notices. The weights' addresses only tell the sets apart.

    Args:
        shape: the stack's shape, the fields of ``Shape``.
        purpose: FORWARD, BACKWARD or BACKWARD_TO_X.
        weights: four contiguous tensors of each layer.

    Returns:
        the packed weights, which stay as they are until the ``with`` block ends, whatever becomes of ``weights``.
    """
    pointers = tuple(map(Tensor.data_ptr, weights))
    key = (purpose, shape, pointers)
    with _lock:
        packed = _cache.get(key)
        if packed is None:
            packed = _store(key, PackedWeights(shape, pointers, purpose), weights[0])
        else:
            _cache.move_to_end(key)
    if not packed.start_reading():  # somebody still reads the weights' former content
        packed = PackedWeights(shape, pointers, purpose)
        packed.start_reading()
        with _lock:
            _store(key, packed, weights[0])
    return packed


def _forget(key: tuple) -> None:
    """Drop a set. It takes no lock, as the garbage collector may call it while this thread holds it."""
    _cache.pop(key, None)


def _store(key: tuple, packed: PackedWeights, owner: Tensor) -> PackedWeights:
    """Keep a set as long as ``owner``, one of its weights, exists: after that it may be large and is of no use."""
    packed.owner = weakref.ref(owner, lambda _: _forget(key))
    _cache[key] = packed
    while len(_cache) > CAPACITY:
        _cache.popitem(last=False)
    return packed
