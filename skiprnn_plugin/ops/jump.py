"""When does a sequence update next? The gate's arithmetic between two updates, bit for bit that of the specification.

After an update nothing but ``acc`` changes until the next one, v = acc + min(p, 1 - acc): its time follows from ``p``.
"""

from typing import Tuple

import torch
from torch import Tensor


def count_skips(p: Tensor, acc: Tensor, room: Tensor, threshold: float) -> Tensor:
    """How many of the next ``room`` steps are skipped before one updates, int64 [N]; ``room`` if none does.

    ``acc`` grows by repeated addition, which rounds every time, so a division tells the number only where the sum is
    not too near the threshold. The others, few, are added up.

    Args:
        p: update probability, [N].
        acc: what it adds to, [N].
        room: steps there are, int64 [N].
        threshold: an update needs v > threshold.
    """
    if threshold >= 1:
        return room.clone()  # v never exceeds 1
    need = (threshold - acc) / p  # additions, as a real number
    most = room.to(p.dtype)
    count = torch.fmin(need.floor().clamp_(min=0), most).long()
    # each addition to a number up to 1, and what is done here, is off by at most half a unit in the last place
    slack = (need + 3).mul_(torch.finfo(p.dtype).eps) / p
    near = ((need - need.round()).abs_() <= slack) & (need - slack <= most)
    unsure = near.nonzero().squeeze(1)
    if len(unsure) > 0:
        limit = torch.tensor(threshold, dtype=p.dtype, device=p.device).expand(len(unsure))
        added = add_up(p[unsure], acc[unsure], room[unsure], lambda step: limit)
        count = count.index_copy(0, unsure, added)
    return count


def add_up(p: Tensor, acc: Tensor, room: Tensor, threshold_of) -> Tensor:
    """As :func:`count_skips`, step by step; ``threshold_of(j)`` are the thresholds, [N], of the j-th step from now."""
    count = torch.zeros_like(room)
    waiting = room > 0
    step = 0
    while bool(waiting.any()):
        acc = acc + torch.where(p <= 1 - acc, p, 1 - acc)
        waiting = waiting & ~(acc > threshold_of(step))
        count = count + waiting
        step += 1
        waiting = waiting & (step < room)
    return count


def accumulate(p: Tensor, acc: Tensor, steps: Tensor) -> Tensor:
    """``acc`` after so many skipped steps, int64 [N]."""
    for step in range(int(steps.max()) if len(steps) > 0 else 0):
        acc = torch.where(step < steps, acc + torch.where(p <= 1 - acc, p, 1 - acc), acc)
    return acc


def next_scheduled(schedule: Tensor) -> Tensor:
    """The first update at or after each step, int64 [B, T + 1]; T + 1 if there is none."""
    batch, steps = schedule.shape
    never = torch.full((batch, 1), steps + 1, device=schedule.device)
    times = torch.where(schedule, torch.arange(steps, device=schedule.device), steps + 1)
    return torch.cat([times, never], 1).flip(1).cummin(1).values.flip(1)


def values_before_rounding(p: Tensor, acc: Tensor, updates: Tensor, real: Tensor) -> Tuple[Tensor, Tensor]:
    """v of every step, [B, T], and whether min(p, 1 - acc) was p there, bool [B, T].

    Args:
        p: update probability that each step begins with, [B, T].
        acc: what the first step adds to, [B].
        updates: bool [B, T].
        real: False at padding, bool [B, T].
    """
    grown = [acc]
    counts = (real & ~updates).unbind(1)
    reset = (real & updates).unbind(1)
    for each_p, skipped, updated in zip(p.unbind(1), counts, reset):
        acc = grown[-1]
        new = acc + torch.minimum(each_p, 1 - acc)
        grown.append(torch.where(skipped, new, acc.masked_fill(updated, 0)))
    acc = torch.stack(grown[:-1], 1) if len(grown) > 1 else p
    free = p <= 1 - acc
    return acc + torch.where(free, p, 1 - acc), free
