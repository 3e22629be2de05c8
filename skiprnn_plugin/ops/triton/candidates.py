"""The candidate state of every step, and the factors of the cell's backward at the updates, for one layer.

A skipped step has a candidate too, from the state that is held: how much it would have changed the loss is part of the
gate's gradient. With D the gradient of h~, q = D_c + D f_0 that of c~ including what comes from h~, and u_n = U_n h +
b'_n, the factors f_j of an update make the gradients of the gates' arguments

    LSTM: i, f, g are q f_1, q f_2, q f_3, and o is D f_4; the old c gets q f_5
    GRU: r, z are D f_0, D f_1; n is D f_3 in the input's part, D f_2 in the state's; the old h gets D f_4
    GRU, reset before: n is D f_0, z is D f_2, and r is R f_1, with R the gradient of r h; the old h gets D f_3 + R f_4
    RNN: D f_0
"""

import triton
import triton.language as tl

from .arithmetic import GRU, GRU_RESET_BEFORE, LSTM, RNN, exact_sigmoid, exact_tanh

NUM_FACTORS = {"lstm": 6, "gru": 5, "gru_reset_before": 5, "rnn": 1}


@triton.jit
def _gate(projected, at_projected, recurrent, at_recurrent, GATE: tl.constexpr, P: tl.constexpr, mask):
    """The argument of a gate, W x + b + U h, [steps, HP]."""
    value = tl.load(projected + at_projected + GATE * P, mask=mask, other=0.0).to(tl.float32)
    return value + tl.load(recurrent + at_recurrent + GATE * P, mask=mask, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["B", "T"], do_not_specialize_on_alignment=["held", "updates", "begin", "end"])
def candidates_kernel(
    projected,
    recurrent,
    reset_product,
    bias_n,
    states,
    held,
    updates,
    begin,
    end,
    reset,
    candidates,
    factors,
    B,
    T,
    CELL: tl.constexpr,
    G: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
    S: tl.constexpr,
    LAYER: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    HP: tl.constexpr,
    STEPS: tl.constexpr,
    RESET: tl.constexpr,
):
    """One layer at some steps of a sequence.

    Args:
        projected: W x + b, [B, T, G, P].
        recurrent: U h of every record, [K + 1, B, gates, P], where there are 2 gates if the reset comes before.
        reset_product: U_n (r h) of every step, [B, T, P], if the reset comes before.
        bias_n: b'_n, [H], for GRUs that reset after the product.
        held: number of updates before every step, int32 [B, T].
        reset: where to write r h with RESET, which writes nothing else, [B, T, P].
        candidates: where to write the candidates, [B, T, S, P].
        factors: where to write the factors, [K + 1, B, L, C, P].
    """
    GATES: tl.constexpr = 2 if CELL == GRU_RESET_BEFORE else G
    program = tl.program_id(0).to(tl.int64)  # a second dimension of the grid has room for 65,535 programs alone
    row = program % B
    steps = (program // B).to(tl.int32) * STEPS + tl.arange(0, STEPS)
    units = tl.arange(0, HP)
    real = (steps >= tl.load(begin + row)) & (steps < tl.load(end + row))
    k = tl.load(held + row * T + steps, mask=real, other=0).to(tl.int64)
    update = (tl.load(updates + row * T + steps, mask=real, other=0.0) != 0)[:, None] & (units < P)[None, :]
    mask = real[:, None] & (units < P)[None, :]
    at_step = row * T + steps
    at_projected = at_step[:, None] * (G * P) + units[None, :]
    at_recurrent = (k * B + row)[:, None] * (GATES * P) + units[None, :]
    at_state = (k * B + row)[:, None] * (S * P) + LAYER * P + units[None, :]
    at_candidate = at_step[:, None] * (S * P) + LAYER * P + units[None, :]
    at_factor = (((k + 1) * B + row) * (L * C * P) + LAYER * C * P)[:, None] + units[None, :]
    at_reset = at_step[:, None] * P + units[None, :]
    h = tl.load(states + at_state, mask=mask, other=0.0).to(tl.float32)
    first = _gate(projected, at_projected, recurrent, at_recurrent, 0, P, mask)
    if CELL == LSTM:
        i = exact_sigmoid(first)
        f = exact_sigmoid(_gate(projected, at_projected, recurrent, at_recurrent, 1, P, mask))
        g = exact_tanh(_gate(projected, at_projected, recurrent, at_recurrent, 2, P, mask))
        o = exact_sigmoid(_gate(projected, at_projected, recurrent, at_recurrent, 3, P, mask))
        c = tl.load(states + at_state + L * P, mask=mask, other=0.0).to(tl.float32)
        new_c = f * c + i * g
        tanh_c = exact_tanh(new_c)
        new_h = o * tanh_c
        tl.store(candidates + at_candidate + L * P, new_c, mask=mask)
        tl.store(factors + at_factor, o * (1 - tanh_c * tanh_c), mask=update)
        tl.store(factors + at_factor + P, g * i * (1 - i), mask=update)
        tl.store(factors + at_factor + 2 * P, c * f * (1 - f), mask=update)
        tl.store(factors + at_factor + 3 * P, i * (1 - g * g), mask=update)
        tl.store(factors + at_factor + 4 * P, tanh_c * o * (1 - o), mask=update)
        tl.store(factors + at_factor + 5 * P, f, mask=update)
    elif CELL == RNN:
        new_h = exact_tanh(first)
        tl.store(factors + at_factor, 1 - new_h * new_h, mask=update)
    elif RESET:
        tl.store(reset + at_reset, exact_sigmoid(first) * h, mask=mask)
    else:
        r = exact_sigmoid(first)
        z = exact_sigmoid(_gate(projected, at_projected, recurrent, at_recurrent, 1, P, mask))
        if CELL == GRU:
            u = tl.load(recurrent + at_recurrent + 2 * P, mask=mask, other=0.0).to(tl.float32)
            u += tl.load(bias_n + units, mask=units < H, other=0.0).to(tl.float32)[None, :]
            product = r * u
        else:
            product = tl.load(reset_product + at_reset, mask=mask, other=0.0).to(tl.float32)
        n = exact_tanh(tl.load(projected + at_projected + 2 * P, mask=mask, other=0.0).to(tl.float32) + product)
        new_h = n + z * (h - n)
        d_n = (1 - z) * (1 - n * n)
        d_z = (h - n) * z * (1 - z)
        if CELL == GRU:
            tl.store(factors + at_factor, d_n * u * r * (1 - r), mask=update)
            tl.store(factors + at_factor + P, d_z, mask=update)
            tl.store(factors + at_factor + 2 * P, d_n * r, mask=update)
            tl.store(factors + at_factor + 3 * P, d_n, mask=update)
            tl.store(factors + at_factor + 4 * P, z, mask=update)
        else:
            tl.store(factors + at_factor, d_n, mask=update)
            tl.store(factors + at_factor + P, h * r * (1 - r), mask=update)
            tl.store(factors + at_factor + 2 * P, d_z, mask=update)
            tl.store(factors + at_factor + 3 * P, z, mask=update)
            tl.store(factors + at_factor + 4 * P, r, mask=update)
    if not RESET:
        tl.store(candidates + at_candidate, new_h, mask=mask)
