"""The backward's chain over the updates in a few launches per update, for weights that do not fit on a multiprocessor
and for several layers. :mod:`.prepare` has the equations of the gate, :mod:`.candidates` those of the cell.

An iteration goes back over one update of every sequence, its last one first. ``chain_gate_kernel`` comes first: the
gate's sums, the gradients of the candidates as far as they do not come from a layer above, and the gradients of the top
layer's gates. Then every layer, from the top down, has a launch over blocks of sequences and of units that multiplies
the gradients of its gates by its weights, and then computes those of the layer below (two, if the cell resets before
the recurrent product).

The gradients of a layer's gates are a row of P columns for each gate, so that a product of all gates is one product.
The order is i, f, g, o; or n in the state's part, r, z, n in the input's part; or, with the reset before, r, z, n.
"""

import triton
import triton.language as tl

from .arithmetic import GRU, GRU_RESET_BEFORE, LSTM
from .forward_launches import add_product


@triton.jit
def _gate_gradients(dh, dc, factors, gates, d_h_before, d_c_before, d_c, mask, CELL: tl.constexpr, P: tl.constexpr):
    """Store the gradients of a layer's gates, and the part of those of its old state that no product adds to.

    Args:
        dh: gradient of the candidate h.
        dc: gradient of the candidate c, without what comes from h; anything for cells without c.
        factors: where the first of the cell's factors is, for every element of ``dh``; the next is P further.
        gates: where to store the gradient of the first gate; the next is P further.
        d_h_before: where to store the gradient of the old h.
        d_c_before: where to store that of the old c; ``d_c``: that of the candidate c.
    """
    f_0 = tl.load(factors, mask=mask, other=0.0)
    if CELL == LSTM:
        q = dc + dh * f_0
        tl.store(d_c, q, mask=mask)
        tl.store(gates, q * tl.load(factors + P, mask=mask, other=0.0), mask=mask)
        tl.store(gates + P, q * tl.load(factors + 2 * P, mask=mask, other=0.0), mask=mask)
        tl.store(gates + 2 * P, q * tl.load(factors + 3 * P, mask=mask, other=0.0), mask=mask)
        tl.store(gates + 3 * P, dh * tl.load(factors + 4 * P, mask=mask, other=0.0), mask=mask)
        tl.store(d_c_before, q * tl.load(factors + 5 * P, mask=mask, other=0.0), mask=mask)
    elif CELL == GRU:
        tl.store(gates + P, dh * f_0, mask=mask)
        tl.store(gates + 2 * P, dh * tl.load(factors + P, mask=mask, other=0.0), mask=mask)
        tl.store(gates, dh * tl.load(factors + 2 * P, mask=mask, other=0.0), mask=mask)
        tl.store(gates + 3 * P, dh * tl.load(factors + 3 * P, mask=mask, other=0.0), mask=mask)
        tl.store(d_h_before, dh * tl.load(factors + 4 * P, mask=mask, other=0.0), mask=mask)
    elif CELL == GRU_RESET_BEFORE:  # r follows from the product of n
        tl.store(gates + 2 * P, dh * f_0, mask=mask)
        tl.store(gates + P, dh * tl.load(factors + 2 * P, mask=mask, other=0.0), mask=mask)
        tl.store(d_h_before, dh * tl.load(factors + 3 * P, mask=mask, other=0.0), mask=mask)
    else:
        tl.store(gates, dh * f_0, mask=mask)


