"""Random masks for ``skip_scan``, from torch's generator."""

from typing import Tuple

from torch import Tensor
from torch.nn.functional import dropout


def draw_factors(shape: Tuple[int, ...], probability: float, like: Tensor) -> Tensor:
    """Dropout's factors, 0 with ``probability``, otherwise 1 / (1 - probability), in ``like``'s dtype and on
    its device."""
    return dropout(like.new_ones(shape), probability)


def draw_ones(shape: Tuple[int, ...], probability: float, like: Tensor) -> Tensor:
    """1 with ``probability``, otherwise 0, in ``like``'s dtype and on its device."""
    return like.new_full(shape, probability).bernoulli()
