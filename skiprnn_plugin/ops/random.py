"""Uniform numbers that depend on a seed per sequence and the step, and on nothing else."""

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea and Flood 2014) as a counter-based generator: torch has none that takes a seed per row, and
# with one a sequence gets the same numbers whatever batch, worker or device it is in.
_WEYL = 0x9E3779B97F4A7C15 - (1 << 64)
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def uniform(seeds: Tensor, steps: int) -> Tensor:
    """Uniform numbers in [0, 1), float32 [B, steps], on ``seeds``' device.

    Args:
        seeds: one integer per sequence, int64 [B].
        steps: how many numbers each sequence gets.
    """
    counter = torch.arange(1, steps + 1, device=seeds.device)
    bits = _mix(_mix(seeds.unsqueeze(1)) + counter * _WEYL)  # int64 products wrap around, as wanted
    return _shift(bits, 40).float() * 2.0**-24


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _MULTIPLIERS[0]
    z = (z ^ _shift(z, 27)) * _MULTIPLIERS[1]
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    """Logical shift to the right (int64's own keeps the sign)."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
