"""The forward pass: chooses the kernels, makes room for the records, and builds the results from them."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor

from ..reference import real_steps
from ..types import Results
from . import policy
from .call import NARROW, Call, Records, fit_rows, project
from .run_chip import run_chip
from .run_launches import run_launches

RECORD_BYTES = 1 << 30  # of states to make room for at once


def forward(call: Call, keep: bool) -> Tuple[Results, Optional[Records]]:
    """The results, and the records if there is a need of them."""
    x = call.operands.x
    batch, steps, features = x.shape
    plan = policy.choose(call)
    if plan.on_chip and 0 < features <= NARROW:
        return _forward(plan, call, None, keep)
    at_once = fit_rows(x, steps * call.cell.num_gates * call.width * x.element_size())
    parts = []
    for first in range(0, batch, at_once):
        part = call if at_once == batch else call.rows(slice(first, first + at_once))
        parts.append(_forward(plan, part, project(part, 0, part.operands.x), keep))
    return parts[0] if len(parts) == 1 else _join_rows(parts)


def _forward(plan: policy.Plan, call: Call, projected: Optional[Tensor], keep: bool) -> Tuple[Results, Records]:
    """:func:`forward` of sequences whose W x + b, [B, T, G * P], is there, or of so few features that the kernel
    multiplies them itself."""
    x, last_only = call.operands.x, call.options.last_only
    batch, steps, _ = x.shape
    run = run_chip if plan.on_chip else run_launches
    updates = call.operands.p.new_zeros(batch, steps)
    if last_only and not keep:
        after, _, _ = run(plan, call, projected, None, steps, updates)
        return Results(after.h[-1].clone(), after.h, after.c, after.p, after.acc, updates), None
    capacity = steps
    if not _is_captured(x):  # a captured graph has no place where the host could look whether the room was enough
        capacity = min(steps, max(1, RECORD_BYTES // (batch * call.num_states * call.width * x.element_size())))
    after, parts, ended = call.operands, [], False
    while not ended:
        records = Records.empty(call, capacity)
        after, begin, _ = run(plan, call._replace(operands=after), projected, records, capacity, updates)
        after = after._replace(begin=begin.to(torch.int64))
        ended = capacity == steps or bool((begin >= after.end).all())
        parts.append(records if _is_captured(x) else _shrink(records))
    records, parts = _join(parts), None  # which frees the parts
    output = after.h[-1].clone() if last_only else _outputs(call, records, updates)
    return Results(output, after.h, after.c, after.p, after.acc, updates), records


def _join_rows(parts: List[Tuple[Results, Optional[Records]]]) -> Tuple[Results, Optional[Records]]:
    """The results and records of all sequences, from those of some at a time."""
    results, records = zip(*parts)
    columns = []
    for name, column in zip(Results._fields, zip(*results)):
        columns.append(None if column[0] is None else torch.cat(column, 1 if name in ("h", "c") else 0))
    if records[0] is None:
        return Results(*columns), None
    longest = max(len(part.p) for part in records)
    padded = []
    for part in records:
        missing = longest - len(part.p)
        padded.append([torch.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])]) for tensor in part.by_update])
    return Results(*columns), Records(*(torch.cat(c, 1) for c in zip(*padded)), torch.cat([r.counts for r in records]))


def _is_captured(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def _join(parts) -> Records:
    """The records of launches that each went on where the one before had no more room."""
    if len(parts) == 1:
        return parts[0]
    columns = []
    for first, *rest in zip(*(part.by_update for part in parts)):
        columns.append(torch.cat([first, *(tensor[1:] for tensor in rest)]))
    return Records(*columns, sum(part.counts for part in parts))


def _shrink(records: Records) -> Records:
    """Without the room that no sequence used."""
    used, room = int(records.counts.max()) + 1, len(records.states)
    if used == room:
        return records
    columns = [tensor[:used] for tensor in records.by_update]
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