@triton.jit(do_not_specialize=["B"])
def chain_gate_kernel(
    left,
    d_state,
    e,
    through_p,
    through_acc,
    scalars,
    outputs,
    factors,
    gate_weights,
    d_candidates,
    d_logits,
    gates,
    d_p_before,
    d_acc_before,
    B,
    CELL: tl.constexpr,
    L: tl.constexpr,
    S: tl.constexpr,
    C: tl.constexpr,
    SLOTS: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    BLOCK: tl.constexpr,
    GATED: tl.constexpr,
    EVERY: tl.constexpr,
):
    """Go back to the update before, in the sequence of this program, or to run 0.

    Args:
        left: what comes next, int32 [B]: 1 more than the update's index; 0 if there is nothing.
        d_state: gradients of the states that are held, [B, S, P].
        e: of :mod:`.prepare`, [B].
        factors: those of the top layer, of [K + 1, B, L, C, P].
        gate_weights: 0 where the gate does not read, [S, P].
        gates: gradients of the top layer's gates, [B, SLOTS, P].
    """
    row = tl.program_id(0).to(tl.int64)
    next_update = tl.load(left + row)
    if next_update == 0:
        return
    k = next_update - 1
    place = k.to(tl.int64) * B + row
    held = d_state + row * (S * P)
    at = place * (S * P)
    if GATED:
        s_sums = tl.zeros([BLOCK], tl.float32)
        e_sums = tl.zeros([BLOCK], tl.float32)
        for start in range(0, S * P, BLOCK):
            units = start + tl.arange(0, BLOCK)
            exists = (units < S * P) & (units % P < H)
            d = tl.load(held + units, mask=exists, other=0.0)
            s_sums += d * tl.load(through_p + at + units, mask=exists, other=0.0)
            e_sums += d * tl.load(through_acc + at + units, mask=exists, other=0.0)
        e_after = tl.load(e + row)
        at_scalars = scalars + place * 4
        s = tl.load(at_scalars) + tl.sum(s_sums, 0) + tl.load(at_scalars + 1) * e_after
        e_now = tl.load(at_scalars + 2) + tl.sum(e_sums, 0) + tl.load(at_scalars + 3) * e_after
    tl.debug_barrier()  # every warp has read ``left`` and ``e``
    tl.store(left + row, k)
    if GATED:
        if k > 0:
            tl.store(e + row, e_now)
            tl.store(d_logits + place, s)
        else:
            tl.store(d_p_before + row, s)
            tl.store(d_acc_before + row, e_now)
    if k == 0:
        return
    if L > 1:
        for start in range(0, S * P, BLOCK):
            units = start + tl.arange(0, BLOCK)
            exists = (units < S * P) & (units % P < H) & (units // P % L < L - 1)
            d = tl.load(held + units, mask=exists, other=0.0)
            if GATED:
                d += s * tl.load(gate_weights + units, mask=exists, other=0.0)
            tl.store(d_candidates + at + units, d, mask=exists)
    TOP: tl.constexpr = (L - 1) * P
    for start in range(0, P, BLOCK):
        units = start + tl.arange(0, BLOCK)
        exists = units < H
        dh = tl.load(held + TOP + units, mask=exists, other=0.0)
        if EVERY:
            dh += tl.load(outputs + place * P + units, mask=exists, other=0.0)
        dc = dh
        if CELL == LSTM:
            dc = tl.load(held + TOP + L * P + units, mask=exists, other=0.0)
            if GATED:
                dc += s * tl.load(gate_weights + TOP + L * P + units, mask=exists, other=0.0)
        elif GATED:
            dh += s * tl.load(gate_weights + TOP + units, mask=exists, other=0.0)
        tl.store(d_candidates + at + TOP + units, dh, mask=exists)
        _gate_gradients(
            dh,
            dc,
            factors + place * (L * C * P) + units,
            gates + row * (SLOTS * P) + units,
            held + TOP + units,
            held + TOP + L * P + units,
            d_candidates + at + TOP + L * P + units,
            exists,
            CELL,
            P,
        )


@triton.jit
def _product(
    w,
    units,
    v,
    at_rows,
    active,
    LENGTH: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """w [P, LENGTH] times the vectors of the rows, which begin at ``at_rows``, [UNITS, ROWS]."""
    total = tl.zeros([UNITS, ROWS], tl.float32)
    for start in range(0, LENGTH, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        exists = columns < LENGTH
        vectors = tl.load(v + at_rows[None, :] + columns[:, None], mask=exists[:, None] & active[None, :], other=0.0)
        tile = (units < P)[:, None] & exists[None, :]
        weights = tl.load(w + units[:, None] * LENGTH + columns[None, :], mask=tile, other=0.0)
        total = add_product(weights, vectors, total, PRECISION, EMULATED)
    return total


@triton.jit(do_not_specialize=["B"])
def chain_reset_kernel(
    left,
    gates,
    w_n,
    factors,
    d_state,
    d_resets,
    B,
    L: tl.constexpr,
    C: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """The gradients of r h, [K + 1, B, L, P], and of r, in a layer that resets before the recurrent product.

    Args:
        w_n: recurrent weights of n, transposed, [P, P].
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    k = tl.load(left + rows, mask=rows < B, other=0)
    active = k > 0
    if tl.max(k, 0) == 0:
        return
    at_gates = rows * (3 * P)
    d_reset = _product(w_n, units, gates, at_gates + 2 * P, active, P, P, UNITS, ROWS, BLOCK, PRECISION, EMULATED)
    place = k.to(tl.int64) * B + rows
    tile = (units < H)[:, None] & active[None, :]
    tl.store(d_resets + place[None, :] * (L * P) + units[:, None], d_reset, mask=tile)
    at_factors = factors + place[None, :] * (L * C * P) + units[:, None]
    f_1 = tl.load(at_factors + P, mask=tile, other=0.0)
    tl.store(gates + at_gates[None, :] + units[:, None], d_reset * f_1, mask=tile)
    f_4 = tl.load(at_factors + 4 * P, mask=tile, other=0.0)
    held = d_state + rows[None, :] * (L * P) + units[:, None]
    tl.store(held, tl.load(held, mask=tile, other=0.0) + d_reset * f_4, mask=tile)


@triton.jit(do_not_specialize=["B"])
def chain_layer_kernel(
    left,
    gates,
    w_hh,
    d_h_before,
    w_ih,
    dropout,
    d_h_below,
    d_c_below,
    factors_below,
    gates_below,
    d_h_before_below,
    d_c_before_below,
    B,
    CELL: tl.constexpr,
    L: tl.constexpr,
    S: tl.constexpr,
    C: tl.constexpr,
    G: tl.constexpr,
    SLOTS: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOWEST: tl.constexpr,
    DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """The gradient of a layer's old h from that of its gates; and what reaches the layer below.

    Args:
        gates: [B, SLOTS, P].
        w_hh: recurrent weights, transposed, [P, gates * P], the gates in the order of ``gates``.
        d_h_before: the layer's part of the gradients of the states that are held, [B, S, P].
        w_ih: input weights, transposed, [P, G * P].
        dropout: factors on what the layer reads, [B, P].
        d_h_below: the part of the layer below of the gradients of the candidates, [K + 1, B, S, P]; likewise others.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    k = tl.load(left + rows, mask=rows < B, other=0)
    active = k > 0
    if tl.max(k, 0) == 0:
        return
    tile = (units < H)[:, None] & active[None, :]
    at_gates = rows * (SLOTS * P)
    RECURRENT: tl.constexpr = 2 if CELL == GRU_RESET_BEFORE else G
    d_h = _product(w_hh, units, gates, at_gates, active, RECURRENT * P, P, UNITS, ROWS, BLOCK, PRECISION, EMULATED)
    at_held = rows[None, :] * (S * P) + units[:, None]
    if CELL == GRU or CELL == GRU_RESET_BEFORE:
        d_h += tl.load(d_h_before + at_held, mask=tile, other=0.0)
    tl.store(d_h_before + at_held, d_h, mask=tile)
    if not LOWEST:
        INPUT: tl.constexpr = P if CELL == GRU else 0
        d_input = _product(
            w_ih, units, gates, at_gates + INPUT, active, G * P, P, UNITS, ROWS, BLOCK, PRECISION, EMULATED
        )
        if DROPS:
            factor = tl.load(dropout + rows[None, :] * P + units[:, None], mask=tile, other=0.0)
            d_input *= factor.to(tl.float32)
        place = k.to(tl.int64) * B + rows
        at = place[None, :] * (S * P) + units[:, None]
        dh = tl.load(d_h_below + at, mask=tile, other=0.0) + d_input
        tl.store(d_h_below + at, dh, mask=tile)
        dc = dh
        if CELL == LSTM:
            dc = tl.load(d_c_below + at, mask=tile, other=0.0)
        _gate_gradients(
            dh,
            dc,
            factors_below + place[None, :] * (L * C * P) + units[:, None],
            gates_below + at_gates[None, :] + units[:, None],
            d_h_before_below + at_held,
            d_c_before_below + at_held,
            d_c_below + at,
            tile,
            CELL,
            P,
        )
