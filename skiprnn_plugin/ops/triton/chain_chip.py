"""The backward's chain over the updates of one layer, for weights that fit a multiprocessor: one launch works through
whole sequences, R of them in a program. :mod:`.prepare` has the equations of the gate, :mod:`.candidates` those of the
cell."""

import triton
import triton.language as tl

from .arithmetic import GRU, LSTM, RNN, load_weights, product


@triton.jit
def _load(pointer, mask):
    return tl.load(pointer, mask=mask, other=0.0)


@triton.jit
def _late(loaded):
    """The value itself. Triton moves a value to the threads that need it right after its last operation in the threads
    that loaded it, and there the warps wait for it and for each other. This operation comes when all loads are under
    way; after the load itself, they would come one by one. (Triton moves it up to the load all the same where the value
    is the first that is needed, so that one is loaded last.)"""
    return loaded + 0.0


@triton.jit
def _add_pairs(s_0, e_0, s_1, e_1):
    return s_0 + s_1, e_0 + e_1


@triton.jit
def _load_gate(through_p, through_acc, scalars, place, at, active, mask, P: tl.constexpr, HAS_C: tl.constexpr):
    """E and F of a run, each for h and for c (the same again without c), [HP, R]; and its scalars, [R]."""
    f_h = _load(through_acc + at, mask)
    f_c = f_h
    if HAS_C:
        e_c = _load(through_p + at + P, mask)
        f_c = _load(through_acc + at + P, mask)
    a = _load(scalars + place * 4, active)
    alpha = _load(scalars + place * 4 + 1, active)
    kappa = _load(scalars + place * 4 + 2, active)
    la = _load(scalars + place * 4 + 3, active)
    e_h = _load(through_p + at, mask)
    if not HAS_C:
        e_c = e_h
    return e_h, f_h, e_c, f_c, a, alpha, kappa, la


@triton.jit
def _gate(run, dh, dc, e, HAS_C: tl.constexpr):
    """The sums s and e of a run, [R], from what :func:`_load_gate` returns and the gradients of the state and of e
    after it."""
    e_h, f_h, e_c, f_c, a, alpha, kappa, la = run
    s_tile = dh * _late(e_h)
    e_tile = dh * _late(f_h)
    if HAS_C:
        s_tile += dc * _late(e_c)
        e_tile += dc * _late(f_c)
    s_sum, e_sum = tl.reduce((s_tile, e_tile), 0, _add_pairs)
    return a + s_sum + alpha * e, kappa + e_sum + la * e


