"""Which kernel works on which call, and how. The one place that decides; nothing is tuned while a program runs."""

from typing import NamedTuple

import torch

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


def choose(call: Call) -> Plan:
    """The plan for a call."""
    x = call.operands.x
    precision = "half"
    if x.dtype == torch.float32:
        exact = EMULATED or torch.get_float32_matmul_precision() == "highest"
        precision = "ieee" if exact else "tf32"
    return Plan(len(call.layers) == 1, 1 if precision == "ieee" else 8, 8, precision)
