"""The forward pass in a few launches per update, where the weights do not fit on a multiprocessor or there are several
layers.

An iteration makes the next update of every sequence, whichever step that is. ``decide_kernel`` comes first: it finishes
the update of the iteration before, whose gate it computes, and searches the next one. Then every layer has a launch
over blocks of sequences and of units (two, if the cell resets before the recurrent product).

P is H padded to a multiple of 16. Weights and states are padded with zeros, so that rows begin at multiples of 16
bytes.
"""

import triton
import triton.language as tl

from .arithmetic import GRU, GRU_RESET_BEFORE, LSTM, RNN, look_ahead, round_to, search, sigmoid, tanh

FOUND = tl.constexpr(2)  # in ``status``: this iteration updates the sequence; 1: it goes on later; 0: it has ended


@triton.jit(do_not_specialize=["B", "T", "capacity"])
def decide_kernel(
    partials,
    gate_bias,
    p,
    acc,
    times,
    counts,
    status,
    end,
    schedule,
    noise,
    threshold,
    record_p,
    record_acc,
    record_times,
    updates,
    B,
    T,
    capacity,
    ROWS: tl.constexpr,
    READ: tl.constexpr,
    BLOCKS: tl.constexpr,
    BLOCKS_PADDED: tl.constexpr,
    SCHEDULED: tl.constexpr,
    NOISY: tl.constexpr,
    RECORDS: tl.constexpr,
):
    """Finish the update that the iteration before made, and search the next.

    Args:
        partials: sums over blocks of units of what the gate reads, [READ, BLOCKS, B].
        times: the step at which every sequence is, int32 [B].
        counts: the updates that it has made, int32 [B].
        status: int32 [B]; see ``FOUND``.
        READ: number of layers that the gate reads; 0 without a gate.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    exists = rows < B
    t = tl.load(times + rows, mask=exists, other=0)
    count = tl.load(counts + rows, mask=exists, other=0)
    last = tl.load(end + rows, mask=exists, other=0).to(tl.int32)
    row_p = tl.load(p + rows, mask=exists, other=1.0)
    row_acc = tl.load(acc + rows, mask=exists, other=0.0)
    updated = tl.load(status + rows, mask=exists, other=0) == FOUND
    t = tl.where(updated, t + 1, t)
    count = tl.where(updated, count + 1, count)
    given = look_ahead(schedule, noise, rows * T, t, last, SCHEDULED, NOISY)
    if READ > 0:
        blocks = tl.arange(0, BLOCKS_PADDED).to(tl.int64)
        tile = (blocks < BLOCKS)[:, None] & updated[None, :]
        logit = tl.zeros([ROWS], tl.float32) + tl.load(gate_bias)
        for layer in tl.static_range(READ):
            place = (layer * BLOCKS + blocks)[:, None] * B + rows[None, :]
            logit += tl.sum(tl.load(partials + place, mask=tile, other=0.0), 0)
        row_p = tl.where(updated, sigmoid(logit), row_p)
        row_acc = tl.where(updated, 0.0, row_acc)
    place = count.to(tl.int64) * B + rows
    if RECORDS:
        tl.store(record_p + place, row_p, mask=updated)
    t, row_acc, found = search(row_p, row_acc, t, last, count >= capacity, given, threshold, SCHEDULED, NOISY)
    goes_on = (t < last) & (count < capacity)
    if READ > 0:
        tl.store(p + rows, row_p, mask=exists)
        tl.store(acc + rows, row_acc, mask=exists)
    tl.store(times + rows, t, mask=exists)
    tl.store(counts + rows, count, mask=exists)
    tl.store(status + rows, tl.where(found, FOUND, goes_on.to(tl.int32)), mask=exists)
    if RECORDS:
        tl.store(record_acc + place + B, row_acc, mask=found)
        tl.store(record_times + place + B, t, mask=found)
    tl.store(updates + rows * T + t, 1.0, mask=found)


@triton.jit
def add_product(w, v, total, PRECISION: tl.constexpr, EMULATED: tl.constexpr):
    """``total`` + w [UNITS, K] times v [K, ROWS], summed in float32."""
    if PRECISION == "half":
        if EMULATED:  # the interpreter has no products of bfloat16; float32 holds the same factors
            return tl.dot(w.to(tl.float32), v.to(tl.float32), total, input_precision="ieee")
        else:
            return tl.dot(w, v, total)
    else:
        return tl.dot(w, v, total, input_precision=PRECISION)


@triton.jit
def _gate_products(
    w,
    units,
    v,
    at_rows,
    take,
    dropout,
    at_dropout,
    FIRST: tl.constexpr,
    COUNT: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """W v for the COUNT gates from FIRST on: four tiles [UNITS, ROWS], of which the first COUNT mean something.

    Args:
        w: weights of all gates, [G * P, P].
        v: the vectors' tensor, in which that of a row begins at ``at_rows``, [ROWS].
        take: rows whose vectors are wanted, [ROWS].
        dropout: factors on the vectors, which begin at ``at_dropout``, [ROWS]; read if ``DROPS``.
    """
    sum_0 = tl.zeros([UNITS, ROWS], tl.float32)
    sum_1 = tl.zeros([UNITS, ROWS], tl.float32)
    sum_2 = tl.zeros([UNITS, ROWS], tl.float32)
    sum_3 = tl.zeros([UNITS, ROWS], tl.float32)
    for start in range(0, P, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        tile = (columns < P)[:, None] & take[None, :]
        vectors = tl.load(v + at_rows[None, :] + columns[:, None], mask=tile, other=0.0)
        if DROPS:
            factors = tl.load(dropout + at_dropout[None, :] + columns[:, None], mask=tile, other=0.0)
            vectors = (vectors.to(tl.float32) * factors.to(tl.float32)).to(v.dtype.element_ty)
        square = (units < P)[:, None] & (columns < P)[None, :]
        at = w + (FIRST * P + units)[:, None] * P + columns[None, :]
        sum_0 = add_product(tl.load(at, mask=square, other=0.0), vectors, sum_0, PRECISION, EMULATED)
        if COUNT > 1:
            sum_1 = add_product(tl.load(at + P * P, mask=square, other=0.0), vectors, sum_1, PRECISION, EMULATED)
        if COUNT > 2:
            sum_2 = add_product(tl.load(at + 2 * P * P, mask=square, other=0.0), vectors, sum_2, PRECISION, EMULATED)
        if COUNT > 3:
            sum_3 = add_product(tl.load(at + 3 * P * P, mask=square, other=0.0), vectors, sum_3, PRECISION, EMULATED)
    return sum_0, sum_1, sum_2, sum_3


@triton.jit
def _from_tensor(GATE: tl.constexpr, projected, at_step, units, tile, P: tl.constexpr):
    """A gate of ``projected``, [UNITS, ROWS]."""
    return tl.load(projected + at_step[None, :] + (GATE * P + units)[:, None], mask=tile, other=0.0).to(tl.float32)


@triton.jit
def _from_below(GATE: tl.constexpr, product, bias, units, P: tl.constexpr):
    return product + tl.load(bias + GATE * P + units, mask=units < P, other=0.0).to(tl.float32)[:, None]


@triton.jit
def _inputs(
    projected,
    t,
    T,
    w_ih,
    bias,
    below,
    at_below,
    dropout,
    rows,
    take,
    units,
    FIRST: tl.constexpr,
    COUNT: tl.constexpr,
    G: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOWEST: tl.constexpr,
    DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """The input's part of the gates from FIRST on, W x + b, as ``_gate_products`` returns them: from ``projected`` in
    the lowest layer, and from the candidate of the layer below in the others."""
    if LOWEST:
        tile = (units < P)[:, None] & take[None, :]
        at_step = (rows * T + t) * (G * P)
        x_0 = _from_tensor(FIRST, projected, at_step, units, tile, P)
        x_1 = x_0
        x_2 = x_0
        x_3 = x_0
        if COUNT > 1:
            x_1 = _from_tensor(FIRST + 1, projected, at_step, units, tile, P)
        if COUNT > 2:
            x_2 = _from_tensor(FIRST + 2, projected, at_step, units, tile, P)
        if COUNT > 3:
            x_3 = _from_tensor(FIRST + 3, projected, at_step, units, tile, P)
    else:
        x_0, x_1, x_2, x_3 = _gate_products(
            w_ih,
            units,
            below,
            at_below,
            take,
            dropout,
            rows * P,
            FIRST,
            COUNT,
            P,
            UNITS,
            ROWS,
            BLOCK,
            DROPS,
            PRECISION,
            EMULATED,
        )
        x_0 = _from_below(FIRST, x_0, bias, units, P)
        if COUNT > 1:
            x_1 = _from_below(FIRST + 1, x_1, bias, units, P)
        if COUNT > 2:
            x_2 = _from_below(FIRST + 2, x_2, bias, units, P)
        if COUNT > 3:
            x_3 = _from_below(FIRST + 3, x_3, bias, units, P)
    return x_0, x_1, x_2, x_3


@triton.jit
def _gates(
    projected,
    t,
    T,
    w_ih,
    bias,
    below,
    at_below,
    dropout,
    w_hh,
    h,
    at_h,
    rows,
    take,
    units,
    FIRST: tl.constexpr,
    COUNT: tl.constexpr,
    G: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOWEST: tl.constexpr,
    DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """The input's part of the gates from FIRST on, from :func:`_inputs`, and then the state's, U h, where that of a row
    begins at ``at_h`` of ``h``."""
    x_0, x_1, x_2, x_3 = _inputs(
        projected, t, T, w_ih, bias, below, at_below, dropout, rows, take, units, FIRST, COUNT,
        G, P, UNITS, ROWS, BLOCK, LOWEST, DROPS, PRECISION, EMULATED,
    )  # fmt: skip
    u_0, u_1, u_2, u_3 = _gate_products(
        w_hh, units, h, at_h, take, dropout, rows, FIRST, COUNT,
        P, UNITS, ROWS, BLOCK, False, PRECISION, EMULATED,
    )  # fmt: skip
    return x_0, x_1, x_2, x_3, u_0, u_1, u_2, u_3


@triton.jit
def _slots(count, B, rows, S: tl.constexpr, P: tl.constexpr, ALTERNATES: tl.constexpr):
    """Where the states of the rows are now, and where the next ones go, [ROWS] each."""
    now = count.to(tl.int64)
    then = now + 1
    if ALTERNATES:
        now = now % 2
        then = then % 2
    return (now * B + rows) * (S * P), (then * B + rows) * (S * P)


@triton.jit(do_not_specialize=["B", "T"])
def reset_kernel(
    projected,
    w_ih,
    bias,
    w_hh,
    h_states,
    below,
    dropout,
    times,
    counts,
    status,
    reset_h,
    z_gates,
    B,
    T,
    G: tl.constexpr,
    S: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOWEST: tl.constexpr,
    DROPS: tl.constexpr,
    ALTERNATES: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """r * h and z, [B, P] each, of the cell that resets before the recurrent product."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    take = tl.load(status + rows, mask=rows < B, other=0) == FOUND
    if tl.max(take.to(tl.int32), 0) == 0:
        return
    t = tl.load(times + rows, mask=take, other=0)
    count = tl.load(counts + rows, mask=take, other=0)
    at_now, at_next = _slots(count, B, rows, S, P, ALTERNATES)
    x_r, x_z, _2, _3, u_r, u_z, _6, _7 = _gates(
        projected, t, T, w_ih, bias, below, at_next, dropout, w_hh, h_states, at_now, rows, take, units, 0, 2,
        G, P, UNITS, ROWS, BLOCK, LOWEST, DROPS, PRECISION, EMULATED,
    )  # fmt: skip
    tile = (units < P)[:, None] & take[None, :]
    h = tl.load(h_states + at_now[None, :] + units[:, None], mask=tile, other=0.0).to(tl.float32)
    at_scratch = rows[None, :] * P + units[:, None]
    tl.store(reset_h + at_scratch, sigmoid(x_r + u_r) * h, mask=tile)
    tl.store(z_gates + at_scratch, sigmoid(x_z + u_z), mask=tile)


