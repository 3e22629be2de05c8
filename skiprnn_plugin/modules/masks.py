"""Draws random masks for ``skip_scan`` from torch's generator."""

from typing import Tuple

from torch import Tensor
from torch.nn.functional import dropout


def draw_factors(shape: Tuple[int, ...], probability: float, like: Tensor) -> Tensor:
    """Factors for dropout: 0 with ``probability``, otherwise 1 / (1 - probability). They have the dtype and device of
    ``like``."""
    return dropout(like.new_ones(shape), probability)


def draw_ones(shape: Tuple[int, ...], probability: float, like: Tensor) -> Tensor:
    """Numbers that are 1 with ``probability``, otherwise 0. They have the dtype and device of ``like``."""
    return like.new_full(shape, probability).bernoulli()