@triton.jit(do_not_specialize=["B"])
def chain_kernel(
    transposed,
    gate_weight,
    counts,
    through_p,
    through_acc,
    scalars,
    outputs,
    factors,
    d_h,
    d_c,
    d_candidates,
    d_logits,
    d_resets,
    d_h_before,
    d_c_before,
    d_p_before,
    d_acc_before,
    B,
    CELL: tl.constexpr,
    C: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    HP: tl.constexpr,
    R: tl.constexpr,
    PRECISION: tl.constexpr,
    GATED: tl.constexpr,
    EVERY: tl.constexpr,
    EMULATED: tl.constexpr,
):
    """Go back over the updates of every sequence.

    Args:
        transposed: recurrent weights, transposed gate by gate, [G, H, H].
        gate_weight: [H], padded or not.
        through_p: a field of :class:`.call.Prepared`, as ``through_acc``, ``scalars``, ``outputs`` and ``factors``.
        d_h: gradient of the final h, [B, H]; ``d_c`` likewise.
        d_candidates: where to write the fields of :class:`.call.Chained`, as the arguments that follow.
    """
    S: tl.constexpr = 2 if CELL == LSTM else 1
    units = tl.arange(0, HP)
    rows = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    row_exists = rows < B
    w_0 = load_weights(transposed, H, HP, PRECISION)
    if CELL != RNN:
        w_1 = load_weights(transposed + H * H, H, HP, PRECISION)
        w_2 = load_weights(transposed + 2 * H * H, H, HP, PRECISION)
    if CELL == LSTM:
        w_3 = load_weights(transposed + 3 * H * H, H, HP, PRECISION)
    if GATED:
        weight = tl.load(gate_weight + units, mask=units < H, other=0.0)
    count = tl.load(counts + rows, mask=row_exists, other=0)
    tile = (units < H)[:, None] & row_exists[None, :]
    at_state = rows[None, :] * H + units[:, None]
    dh = tl.load(d_h + at_state, mask=tile, other=0.0).to(tl.float32)
    dc = dh
    if CELL == LSTM:
        dc = tl.load(d_c + at_state, mask=tile, other=0.0).to(tl.float32)
    e = tl.zeros([R], tl.float32)
    k = tl.max(count, 0)
    while k > 0:
        active = row_exists & (k <= count)
        place = k.to(tl.int64) * B + rows
        mask = active[None, :] & (units < P)[:, None]
        at = place[None, :] * (S * P) + units[:, None]
        at_factor = place[None, :] * (C * P) + units[:, None]
        if EVERY:
            output = _load(outputs + place[None, :] * P + units[:, None], mask)
        if CELL != RNN:
            f_1 = _load(factors + at_factor + P, mask)
            f_2 = _load(factors + at_factor + 2 * P, mask)
            f_3 = _load(factors + at_factor + 3 * P, mask)
            f_4 = _load(factors + at_factor + 4 * P, mask)
        if CELL == LSTM:
            f_5 = _load(factors + at_factor + 5 * P, mask)
        f_0 = _load(factors + at_factor, mask)
        if GATED:
            run = _load_gate(through_p, through_acc, scalars, place, at, active, mask, P, CELL == LSTM)
            s, new_e = _gate(run, dh, dc, e, CELL == LSTM)
            e = tl.where(active, new_e, e)
            tl.store(d_logits + place, s, mask=active)
        new_h = dh
        new_c = dc
        if EVERY:
            new_h += _late(output)
        if GATED:
            if CELL == LSTM:
                new_c += s[None, :] * weight[:, None]
            else:
                new_h += s[None, :] * weight[:, None]
        tl.store(d_candidates + at, new_h, mask=mask)
        if CELL == LSTM:
            new_c += new_h * _late(f_0)
            tl.store(d_candidates + at + P, new_c, mask=mask)
            dc = tl.where(active[None, :], new_c * _late(f_5), dc)
            old_h = product(w_0, new_c * _late(f_1), PRECISION, EMULATED)
            old_h += product(w_1, new_c * _late(f_2), PRECISION, EMULATED)
            old_h += product(w_2, new_c * _late(f_3), PRECISION, EMULATED)
            old_h += product(w_3, new_h * _late(f_4), PRECISION, EMULATED)
        elif CELL == RNN:
            old_h = product(w_0, new_h * _late(f_0), PRECISION, EMULATED)
        elif CELL == GRU:
            old_h = new_h * _late(f_4)
            old_h += product(w_0, new_h * _late(f_0), PRECISION, EMULATED)
            old_h += product(w_1, new_h * _late(f_1), PRECISION, EMULATED)
            old_h += product(w_2, new_h * _late(f_2), PRECISION, EMULATED)
        else:
            reset = product(w_2, new_h * _late(f_0), PRECISION, EMULATED)
            tl.store(d_resets + place[None, :] * P + units[:, None], reset, mask=mask)
            old_h = new_h * _late(f_3) + reset * _late(f_4)
            old_h += product(w_0, reset * _late(f_1), PRECISION, EMULATED)
            old_h += product(w_1, new_h * _late(f_2), PRECISION, EMULATED)
        dh = tl.where(active[None, :], old_h, dh)
        k -= 1
    # run 0, before the first update
    mask = row_exists[None, :] & (units < P)[:, None]
    if GATED:
        at = rows[None, :] * (S * P) + units[:, None]
        run = _load_gate(through_p, through_acc, scalars, rows, at, row_exists, mask, P, CELL == LSTM)
        s, e = _gate(run, dh, dc, e, CELL == LSTM)
        tl.store(d_p_before + rows, s, mask=row_exists)
        tl.store(d_acc_before + rows, e, mask=row_exists)
    if EVERY:
        dh += _load(outputs + rows[None, :] * P + units[:, None], mask)
    tl.store(d_h_before + at_state, dh, mask=tile)
    if CELL == LSTM:
        tl.store(d_c_before + at_state, dc, mask=tile)
