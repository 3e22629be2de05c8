"""When does a sequence update next? The gate's arithmetic between two updates, with the specification's bits.

Between two updates only ``acc`` changes, by v = acc + min(p, 1 - acc). So ``p`` determines the step of the next update.
"""

import math
from typing import Optional, Tuple

import torch
from torch import Tensor

INTEGERS = {  # of as many bits
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
NEVER = 2**63 - 1  # the step of the next update where there is none
BEFORE_JUMPS = 8  # this many steps are added one by one before the first jump, because most updates come sooner


class Clock:
    """Finds the steps at which sequences update next.

    Args:
        end: the step after each sequence's last real one, int64 [B].
        schedule: the updates, bool [B, T]; None where gates decide.
        noise: v must exceed it, [B, T]; None where ``threshold`` decides.
        threshold: v must exceed it.
        max_skip: steps that are skipped at most, where there is neither schedule nor noise.
    """

    def __init__(
        self,
        end: Tensor,
        schedule: Optional[Tensor],
        noise: Optional[Tensor],
        threshold: float,
        max_skip: int = NEVER,
    ):
        self.end = end
        self.scheduled = None if schedule is None else next_scheduled(schedule)
        self.noise, self.threshold, self.max_skip = noise, threshold, max_skip

    def find(self, rows: Tensor, p: Tensor, acc: Tensor, t: Tensor, least: int = 0) -> Tuple[Tensor, Optional[Tensor]]:
        """The first updates of sequences ``rows`` [N] from steps ``t`` [N] on; their gates hold ``p`` and ``acc`` [N].
        At least ``least`` steps are skipped, where there is neither schedule nor noise.

        Returns:
            times: the steps of the updates, int64 [N].
            active: False where a sequence has no further update, bool [N]; None if all have one.
        """
        if self.scheduled is not None:
            times = self.scheduled[rows, t]
            active = times < self.end[rows]
            return times, None if bool(active.all()) else active
        room = self.end[rows] - t
        if self.noise is None:
            most = room if self.max_skip == NEVER else room.clamp(max=self.max_skip)
            count, unsure = estimate_skips(p, acc, most, self.threshold)
            count = count.clamp(min=least) if least > 0 else count
            if not bool(((count >= room) | unsure).any()):  # the usual case, found with one read of the device's memory
                return t + count, None
            count = settle_skips(count, unsure, p, acc, most, self.threshold)
            count = count.clamp(min=least) if least > 0 else count
        else:
            last = self.noise.shape[1] - 1
            count = add_up(p, acc, room, lambda step: self.noise[rows, (t + step).clamp(max=last)])
        active = count < room
        return t + count, None if bool(active.all()) else active


def estimate_skips(p: Tensor, acc: Tensor, room: Tensor, threshold: float) -> Tuple[Tensor, Tensor]:
    """How many of the next steps are skipped before one is updated, by a division. ``acc`` grows by additions that
    round; so if the sum comes close to the threshold, a division cannot tell on which side of it the sum is.

    Args:
        p: update probability, [N].
        acc: what the skipped steps so far have added up to, [N].
        room: how many steps are left, int64 [N].
        threshold: an update needs v > threshold.

    Returns:
        count: the number of skipped steps, int64 [N]; ``room`` if none is updated.
        unsure: where that may be wrong, bool [N].
    """
    if threshold > 0.99 and torch.tensor(threshold, dtype=p.dtype, device="cpu").item() >= 1:  # v never exceeds 1
        return room.clone(), torch.zeros_like(room, dtype=torch.bool)
    need, slack = _additions(p, acc, threshold)
    count = torch.where(need >= room, room, need.floor().clamp_(min=0).long())  # p's type would round a large room
    return count, (need - need.round()).abs_() <= slack


def settle_skips(count: Tensor, unsure: Tensor, p: Tensor, acc: Tensor, room: Tensor, threshold: float) -> Tensor:
    """``count``, computed by additions where it is ``unsure`` and the ``room`` may be enough for an update."""
    need, slack = _additions(p, acc, threshold)
    some = (unsure & (need - slack <= room)).nonzero().squeeze(1)
    return count.index_copy(0, some, skip_until(p[some], acc[some], room[some], threshold)[0])


def _additions(p: Tensor, acc: Tensor, threshold: float) -> Tuple[Tensor, Tensor]:
    """How many additions of p take ``acc`` to the threshold, and by how much rounding may change this number, [N]."""
    # a NaN p updates at once, as in the specification
    need = ((threshold - acc) / p).nan_to_num_(nan=0.0, posinf=math.inf, neginf=-math.inf)
    # Every addition to a number up to 1 is off by at most half a unit in the last place; so is every operation here
    return need, (need + 3).mul_(torch.finfo(p.dtype).eps).div_(p)


def add_up(p: Tensor, acc: Tensor, room: Tensor, threshold_of) -> Tensor:
    """The ``count`` of :func:`estimate_skips`, but step by step; ``threshold_of(j)`` returns the j-th next step's
    thresholds [N]."""
    count = torch.zeros_like(room)
    waiting = room > 0
    step = 0
    while bool(waiting.any()):
        acc = before_rounding(p, acc)
        waiting = waiting & ~(acc > threshold_of(step))
        count = count + waiting
        step += 1
        waiting = waiting & (step < room)
    return count


def before_rounding(p: Tensor, acc: Tensor) -> Tensor:
    """v of a step, the sum that the gate rounds."""
    return acc + torch.where(p <= 1 - acc, p, 1 - acc)


def skip_until(p: Tensor, acc: Tensor, room: Tensor, threshold: float) -> Tuple[Tensor, Tensor]:
    """The ``count`` of :func:`estimate_skips`, but by additions alone, and ``acc`` [N] after the skipped steps, to the
    bit what repeated addition gives.

    All floats of one binade, [2^e, 2^(e+1)), have the same distance, and their bits are consecutive integers. If one
    addition of p stays within a binade, the further ones grow by one constant until they leave it: a sum halfway
    between two floats is rounded to the even one, from which all following sums are rounded in the same direction. So
    the number of additions up to the binade's last float, or the threshold, is a quotient of integers.
    """
    integers = INTEGERS[p.dtype]
    mantissa = round(1 / torch.finfo(p.dtype).eps) - 1
    limit = torch.tensor(threshold, dtype=p.dtype, device=p.device)
    limit_bits = limit.view(integers).long()
    count, waiting, step = torch.zeros_like(room), room > 0, 0
    while bool(waiting.any()):
        v = before_rounding(p, acc)
        waiting = waiting & ~(v > limit)
        count = count + waiting
        if step >= BEFORE_JUMPS:
            stays = waiting & ((v == acc) | v.isnan())  # as it will at all further steps
            count = torch.where(stays, room, count)
            old, now, new = (sums.view(integers).long() for sums in (acc, v, before_rounding(p, v)))
            jumps = waiting & (((old ^ now) | (now ^ new)) <= mantissa) & (new > now) & (limit_bits >= now)
            growth = torch.where(jumps, new - now, 1)
            jump = torch.minimum((torch.minimum(now | mantissa, limit_bits) - now) // growth, room - count) * jumps
            count = count + jump
            v = (now + jump * growth).to(integers).view(p.dtype)
        acc = torch.where(waiting, v, acc)
        waiting = waiting & (count < room)
        step += 1
    return count, acc


def accumulate(p: Tensor, acc: Tensor, steps: Tensor) -> Tensor:
    """``acc`` [N] after ``steps`` skipped steps, int64 [N]."""
    return skip_until(p, acc, steps, math.inf)[1]


def next_scheduled(schedule: Tensor) -> Tensor:
    """The step of the first update at or after every step, int64 [B, T + 1]; T + 1 if there is none."""
    batch, steps = schedule.shape
    never = torch.full((batch, 1), steps + 1, device=schedule.device)
    times = torch.where(schedule, torch.arange(steps, device=schedule.device), steps + 1)
    return torch.cat([times, never], 1).flip(1).cummin(1).values.flip(1)


def values_before_rounding(p: Tensor, acc: Tensor, updates: Tensor, real: Tensor) -> Tuple[Tensor, Tensor]:
    """v of every step, [B, T], and whether min(p, 1 - acc) was p there, bool [B, T].

    Args:
        p: update probability at the beginning of every step, [B, T].
        acc: what the skipped steps before the first one have added up to, [B].
        updates: bool [B, T].
        real: False at padding, bool [B, T].
    """
    grown = [acc]
    skips = (real & ~updates).unbind(1)
    resets = (real & updates).unbind(1)
    for p_at_step, skipped, updated in zip(p.unbind(1), skips, resets):
        acc = grown[-1]
        grown.append(torch.where(skipped, before_rounding(p_at_step, acc), acc.masked_fill(updated, 0)))
    acc = torch.stack(grown[:-1], 1) if len(grown) > 1 else p
    return before_rounding(p, acc), p <= 1 - acc
