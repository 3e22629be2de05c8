"""The library that ``skiprnn.h`` describes, called through ctypes. It is loaded once, when it is used first.

Environment variables:
    SKIPRNN_NATIVE_LIBRARY: the library's file, instead of the one in this file's folder.
    SKIPRNN_LEVEL: the instruction set to use, one of :func:`levels`, instead of the best.
"""

import os
import threading
from ctypes import CDLL, POINTER, Structure, c_char_p, c_float, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional

from ..tracing import constant_in_compiled_code
from ..types import Operands, Results

ABI = 10
FILES = ("libskiprnn.so", "libskiprnn.dylib")
NOT_BUILT = "needs its library, which is not built: install the package with pip on a machine with a C++ compiler"
FORWARD, BACKWARD, BACKWARD_TO_X = range(3)  # what packed weights are used for; the last one also computes x's gradient
FLOAT32, INT8 = range(2)  # how recurrent weights are packed
FAULTS = {1: "there is not enough memory", 2: "there are more updates than records"}
NO_ROW, TOO_EARLY, TOO_LATE = 3, 4, 5  # faults of a stream


class Shape(Structure):
    """``skiprnn_shape``. The fields of all structures in this file are documented in ``skiprnn.h``."""

    _fields_ = [(name, c_int64) for name in ("cell", "layers", "input", "hidden", "weights")]


def _pointers(*names: str) -> list:
    return [(name, c_void_p) for name in names]


class Problem(Structure):
    _fields_ = [
        ("shape", Shape),
        *((name, c_int64) for name in ("batch", "steps", "last_only", "threads", "keep_limit")),
        ("x", c_void_p),
        ("x_batch_stride", c_int64),
        ("x_step_stride", c_int64),
        *_pointers("packed", *Operands._fields[1:]),  # x comes above, with its strides
        ("gate_count", c_int64),
        ("gate_layers", c_void_p),
        ("threshold", c_float),
        ("limits", c_void_p),
    ]


class Result(Structure):
    _fields_ = _pointers(*Results._fields)


class Saved(Structure):
    _fields_ = [
        ("records", c_void_p),
        ("capacity", c_int64),
        ("used", c_int64),
        *_pointers("chains", "projected"),
    ]


class Incoming(Structure):
    _fields_ = [
        ("output", c_void_p),
        ("output_batch_stride", c_int64),
        ("output_step_stride", c_int64),
        *_pointers("h", "c", "p", "acc", "updates"),
    ]


class Outgoing(Structure):
    _fields_ = _pointers("x", "weights", "h", "c", "p", "acc", "gate_weight", "gate_bias", "dropout_mask")


class StreamOptions(Structure):
    _fields_ = [
        ("shape", Shape),
        ("rows", c_int64),
        *_pointers("packed", "gate_weight", "gate_bias"),
        ("gate_count", c_int64),
        ("gate_layers", c_void_p),
        ("threshold", c_float),
        ("min_skip", c_int64),
        ("max_skip", c_int64),
        ("seeds", c_void_p),
    ]


_ROWS = (c_void_p, c_void_p, c_int64)  # a stream, and which of its rows

