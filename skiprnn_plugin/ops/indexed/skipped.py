"""The skipped steps, in the order in which :mod:`.by_update_backward` comes to them."""

from typing import List, NamedTuple

import torch
from torch import Tensor


class Skipped(NamedTuple):
    """The steps skipped after one iteration's updates: first one step of each sequence that skips any, then the next.

    With the sequences that skip most in front, those that still skip are always the first ones.

    Attributes:
        order: places of these sequences among those of the iteration, int64 [M].
        counts: how many of them skip a first step (M), a second, ...
        rows: whose the steps are, int64 [N], N the sum of the counts.
        times: when, int64 [N].
    """

    order: Tensor
    counts: List[int]
    rows: Tensor
    times: Tensor


def list_skipped(updates: Tensor, real: Tensor, held: Tensor, sizes: List[int]) -> List[Skipped]:
    """What each iteration skips.

    Args:
        updates: bool [B, T].
        real: False at padding, bool [B, T].
        held: see :func:`.by_update.held_after`, [B, T].
        sizes: how many states each iteration makes; B, the initial states, comes first.
    """
    device, total = updates.device, sum(sizes)
    rows, times = (real & ~updates).nonzero().unbind(1)
    state = held[rows, times]
    count = torch.bincount(state, minlength=total)
    starts = torch.tensor(sizes, device=device).cumsum(0)
    iteration = torch.searchsorted(starts, torch.arange(total, device=device), right=True)
    # states by iteration, within it by how many steps they are held; and each one's place in that order
    by_count = (iteration * (updates.shape[1] + 1) - count).argsort(stable=True)
    rank = torch.empty_like(by_count)
    rank[by_count] = torch.arange(total, device=device)
    nth = _position_in_run(state)
    step = iteration[state] * (updates.shape[1] + 1) + nth
    order = (step * total + rank[state]).argsort()
    step, counts = step[order].unique_consecutive(return_counts=True)
    skip_any = torch.zeros(len(sizes), dtype=torch.int64, device=device).index_add_(0, iteration, (count > 0).long())
    longest = torch.zeros(len(sizes), dtype=torch.int64, device=device).scatter_reduce(0, iteration, count, "amax")
    of_iteration = torch.zeros_like(longest).index_add_(0, iteration, count)
    longest, of_iteration, skip_any = torch.stack([longest, of_iteration, skip_any]).tolist()
    counts = counts.tolist()
    parts = zip(by_count.split(sizes), sizes, longest, skip_any, *(e[order].split(of_iteration) for e in (rows, times)))
    found, start = [], 0
    for places, size, steps, some, each_rows, each_times in parts:
        found.append(Skipped(places[:some] - start, counts[:steps], each_rows, each_times))
        start, counts = start + size, counts[steps:]
    return found


def _position_in_run(state: Tensor) -> Tensor:
    """How many equal values precede each in its run of equal ones, int64 [N]."""
    if len(state) == 0:
        return state
    counts = state.unique_consecutive(return_counts=True)[1]
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return torch.arange(len(state), device=state.device) - first
