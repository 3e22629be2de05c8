"""Compresses every run of skipped steps, so that the backward's chain never sees one.

With the names of :mod:`..indexed.gate`, c_t = S~_t - S and d_t = p~_t - p, a skipped step passes the gradients on by

    (dp, dacc)_{t-1} = M_t (dp, dacc)_t + m_t (direct_t + <dS_t, c_t>) (1, 1)
    M_t = [[1 + m d, m (1 - v)], [m d, m (1 - v)]]

and dS_t = D + (outputs from t on), where D is the gradient of the state that the run's end leaves. So with P the
product of the M of the steps before t and (q_p, q_acc) = m_t P (1, 1), the gradients at the run's first step are

    dp = alpha e + <D, A_p> + a      A_p = sum of q_p c_t      dacc = lambda e + <D, A_acc> + kappa      likewise

where e = dp = dacc is what the update after the run passes on: m du of that update. Run 0 needs these two. The update
before any other run needs the gradient of its logit, s, and its own e, which are again such sums:

    s = p (1 - p) dp      e = m (direct + <dS, S_k - S_{k-1}> + (p_k - p_{k-1}) dp - v dacc)

The chain over updates evaluates them: s = a + <D, E> + alpha e, e = kappa + <D, F> + lambda e. The outputs of the steps
are part of a and kappa: the sum over t of q_t <outputs from t on, c_t> is the sum over s of <output_s, A so far>.
"""

import triton
import triton.language as tl

from .arithmetic import sigmoid

LIMIT = tl.constexpr(1e30)  # of a product of M, which would overflow, and then give NaN, where a gradient explodes


@triton.jit
def _clamp(x):
    return tl.minimum(tl.maximum(x, -LIMIT), LIMIT)


@triton.jit
def _load(pointer, mask):
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float32)


