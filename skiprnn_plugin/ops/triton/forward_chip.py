"""The forward pass of one layer whose weights fit into the registers or the shared memory of a multiprocessor.

One launch works through whole sequences: a program takes R of them, and in each turn of its loop makes the next update
of every one, whichever step that is. The mathematics is in :mod:`..reference`.
"""

import triton
import triton.language as tl

from .arithmetic import (
    GRU,
    GRU_RESET_BEFORE,
    LSTM,
    RNN,
    load_weights,
    look_ahead,
    product,
    round_to,
    search,
    sigmoid,
    sigmoid_sum,
    tanh,
    tanh_sum,
)

# Arguments whose values, or places in memory, Triton must not build into a kernel: it would compile again for others
UNSPECIALIZED = ["B", "T", "capacity", "x_row", "x_step", "x_feature"]
UNALIGNED = ["x", "p_before", "acc_before", "begin", "end", "schedule", "noise", "updates"]


@triton.jit
def _input(
    GATE: tl.constexpr, place, x_feature, w_0, w_1, bias, units, P: tl.constexpr, HP: tl.constexpr, D: tl.constexpr
):
    """W x + b of one gate, [HP, R], at ``place`` [R]: pointers to the steps of x, or of the projected x if D = 0.

    In whichever dtype it comes: a conversion here would make the next gate's load wait for this one.
    """
    if D == 0:
        places = place[None, :] + (GATE * P + units)[:, None]
        if P == HP:
            return tl.load(places)
        else:
            return tl.load(places, mask=(units < P)[:, None], other=0.0)
    else:
        value = w_0[:, None] * tl.load(place).to(tl.float32)[None, :]
        if D == 2:
            value += w_1[:, None] * tl.load(place + x_feature).to(tl.float32)[None, :]
        return value + bias[:, None]


@triton.jit
def _input_weights(w_ih, bias, GATE: tl.constexpr, units, H: tl.constexpr, D: tl.constexpr):
    """The two columns of a gate's input weights, and its bias, [HP] each; something unused where the kernel does not
    multiply the input."""
    exists = units < H
    first = units
    second = units
    added = units
    if D > 0:
        first = tl.load(w_ih + (GATE * H + units) * D, mask=exists, other=0.0).to(tl.float32)
        added = tl.load(bias + GATE * H + units, mask=exists, other=0.0).to(tl.float32)
    if D == 2:
        second = tl.load(w_ih + (GATE * H + units) * D + 1, mask=exists, other=0.0).to(tl.float32)
    return first, second, added