PROTOTYPES = {
    "skiprnn_abi": (c_int64,),
    "skiprnn_levels": (c_char_p,),
    "skiprnn_level": (c_char_p,),
    "skiprnn_set_level": (c_int, c_char_p),
    "skiprnn_packed_size": (c_int64, POINTER(Shape), c_int64),
    "skiprnn_packed_is": (c_int, POINTER(Shape), c_void_p, c_int64, c_void_p),
    "skiprnn_pack": (c_int, POINTER(Shape), c_void_p, c_int64, c_int64, c_void_p, POINTER(c_uint64)),
    "skiprnn_record_size": (c_int64, POINTER(Problem)),
    "skiprnn_records": (c_int64, POINTER(Problem)),
    "skiprnn_projected_size": (c_int64, POINTER(Problem)),
    "skiprnn_forward": (c_int, POINTER(Problem), POINTER(Result), POINTER(Saved)),
    "skiprnn_backward": (c_int, POINTER(Problem), c_void_p, POINTER(Saved), POINTER(Incoming), POINTER(Outgoing)),
    "skiprnn_skips": (c_int64, c_float, POINTER(c_float), c_float, c_int64),
    "skiprnn_stream_size": (c_int64, POINTER(StreamOptions)),
    "skiprnn_stream_init": (c_void_p, POINTER(StreamOptions), c_void_p),
    "skiprnn_stream_put": (c_int, *_ROWS, *[c_void_p] * 7),
    "skiprnn_stream_get": (c_int, *_ROWS, *[c_void_p] * 4),
    "skiprnn_stream_output": (c_int, *_ROWS, c_void_p),
    "skiprnn_stream_time": (c_void_p, c_void_p),
    "skiprnn_stream_wanted": (c_void_p, c_void_p),
    "skiprnn_stream_wait": (c_int64, c_void_p, c_int64),
    "skiprnn_stream_update": (c_int, *_ROWS, c_void_p),
    "skiprnn_stream_skip": (c_int, *_ROWS, c_void_p, c_int64),
    "skiprnn_stream_feed": (c_int, *_ROWS, c_void_p, c_int64, c_int64, c_int64, POINTER(c_int64)),
    "skiprnn_activation": (None, c_int64, c_int64, c_void_p, c_void_p),
}


class _Found(NamedTuple):
    """The ``library``, or the ``reason`` why there is none."""

    library: Optional[CDLL]
    reason: Optional[str]


_lock = threading.Lock()
_found: Optional[_Found] = None


def in_forks(function: Callable[[], None]) -> Callable[[], None]:
    """Decorator: the function is also called in the child of every fork, on systems that have forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
    return function


@in_forks
def _replace_lock() -> None:
    """Another thread of the parent may have held the lock, and the child has no such thread to release it."""
    global _lock
    _lock = threading.Lock()


@constant_in_compiled_code
def missing() -> Optional[str]:
    """Why there is no library; None if there is one.

    Raises:
        ValueError: SKIPRNN_LEVEL is not one of the library's instruction sets that this machine supports.
    """
    return _look().reason


def load() -> CDLL:
    """The library; None if it is :func:`missing`."""
    return _look().library


def _look() -> _Found:
    global _found
    if _found is None:
        with _lock:
            if _found is None:
                _found = _open()
    return _found


def _open() -> _Found:
    given = os.environ.get("SKIPRNN_NATIVE_LIBRARY")
    beside = (Path(__file__).with_name(name) for name in FILES)
    path = given or next((str(path) for path in beside if path.exists()), None)
    if path is None:
        return _Found(None, NOT_BUILT)
    origin = "SKIPRNN_NATIVE_LIBRARY" if given else "its library"
    try:
        library = CDLL(path)
        for name, (result, *arguments) in PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        return _Found(None, f"cannot use {path} ({origin}): {error}")
    if library.skiprnn_abi() != ABI:
        return _Found(None, f"cannot use {path} ({origin}): interface {library.skiprnn_abi()}, expected {ABI}")
    if os.environ.get("SKIPRNN_LEVEL"):
        _set_level(library, os.environ["SKIPRNN_LEVEL"], "SKIPRNN_LEVEL")
    return _Found(library, None)


def levels() -> List[str]:
    """The instruction sets that the library has kernels for and that this machine supports, best first."""
    return load().skiprnn_levels().decode().split(",")


def level() -> str:
    """The instruction set in use."""
    return load().skiprnn_level().decode()


def set_level(name: str) -> None:
    """Use the named instruction set from now on. This must not be called while a scan runs.

    Raises:
        ValueError: ``name`` is not one of :func:`levels`.
    """
    _set_level(load(), name, "level")


def _set_level(library: CDLL, name: str, argument: str) -> None:
    if not library.skiprnn_set_level(name.encode()):
        known = ", ".join(library.skiprnn_levels().decode().split(","))
        raise ValueError(f"{argument}: unknown instruction set {name!r}; expected one of {known}")
