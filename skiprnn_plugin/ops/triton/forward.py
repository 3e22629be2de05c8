"""The forward pass: chooses the kernels, makes room for the records, and builds the results from them."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from ..reference import real_steps
from ..types import Results
from . import policy
from .call import NARROW, Call, Records, project
from .run_chip import run_chip
from .run_launches import run_launches

ROOM = 1 << 30  # bytes of states to make room for at once


def forward(call: Call, keep: bool) -> Tuple[Results, Optional[Records]]:
    """The results, and the records if there is a need of them."""
    x, last_only = call.operands.x, call.options.last_only
    batch, steps, _ = x.shape
    plan = policy.choose(call)
    run = run_chip if plan.on_chip else run_launches
    records_states = keep or not last_only
    projected = None if plan.on_chip and x.shape[-1] <= NARROW else project(call, 0, x)
    updates = call.operands.p.new_zeros(batch, steps)
    per_update = batch * call.num_states * call.width * x.element_size()
    capacity = steps
    if not _is_captured(x):  # a captured graph has no place where the host could look whether the room was enough
        capacity = min(steps, max(1, ROOM // per_update))
    after, parts, done = call.operands, [], False
    while not done:
        records = Records.empty(call, capacity) if records_states else None
        after, begin, counts = run(
            plan, call._replace(operands=after), projected, records, capacity if records_states else steps, updates
        )
        after = after._replace(begin=begin)
        if not records_states:
            break
        if capacity == steps:
            done = True
        else:
            done = bool((begin >= after.end).all())
        parts.append(records)
    records = None
    if records_states:
        records = _join(parts)
        if not _is_captured(x):
            records = _shrink(records)
    results = Results(None, after.h, after.c, after.p, after.acc, updates)
    output = after.h[-1].clone() if last_only else _outputs(call, records, updates)
    return results._replace(output=output), records


def _is_captured(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def _join(parts) -> Records:
    """The records of launches that each went on where the one before had no more room."""
    if len(parts) == 1:
        return parts[0]
    first, *rest = parts
    columns = [torch.cat([first[i], *(part[i][1:] for part in rest)]) for i in range(4)]
    return Records(*columns, sum(part.counts for part in parts))


def _shrink(records: Records) -> Records:
    """Without the room that no sequence used."""
    used, room = int(records.counts.max()) + 1, len(records.states)
    if used == room:
        return records
    columns = [tensor[:used] for tensor in records[:4]]
    if used < 0.75 * room:  # a copy is worth the memory that it frees
        columns = [column.clone() for column in columns]
    return Records(*columns, records.counts)


def _outputs(call: Call, records: Records, updates: Tensor) -> Tensor:
    """The top layer's h after every step, [B, T, H]; 0 at padding."""
    x, begin, end = call.operands.x, call.operands.begin, call.operands.end
    held = updates.to(torch.int64).cumsum(1)  # of integers, which is deterministic on CUDA
    rows = torch.arange(len(held), device=held.device).unsqueeze(1)
    top = records.states[..., len(call.layers) - 1, : call.hidden]
    return top[held, rows].masked_fill_(~real_steps(x, begin, end).unsqueeze(-1), 0)
