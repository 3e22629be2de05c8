"""The skipped steps, grouped and ordered as the backward pass (:mod:`.gate`) needs them."""

from typing import List, NamedTuple

import torch
from torch import Tensor


class Skipped(NamedTuple):
    """The steps skipped between one iteration's updates and the next: first the first skipped step of every sequence
    that skips any, then all second ones, and so on.

    The sequences that skip most come first, so that those that skip a j-th step are always the first ones in the order.

    Attributes:
        order: positions of the M sequences that skip any step among the iteration's sequences, int64 [M].
        counts: how many sequences skip a first step (M), a second step, ...
        rows: the sequence of every skipped step, int64 [N]; N is the sum of the counts.
        times: which step of the sequence it is, int64 [N].
    """

    order: Tensor
    counts: List[int]
    rows: Tensor
    times: Tensor


def list_skipped(updates: Tensor, real: Tensor, held: Tensor, sizes: List[int]) -> List[Skipped]:
    """The skipped steps after the updates of each iteration, and before the first iteration.

    Args:
        updates: bool [B, T].
        real: False at padding, bool [B, T].
        held: which state is held after each step, see :func:`.forward.held_after`, int64 [B, T].
        sizes: the number of states that each iteration makes, after B for the initial states.
    """
    device, total = updates.device, sum(sizes)
    rows, times = (real & ~updates).nonzero().unbind(1)
    state = held[rows, times]
    count = torch.bincount(state, minlength=total)
    starts = torch.tensor(sizes, device=device).cumsum(0)
    iteration = torch.searchsorted(starts, torch.arange(total, device=device), right=True)
    # the states sorted by iteration and then by how many steps skip while they are held, and their ranks in that order
    by_count = (iteration * (updates.shape[1] + 1) - count).argsort(stable=True)
    rank = torch.empty_like(by_count)
    rank[by_count] = torch.arange(total, device=device)
    # the j-th skipped steps of one iteration have one number; within it the states come by rank
    step = iteration[state] * (updates.shape[1] + 1) + _position_in_run(state)
    order = (step * total + rank[state]).argsort()
    step, counts = step[order].unique_consecutive(return_counts=True)
    skip_any = torch.zeros(len(sizes), dtype=torch.int64, device=device).index_add_(0, iteration, (count > 0).long())
    longest = torch.zeros(len(sizes), dtype=torch.int64, device=device).scatter_reduce(0, iteration, count, "amax")
    total_skipped = torch.zeros_like(longest).index_add_(0, iteration, count)
    longest, total_skipped, skip_any = torch.stack([longest, total_skipped, skip_any]).tolist()
    counts = counts.tolist()
    rows, times = (column[order].split(total_skipped) for column in (rows, times))
    result, start = [], 0
    for i, states in enumerate(by_count.split(sizes)):
        result.append(Skipped(states[: skip_any[i]] - start, counts[: longest[i]], rows[i], times[i]))
        start, counts = start + sizes[i], counts[longest[i] :]
    return result


def _position_in_run(state: Tensor) -> Tensor:
    """The position of every element within its run of equal values, from 0, int64 [N]."""
    if len(state) == 0:
        return state
    counts = state.unique_consecutive(return_counts=True)[1]
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return torch.arange(len(state), device=state.device) - first
