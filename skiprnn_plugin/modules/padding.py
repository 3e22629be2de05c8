"""Converts padding masks and packed sequences, with which users mark padding."""

from typing import Tuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from ..ops.checks import any_of


def find_span(padding_mask: Tensor, batch: int, steps: int) -> Tuple[Tensor, Tensor]:
    """The first real step and the number of real steps of each sequence, int64 [B], from a bool mask [B, T].

    Raises:
        ValueError: the mask has another dtype or shape, or padding between real steps.
    """
    if not isinstance(padding_mask, Tensor) or padding_mask.dtype != torch.bool:
        got = padding_mask.dtype if isinstance(padding_mask, Tensor) else type(padding_mask).__name__
        raise ValueError(f"padding_mask: expected a bool tensor, got {got}")
    if tuple(padding_mask.shape) != (batch, steps):
        raise ValueError(f"padding_mask: expected shape {(batch, steps)}, got {tuple(padding_mask.shape)}")
    if steps == 0:
        zeros = torch.zeros(batch, dtype=torch.int64, device=padding_mask.device)
        return zeros, zeros
    real = ~padding_mask
    starts = torch.cat([real[:, :1], real[:, 1:] & padding_mask[:, :-1]], 1)
    if any_of(starts.sum(1) > 1):
        raise ValueError("padding_mask: expected padding only at the ends of a sequence, got some in the middle")
    return starts.to(torch.uint8).argmax(1), real.sum(1)


def pack_like(output: Tensor, lengths: Tensor, packed: PackedSequence) -> PackedSequence:
    """Pack ``output``, [B, T, .], of sequences with ``lengths``, [B], in the order of ``packed``."""
    if packed.sorted_indices is not None:
        output = output[packed.sorted_indices]
        lengths = lengths[packed.sorted_indices.to(lengths.device)]
    data = pack_padded_sequence(output, lengths, batch_first=True).data
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
