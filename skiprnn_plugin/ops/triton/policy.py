"""Which kernel works on which call, and how. The one place that decides; nothing is tuned while a program runs.

A call with one layer of at most 128 units goes to the kernels for whole sequences (``on_chip``) where :data:`ROWS` has
its precision and the device the shared memory for the weights; every other call goes by launches. The number of steps
does not matter.

The tables were found by compiling for sm_80, sm_90 and sm_100, without a device. tests/ops/test_triton_compile.py
compiles what can be chosen there, and checks that no thread spills more than 256 bytes of its registers, or 288 with
noise.
"""

import contextlib
from functools import cache
from typing import Dict, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from ..cells import CELLS
from .call import Call, tile_units


class Plan(NamedTuple):
    """How to run a call.

    Attributes:
        on_chip: whether a launch works through whole sequences; otherwise every update is a few launches.
        rows: sequences per program (R); 0 by launches, whose tiles :mod:`.run_launches` chooses.
        warps: warps per program; 0 by launches.
        precision: of products: ``ieee``, ``tf32``, or ``half`` for the dtype of the weights.
    """

    on_chip: bool
    rows: int
    warps: int
    precision: str


class Device(NamedTuple):
    """What plans depend on.

    Attributes:
        major: first number of the compute capability.
        multiprocessors: how many there are.
        shared: bytes of shared memory that a program can have.
    """

    major: int
    multiprocessors: int
    shared: int


EMULATED_DEVICE = Device(9, 132, 232448)  # an H100, for the interpreter
MOST_UNITS = 128  # that the registers of a multiprocessor hold the weights of
UNITS_PER_WARP = 16  # as many as one instruction of the tensor cores multiplies
# Sequences of a program that there are kernels for. In ieee, 8 would spill kilobytes.
ROWS = {"half": (1, 8, 16), "tf32": (1, 8, 16), "ieee": (1,)}
# Kernels, by precision, cell, units (a power of two) and sequences, that are only for GPUs with these first numbers of
# the compute capability. Elsewhere they spill too much, or (GRU in half precision) take longer than two rounds of 8.
ONLY_ON = {
    ("half", "gru", 128, 16): (8, 9),
    ("half", "lstm", 128, 16): (9,),
    ("tf32", "gru", 128, 8): (),
    ("tf32", "gru", 128, 16): (9,),
    ("tf32", "gru_reset_before", 128, 8): (),
    ("tf32", "gru_reset_before", 128, 16): (9,),
}
# Sequences of a program that are not for GPUs with this first number: Triton 3.6 would take tcgen05 instructions, whose
# products may differ from one run to the next (https://github.com/triton-lang/triton/issues/9871)
NOT_ON = {10: (16,)}
# Sequences of a program, and up to how many sequences for each multiprocessor a program has that number; with more
# sequences, a program has the largest number that fits. A second round of programs with 1 sequence takes about as long
# as a single round of programs with 8.
SEQUENCES = {1: 2, 8: 8}
ROUNDS = 8  # of programs on every multiprocessor; for more sequences, launches are faster

_forced: Dict[str, object] = {}


@contextlib.contextmanager
def forced(**fields):
    """In this block, plans have these fields, whatever the table says: for tests and benchmarks.

    >>> with forced(on_chip=True, rows=8, warps=8, precision="tf32"):
    ...     skip_scan(...)

    The backward asks for a plan too, so call it in the block as well. A kernel fails on a device that lacks the
    registers or the shared memory for it.
    """
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
    precisions, plan = _precisions(x), None
    if len(call.layers) == 1:
        plan = choose_on_chip(call.options.cell, call.hidden, precisions, len(x), _device(x))
    if plan is None:
        plan = Plan(False, 0, 0, precisions[0])
    return plan._replace(**_forced)


def choose_on_chip(cell: str, hidden: int, precisions: Sequence[str], batch: int, device: Device) -> Optional[Plan]:
    """The plan for one layer by the kernels for whole sequences, in the first of the ``precisions`` that they have;
    None for a plan by launches.

    Args:
        cell: a key of ``CELLS``.
        hidden: units (H).
        precisions: those that the call can be worked on in, the one it asks for first.
        batch: number of sequences (B).
    """
    units = tile_units(hidden)
    if units > MOST_UNITS:
        return None
    for precision in precisions:
        fitting = [rows for rows in ROWS[precision] if fits(precision, cell, units, rows, device)]
        if not fitting:
            continue
        enough = (rows for rows in fitting if batch <= SEQUENCES.get(rows, 0) * device.multiprocessors)
        rows = next(enough, fitting[-1])
        if batch <= ROUNDS * rows * device.multiprocessors:
            return Plan(True, rows, units // UNITS_PER_WARP, precision)
    return None


def fits(precision: str, cell: str, units: int, rows: int, device: Device) -> bool:
    """Whether the device has the shared memory and the registers for programs of ``rows`` sequences. ``units`` is a
    power of two."""
    if rows in NOT_ON.get(device.major, ()):
        return False
    architectures = ONLY_ON.get((precision, cell, units, rows), (device.major,))
    return device.major in architectures and shared_memory(precision, cell, units, rows) <= device.shared


def shared_memory(precision: str, cell: str, units: int, rows: int) -> int:
    """Bytes of shared memory that a program needs at most: for the weights on their way to the registers, and for two
    tiles of float32, with which threads exchange values."""
    weight = {"half": 2, "tf32": 4, "ieee": 0}[precision]  # ieee loads weights into registers straight away
    return CELLS[cell].num_gates * units * units * weight + 2 * 4 * units * rows


def _precisions(x: Tensor) -> List[str]:
    if x.dtype != torch.float32:
        return ["half"]
    return float32_precisions() if x.is_cuda else ["ieee"]


def float32_precisions() -> List[str]:
    """Those that products of float32 may have, the one that torch's settings ask for first."""
    # It also shows what set_float32_matmul_precision and allow_tf32 have set, which cannot be read if this was set
    return ["tf32", "ieee"] if torch.backends.cuda.matmul.fp32_precision == "tf32" else ["ieee"]


def _device(x: Tensor) -> Device:
    return _describe(x.device) if x.is_cuda else EMULATED_DEVICE


@cache
def _describe(device: torch.device) -> Device:
    properties = torch.cuda.get_device_properties(device)
    return Device(properties.major, properties.multi_processor_count, properties.shared_memory_per_block_optin)
