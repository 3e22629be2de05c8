"""Uniform random numbers that depend only on a seed for every sequence and on the step."""

from typing import Optional

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea and Flood 2014), used as a counter-based generator. torch has no generator with a seed for
# every row; with such seeds a sequence gets the same numbers in every batch, worker and device.
_WEYL = 0x9E3779B97F4A7C15 - (1 << 64)
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))


def uniform(seeds: Tensor, steps: int, first: Optional[Tensor] = None) -> Tensor:
    """Uniform numbers in [0, 1), float32 [B, steps], on ``seeds``' device.

    Args:
        seeds: one integer per sequence, int64 [B].
        steps: how many numbers every sequence gets.
        first: the step of each sequence's first number, int64 [B]; None means 0.
    """
    counter = torch.arange(1, steps + 1, device=seeds.device)
    if first is not None:
        counter = counter + first.unsqueeze(1)
    bits = _mix(_mix(seeds.unsqueeze(1)) + counter * _WEYL)  # int64 products wrap around, as SplitMix64 needs
    return _shift(bits, 40).float() * 2.0**-24


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _MULTIPLIERS[0]
    z = (z ^ _shift(z, 27)) * _MULTIPLIERS[1]
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    """Logical shift to the right; torch's shift of an int64 would keep the sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