@triton.jit(
    do_not_specialize=["B", "T", "output_row", "output_step", "output_unit", "update_row", "update_step"],
    do_not_specialize_on_alignment=["d_output", "d_updates", "d_p", "d_acc", "acc_before", "begin", "end"],
)
def prepare_kernel(
    states,
    record_p,
    record_acc,
    record_times,
    counts,
    begin,
    end,
    acc_before,
    candidates,
    gate_weight,
    gate_bias,
    d_output,
    output_row,
    output_step,
    output_unit,
    d_updates,
    update_row,
    update_step,
    d_p,
    d_acc,
    through_p,
    through_acc,
    scalars,
    outputs,
    B,
    T,
    SP: tl.constexpr,
    SP_PADDED: tl.constexpr,
    TOP: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    GATED: tl.constexpr,
    LEARNED: tl.constexpr,
    EVERY: tl.constexpr,
):
    """One run of one sequence.

    Args:
        candidates: of all steps, [B, T, S, P].
        gate_weight: the gate's weight where the state has what the gate reads, 0 elsewhere, [S, P].
        d_output: gradient of the outputs, [B, T, H], by strides.
        d_updates: gradient of the updates, [B, T], by strides.
        d_p: gradient of the final p, [B].
        d_acc: gradient of the final acc, [B].
    """
    program = tl.program_id(0).to(tl.int64)  # a second dimension of the grid has room for 65,535 programs alone
    row = program % B
    k = program // B
    count = tl.load(counts + row)
    if k <= count:
        place = k * B + row
        units = tl.arange(0, SP_PADDED)
        exists = units < SP
        top = (units - TOP).to(tl.int64)
        is_top = (top >= 0) & (top < H)
        row_output = d_output + row * output_row + top * output_unit
        t = tl.load(begin + row).to(tl.int32) - 1
        stop = tl.load(end + row).to(tl.int32)
        if k > 0:
            t = tl.load(record_times + place)
        if k < count:
            stop = tl.load(record_times + place + B)
        output = tl.zeros([SP_PADDED], tl.float32)
        if EVERY:
            output = _load(row_output + t.to(tl.int64) * output_step, is_top & (k > 0))
        state = _load(states + place * SP + units, exists)
        if GATED:
            weight = tl.load(gate_weight + units, mask=exists, other=0.0)
            bias = tl.load(gate_bias)
            p = tl.load(record_p + place)
            acc = tl.load(acc_before + row)
            if k > 0:
                acc = acc * 0
            a_p = tl.zeros([SP_PADDED], tl.float32)
            a_acc = tl.zeros([SP_PADDED], tl.float32)
            a = acc * 0
            kappa = acc * 0
            m_00 = acc * 0 + 1
            m_01 = acc * 0
            m_10 = acc * 0
            m_11 = acc * 0 + 1
        first = t
        t += 1
        while t < stop:
            step = t.to(tl.int64)
            if EVERY:
                d_step = _load(row_output + step * output_step, is_top)
                output += d_step
            if GATED:
                free = p <= 1 - acc
                v = acc + tl.where(free, p, 1 - acc)
                m = free.to(tl.float32)
                if LEARNED:
                    candidate = _load(candidates + (row * T + step) * SP + units, exists)
                    change = sigmoid(tl.sum(candidate * weight, 0) + bias) - p
                    direct = tl.load(d_updates + row * update_row + step * update_step)
                    q_p = m * (m_00 + m_01)
                    q_acc = m * (m_10 + m_11)
                    a_p += q_p * (candidate - state)
                    a_acc += q_acc * (candidate - state)
                    a += q_p * direct
                    kappa += q_acc * direct
                    if EVERY:
                        a += tl.sum(d_step * a_p, 0)
                        kappa += tl.sum(d_step * a_acc, 0)
                    left = m * change
                    right = m * (1 - v)
                    new_00 = m_00 + (m_00 + m_01) * left
                    new_01 = (m_00 + m_01) * right
                    new_10 = m_10 + (m_10 + m_11) * left
                    new_11 = (m_10 + m_11) * right
                else:  # [[1, m], [0, m]]
                    new_00 = m_00
                    new_01 = (m_00 + m_01) * m
                    new_10 = m_10
                    new_11 = (m_10 + m_11) * m
                m_00 = _clamp(new_00)
                m_01 = _clamp(new_01)
                m_10 = _clamp(new_10)
                m_11 = _clamp(new_11)
                acc = v
            t += 1
        if EVERY:
            tl.store(outputs + place * P + top, output, mask=is_top)
        if GATED:
            alpha = m_00 + m_01
            la = m_10 + m_11
            if k == count:  # no update follows, but the gradients of the final p and acc
                final_p = tl.load(d_p + row)
                final_acc = tl.load(d_acc + row)
                a += m_00 * final_p + m_01 * final_acc
                kappa += m_10 * final_p + m_11 * final_acc
                alpha = alpha * 0
                la = la * 0
            if k > 0:
                slope = p * (1 - p)
                if LEARNED:
                    p_before = tl.load(record_p + place - B)
                    acc = tl.load(record_acc + place)
                    free = p_before <= 1 - acc
                    v = acc + tl.where(free, p_before, 1 - acc)
                    m = free.to(tl.float32)
                    change = p - p_before
                    moved = state - _load(states + (place - B) * SP + units, exists)
                    direct = tl.load(d_updates + row * update_row + first.to(tl.int64) * update_step)
                    a_acc = m * (moved + change * a_p - v * a_acc)
                    kappa = m * (direct + tl.sum(output * moved, 0) + change * a - v * kappa)
                    la = m * (change * alpha - v * la)
                else:
                    a_acc = a_acc * 0
                    kappa = kappa * 0
                    la = la * 0
                a_p = slope * a_p
                a = slope * a
                alpha = slope * alpha
            tl.store(through_p + place * SP + units, a_p, mask=exists)
            tl.store(through_acc + place * SP + units, a_acc, mask=exists)
            tl.store(scalars + place * 4, a)
            tl.store(scalars + place * 4 + 1, alpha)
            tl.store(scalars + place * 4 + 2, kappa)
            tl.store(scalars + place * 4 + 3, la)
