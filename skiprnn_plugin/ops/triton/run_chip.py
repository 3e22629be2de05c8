"""Launches the kernel of :mod:`.forward_chip`."""

from typing import Optional, Tuple

import torch
from torch import Tensor
from triton import cdiv

from ..types import Operands
from .call import EMULATED, KERNEL_CELLS, Call, Chained, Prepared, Records, tile_units, weights_by_layer
from .chain_chip import chain_kernel
from .forward_chip import forward_kernel
from .policy import Plan


def run_chip(
    plan: Plan, call: Call, projected: Optional[Tensor], records: Optional[Records], capacity: int, updates: Tensor
) -> Tuple[Operands, Tensor, Tensor]:
    """Work through the sequences until they end or have ``capacity`` more updates.

    Returns:
        The operands with the state after that, the step at which each sequence is, int32 [B], and the updates made.
    """
    operands, (weights,) = call.operands, call.layers
    x, h, p = operands.x, operands.h, operands.p
    batch, steps, features = x.shape
    narrow = projected is None
    h_after, p_after, acc_after = torch.empty_like(h), torch.empty_like(p), torch.empty_like(p)
    c_after = None if operands.c is None else torch.empty_like(operands.c)
    t_after = torch.empty(batch, dtype=torch.int32, device=x.device)
    counts = torch.empty_like(t_after) if records is None else records.counts
    hidden = call.hidden
    forward_kernel[(cdiv(batch, plan.rows),)](
        x,
        *x.stride(),
        projected,
        weights.weight_ih,
        call.cell.bias(weights) if narrow else None,
        weights.weight_hh,
        weights.bias_hh[2 * hidden :] if call.options.cell == "gru" else None,
        weights_by_layer(call),
        operands.gate_bias,
        h,
        operands.c,
        p,
        operands.acc,
        operands.begin,
        operands.end,
        None if operands.schedule is None else operands.schedule.view(torch.uint8),
        operands.noise,
        call.options.threshold,
        *((None,) * 4 if records is None else records.by_update),
        counts,
        updates,
        h_after,
        c_after,
        p_after,
        acc_after,
        t_after,
        batch,
        steps,
        capacity,
        CELL=KERNEL_CELLS[call.options.cell],
        G=call.cell.num_gates,
        H=hidden,
        P=call.width,
        HP=tile_units(hidden),
        R=plan.rows,
        D=features if narrow else 0,
        PRECISION=plan.precision,
        GATED=call.is_gated,
        SCHEDULED=operands.schedule is not None,
        NOISY=operands.noise is not None,
        RECORDS=records is not None,
        EMULATED=EMULATED,
        num_warps=plan.warps,
        num_stages=1,
    )
    after = operands._replace(h=h_after, c=c_after, p=p_after, acc=acc_after)
    return after, t_after, counts


def run_chain_chip(
    plan: Plan, call: Call, records: Records, prepared: Prepared, d_h: Tensor, d_c: Optional[Tensor]
) -> Chained:
    """The backward's chain over the updates, from the gradients of the final h and c, [1, B, H], which include that of
    the last output."""
    operands, (weights,), states = call.operands, call.layers, records.states
    h, p, cell = operands.h, operands.p, call.options.cell
    wide = torch.zeros_like(states, dtype=torch.float32)
    before = torch.empty_like(h, dtype=torch.float32)
    chained = Chained(
        candidates=wide,
        logits=torch.zeros_like(records.p) if call.is_gated else None,
        resets=torch.zeros_like(wide) if cell == "gru_reset_before" else None,
        h=before,
        c=None if d_c is None else torch.empty_like(before),
        p=torch.empty_like(p) if call.is_gated else None,
        acc=torch.empty_like(p) if call.is_gated else None,
    )
    batch, hidden = len(p), call.hidden
    chain_kernel[(cdiv(batch, plan.rows),)](
        weights.weight_hh.view(-1, hidden, hidden).transpose(1, 2).contiguous(),
        weights_by_layer(call),
        records.counts,
        prepared.through_p,
        prepared.through_acc,
        prepared.scalars,
        prepared.outputs,
        prepared.factors,
        d_h,
        d_c,
        *chained,
        batch,
        CELL=KERNEL_CELLS[cell],
        C=prepared.factors.shape[-2],
        H=hidden,
        P=call.width,
        HP=tile_units(hidden),
        R=plan.rows,
        PRECISION=plan.precision,
        GATED=call.is_gated,
        EVERY=prepared.outputs is not None,
        EMULATED=EMULATED,
        num_warps=plan.warps,
        num_stages=1,
    )
    return chained
