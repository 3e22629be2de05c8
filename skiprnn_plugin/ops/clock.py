"""When does a sequence update next? The gate's arithmetic between two updates, bit for bit that of the specification.

After an update nothing but ``acc`` changes until the next one, v = acc + min(p, 1 - acc): its time follows from ``p``.
"""

import math
from typing import Optional, Tuple, Union

import torch
from torch import Tensor


class Clock:
    """Tells when sequences update next.

    Args:
        end: the step after each sequence's last one, int64 [B].
        schedule: the updates, bool [B, T]; None where gates decide.
        threshold: a number, or one for each step, [B, T].
    """

    def __init__(self, end: Tensor, schedule: Optional[Tensor], threshold: Union[float, Tensor]):
        self.end = end
        self.scheduled = None if schedule is None else next_scheduled(schedule)
        self.threshold = threshold

    def find(self, rows: Tensor, p: Tensor, acc: Tensor, t: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        """The first update from step ``t`` [N] on of ``rows`` whose gates stand at ``p``, ``acc`` [N].

        Returns:
            times: int64 [N].
            active: False where there is none, bool [N]; None where there is one for all.
        """
        if self.scheduled is not None:
            times = self.scheduled[rows, t]
            active = times < self.end[rows]
            return times, None if bool(active.all()) else active
        room = self.end[rows] - t
        if isinstance(self.threshold, float):
            count, near = estimate_skips(p, acc, room, self.threshold)
            if not bool(((count >= room) | near).any()):  # as mostly, after one look at the device's memory
                return t + count, None
            count = settle_skips(count, near, p, acc, room, self.threshold)
        else:
            last = self.threshold.shape[1] - 1
            count = add_up(p, acc, room, lambda step: self.threshold[rows, (t + step).clamp(max=last)])
        active = count < room
        return t + count, None if bool(active.all()) else active


def count_skips(p: Tensor, acc: Tensor, room: Tensor, threshold: float) -> Tensor:
    """How many of the next ``room`` steps are skipped before one updates, int64 [N]; ``room`` if none does.

    Args:
        p: update probability, [N].
        acc: what it adds to, [N].
        room: steps there are, int64 [N].
        threshold: an update needs v > threshold.
    """
    count, near = estimate_skips(p, acc, room, threshold)
    return settle_skips(count, near, p, acc, room, threshold)


def estimate_skips(p: Tensor, acc: Tensor, room: Tensor, threshold: float) -> Tuple[Tensor, Tensor]:
    """:func:`count_skips` by a division, and where it may be wrong, bool [N]: ``acc`` grows by repeated addition, which
    rounds every time, so it tells the number only where the sum is not too near the threshold."""
    if threshold > 0.99 and torch.tensor(threshold, dtype=p.dtype, device="cpu").item() >= 1:  # v never exceeds 1
        return room.clone(), torch.zeros_like(room, dtype=torch.bool)
    need, slack = _additions(p, acc, threshold)
    count = torch.where(need >= room, room, need.floor().clamp_(min=0).long())  # p's type would round a large room
    return count, (need - need.round()).abs_() <= slack


def settle_skips(count: Tensor, near: Tensor, p: Tensor, acc: Tensor, room: Tensor, threshold: float) -> Tensor:
    """``count`` with what may be wrong added up, where there is room for so many."""
    need, slack = _additions(p, acc, threshold)
    some = (near & (need - slack <= room)).nonzero().squeeze(1)
    limit = torch.tensor(threshold, dtype=p.dtype, device=p.device).expand(len(some))
    return count.index_copy(0, some, add_up(p[some], acc[some], room[some], lambda step: limit))


def _additions(p: Tensor, acc: Tensor, threshold: float) -> Tuple[Tensor, Tensor]:
    """How many times p goes into what the threshold wants, and how far that may be from what adding up gives, [N]."""
    # a p that is no number updates at once, as in the specification
    need = ((threshold - acc) / p).nan_to_num_(nan=0.0, posinf=math.inf, neginf=-math.inf)
    # each addition to a number up to 1, and what is done here, is off by at most half a unit in the last place
    return need, (need + 3).mul_(torch.finfo(p.dtype).eps).div_(p)


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