@triton.jit(do_not_specialize=UNSPECIALIZED, do_not_specialize_on_alignment=UNALIGNED)
def forward_kernel(
    x,
    x_row,
    x_step,
    x_feature,
    projected,
    w_ih,
    bias,
    w_hh,
    bias_n,
    gate_weight,
    gate_bias,
    h_before,
    c_before,
    p_before,
    acc_before,
    begin,
    end,
    schedule,
    noise,
    threshold,
    states,
    record_p,
    record_acc,
    record_times,
    counts,
    updates,
    h_after,
    c_after,
    p_after,
    acc_after,
    t_after,
    B,
    T,
    capacity,
    CELL: tl.constexpr,
    G: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    HP: tl.constexpr,
    R: tl.constexpr,
    D: tl.constexpr,
    PRECISION: tl.constexpr,
    GATED: tl.constexpr,
    SCHEDULED: tl.constexpr,
    NOISY: tl.constexpr,
    RECORDS: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """Make up to ``capacity`` updates of every sequence, in the way of :class:`.call.Call` and :class:`.call.Records`.

    Args:
        x: [B, T, D], by strides; read if D is 1 or 2.
        projected: W x + b, [B, T, G, P]; read if D is 0.
        bias: of the input's part of the gates, [G, H]; read if D is not 0.
        bias_n: b'_n, [H], for GRUs that reset after the product.
        gate_weight: [H], padded or not.
        h_before: state to start from, [B, H]; ``c_before``, ``p_before`` and ``acc_before`` likewise.
        begin: step to start from, [B].
        states: where to write the records, as ``record_p``, ``record_acc``, ``record_times`` and ``counts``.
        updates: where to write 1 for a step that is updated, [B, T].
        h_after: where to write the state at the end; ``c_after``, ``p_after``, ``acc_after`` and ``t_after``, the step
            after the last one that was read, likewise.
    """
    S: tl.constexpr = 2 if CELL == LSTM else 1
    units = tl.arange(0, HP)
    rows = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    row_exists = rows < B
    existing = tl.minimum(rows, B - 1)  # rows to read without a mask
    unit_exists = units < H
    w_0 = load_weights(w_hh, H, HP, PRECISION)
    if CELL != RNN:
        w_1 = load_weights(w_hh + H * H, H, HP, PRECISION)
        w_2 = load_weights(w_hh + 2 * H * H, H, HP, PRECISION)
    if CELL == LSTM:
        w_3 = load_weights(w_hh + 3 * H * H, H, HP, PRECISION)
    if CELL == GRU:
        b_n = tl.load(bias_n + units, mask=unit_exists, other=0.0).to(tl.float32)
    a_0, c_0, b_0 = _input_weights(w_ih, bias, 0, units, H, D)
    if CELL != RNN:
        a_1, c_1, b_1 = _input_weights(w_ih, bias, 1, units, H, D)
        a_2, c_2, b_2 = _input_weights(w_ih, bias, 2, units, H, D)
    if CELL == LSTM:
        a_3, c_3, b_3 = _input_weights(w_ih, bias, 3, units, H, D)

    tile = unit_exists[:, None] & row_exists[None, :]
    at_state = rows[None, :] * H + units[:, None]
    h = tl.load(h_before + at_state, mask=tile, other=0.0).to(tl.float32)
    if CELL == LSTM:
        c = tl.load(c_before + at_state, mask=tile, other=0.0).to(tl.float32)
    p_start = tl.load(p_before + rows, mask=row_exists, other=1.0)
    p = p_start
    acc_start = tl.load(acc_before + rows, mask=row_exists, other=0.0)
    acc = acc_start
    t = tl.load(begin + rows, mask=row_exists, other=0).to(tl.int32)
    last = tl.load(end + rows, mask=row_exists, other=0).to(tl.int32)
    count = tl.zeros([R], tl.int32)
    if GATED:
        weight = tl.load(gate_weight + units, mask=unit_exists, other=0.0)
        gate_b = tl.load(gate_bias)
    if RECORDS:
        record = (units < P)[:, None] & row_exists[None, :]
        at_record = rows[None, :] * (S * P) + units[:, None]
        tl.store(states + at_record, h, mask=record)
        if CELL == LSTM:
            tl.store(states + at_record + P, c, mask=record)

    going = tl.max(((t < last) & (count < capacity)).to(tl.int32), 0)
    while going > 0:
        given = look_ahead(schedule, noise, rows * T, t, last, SCHEDULED, NOISY)
        u_0 = product(w_0, h, PRECISION, EMULATED)
        if CELL != RNN:
            u_1 = product(w_1, h, PRECISION, EMULATED)
        if CELL == LSTM or CELL == GRU:
            u_2 = product(w_2, h, PRECISION, EMULATED)
        if CELL == LSTM:
            u_3 = product(w_3, h, PRECISION, EMULATED)
        if GATED:
            if CELL == LSTM:
                logit = tl.sum(c * weight[:, None], 0) + gate_b
            else:
                logit = tl.sum(h * weight[:, None], 0) + gate_b
            p = tl.where(count > 0, sigmoid(logit), p_start)
            if RECORDS:
                tl.store(record_p + count.to(tl.int64) * B + rows, p, mask=row_exists)
        t, acc, found = search(p, acc, t, last, count >= capacity, given, threshold, SCHEDULED, NOISY)
        # Unmasked: where a row found no update, what is read is not used
        step = tl.minimum(t, T - 1).to(tl.int64)
        if D == 0:
            place = projected + (existing * T + step) * (G * P)
        else:
            place = x + existing * x_row + step * x_step
        # A GRU's z comes last: Triton moves z to the threads that need it right after its load, and there the warps
        # wait for it and for each other
        x_0 = _input(0, place, x_feature, a_0, c_0, b_0, units, P, HP, D)
        if CELL != RNN:
            x_2 = _input(2, place, x_feature, a_2, c_2, b_2, units, P, HP, D)
            x_1 = _input(1, place, x_feature, a_1, c_1, b_1, units, P, HP, D)
        if CELL == LSTM:
            x_3 = _input(3, place, x_feature, a_3, c_3, b_3, units, P, HP, D)
            new_c = sigmoid_sum(x_1, u_1) * c + sigmoid_sum(x_0, u_0) * tanh_sum(x_2, u_2)
            new_h = sigmoid_sum(x_3, u_3) * tanh(new_c)
            new_c = round_to(new_c, h_after)
        elif CELL == GRU:
            r = sigmoid_sum(x_0, u_0)
            z = sigmoid_sum(x_1, u_1)
            n = tanh(x_2.to(tl.float32) + r * (u_2 + b_n[:, None]))
            new_h = n + z * (h - n)
        elif CELL == GRU_RESET_BEFORE:
            r = sigmoid_sum(x_0, u_0)
            z = sigmoid_sum(x_1, u_1)
            n = tanh_sum(x_2, product(w_2, r * h, PRECISION, EMULATED))
            new_h = n + z * (h - n)
        else:
            new_h = tanh_sum(x_0, u_0)
        new_h = round_to(new_h, h_after)
        h = tl.where(found[None, :], new_h, h)
        if CELL == LSTM:
            c = tl.where(found[None, :], new_c, c)
        count = tl.where(found, count + 1, count)
        if RECORDS:
            slot = count.to(tl.int64) * B
            at_record = (slot + rows)[None, :] * (S * P) + units[:, None]
            record = (units < P)[:, None] & found[None, :]
            tl.store(states + at_record, new_h, mask=record)
            if CELL == LSTM:
                tl.store(states + at_record + P, new_c, mask=record)
            tl.store(record_acc + slot + rows, acc, mask=found)
            tl.store(record_times + slot + rows, t, mask=found)
        tl.store(updates + rows * T + t, 1.0, mask=found)
        if GATED:
            acc = tl.where(found, 0.0, acc)
        t = tl.where(found, t + 1, t)
        going = tl.max(((t < last) & (count < capacity)).to(tl.int32), 0)

    if GATED:
        if CELL == LSTM:
            logit = tl.sum(c * weight[:, None], 0) + gate_b
        else:
            logit = tl.sum(h * weight[:, None], 0) + gate_b
        p = tl.where(count > 0, sigmoid(logit), p_start)
    else:
        acc = acc_start  # without a gate nothing accumulates
    if RECORDS:
        tl.store(record_p + count.to(tl.int64) * B + rows, p, mask=row_exists)
    tl.store(h_after + at_state, h, mask=tile)
    if CELL == LSTM:
        tl.store(c_after + at_state, c, mask=tile)
    tl.store(counts + rows, count, mask=row_exists)
    tl.store(p_after + rows, p, mask=row_exists)
    tl.store(acc_after + rows, acc, mask=row_exists)
    tl.store(t_after + rows, t, mask=row_exists)