@triton.jit(do_not_specialize=["B", "T"], do_not_specialize_on_alignment=["partials"])
def layer_kernel(
    projected,
    w_ih,
    bias,
    w_hh,
    bias_n,
    h_states,
    c_states,
    below,
    dropout,
    gate_weight,
    partials,
    times,
    counts,
    status,
    reset_h,
    z_gates,
    B,
    T,
    CELL: tl.constexpr,
    G: tl.constexpr,
    H: tl.constexpr,
    S: tl.constexpr,
    P: tl.constexpr,
    UNITS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOWEST: tl.constexpr,
    READ: tl.constexpr,
    DROPS: tl.constexpr,
    ALTERNATES: tl.constexpr,
    PRECISION: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """The new state of a layer, where this iteration updates the sequence.

    Args:
        h_states: the layer's part of the states [slots, B, S, P]; ``c_states`` and ``below``, whose h the layer reads,
            likewise.
        dropout: factors on what the layer reads, [B, P].
        partials: the gate's sums that belong to the layer, [blocks of units, B].
        READ: whether the gate reads this layer.
        ALTERNATES: whether there are two slots, and not one for every update.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    take = tl.load(status + rows, mask=rows < B, other=0) == FOUND
    if tl.max(take.to(tl.int32), 0) == 0:
        return
    t = tl.load(times + rows, mask=take, other=0)
    count = tl.load(counts + rows, mask=take, other=0)
    at_now, at_next = _slots(count, B, rows, S, P, ALTERNATES)
    tile = (units < H)[:, None] & take[None, :]
    at_scratch = rows[None, :] * P + units[:, None]
    if CELL == GRU_RESET_BEFORE:  # the other kernel computed r and z; n is left, gate 2
        x_0, _1, _2, _3, u_0, _5, _6, _7 = _gates(
            projected, t, T, w_ih, bias, below, at_next, dropout, w_hh, reset_h, rows * P, rows, take, units, 2, 1,
            G, P, UNITS, ROWS, BLOCK, LOWEST, DROPS, PRECISION, EMULATED,
        )  # fmt: skip
    else:
        x_0, x_1, x_2, x_3, u_0, u_1, u_2, u_3 = _gates(
            projected, t, T, w_ih, bias, below, at_next, dropout, w_hh, h_states, at_now, rows, take, units, 0, G,
            G, P, UNITS, ROWS, BLOCK, LOWEST, DROPS, PRECISION, EMULATED,
        )  # fmt: skip
    if CELL == LSTM:
        c = tl.load(c_states + at_now[None, :] + units[:, None], mask=tile, other=0.0).to(tl.float32)
        c = sigmoid(x_1 + u_1) * c + sigmoid(x_0 + u_0) * tanh(x_2 + u_2)
        h = sigmoid(x_3 + u_3) * tanh(c)
        c = round_to(c, c_states)
        tl.store(c_states + at_next[None, :] + units[:, None], c, mask=tile)
    elif CELL == RNN:
        h = tanh(x_0 + u_0)
    else:
        h = tl.load(h_states + at_now[None, :] + units[:, None], mask=tile, other=0.0).to(tl.float32)
        if CELL == GRU:
            b_n = tl.load(bias_n + units, mask=units < P, other=0.0).to(tl.float32)
            z = sigmoid(x_1 + u_1)
            n = tanh(x_2 + sigmoid(x_0 + u_0) * (u_2 + b_n[:, None]))
        else:
            z = tl.load(z_gates + at_scratch, mask=tile, other=0.0)
            n = tanh(x_0 + u_0)
        h = n + z * (h - n)
    h = round_to(h, h_states)
    tl.store(h_states + at_next[None, :] + units[:, None], h, mask=tile)
    if READ:
        weight = tl.load(gate_weight + units, mask=units < P, other=0.0)[:, None]
        if CELL == LSTM:
            part = tl.sum(c * weight, 0)
        else:
            part = tl.sum(h * weight, 0)
        tl.store(partials + tl.program_id(1).to(tl.int64) * B + rows, part, mask=take)
