"""What the kernels share: the cells' functions, products, and the gate's search for the next update.

Tiles are units x rows: [HP, R], where HP is the number of units padded to a power of two, and R the number of sequences
that a program works through.
"""

import triton
import triton.language as tl

LSTM = tl.constexpr(0)
GRU = tl.constexpr(1)
GRU_RESET_BEFORE = tl.constexpr(2)
RNN = tl.constexpr(3)
SEARCHED = tl.constexpr(8)  # steps that one iteration searches for an update; a sequence that finds none waits
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def sigmoid(x):
    """As a square, because a division takes more instructions to be exact where nobody needs it."""
    root = tl.math.rsqrt(1 + tl.math.exp2(-LOG2_E * x))
    return root * root


@triton.jit
def tanh(x):
    return 2 * sigmoid(2 * x) - 1


@triton.jit
def product(w, h, PRECISION: tl.constexpr, EMULATED: tl.constexpr):
    """w [N, K] times h [K, R], summed in float32, [N, R].

    ``PRECISION`` is ``ieee``, ``tf32``, or ``half`` for the dtype of ``w``. ``ieee`` is for R = 1.
    """
    if PRECISION == "ieee":
        return tl.sum(w * tl.trans(h), 1, keep_dims=True)
    elif PRECISION == "tf32":
        return tl.dot(w, h, input_precision="tf32")
    elif EMULATED:  # the interpreter has no products of bfloat16; float32 holds the same factors
        return tl.dot(w.to(tl.float32), h.to(w.dtype).to(tl.float32), input_precision="ieee")
    else:
        return tl.dot(w, h.to(w.dtype))


@triton.jit
def round_to(x, like):
    """``x`` as the dtype of the pointer ``like`` holds it, in float32."""
    return x.to(like.dtype.element_ty).to(tl.float32)


@triton.jit
def search(p, acc, t, end, waits, schedule, noise, threshold, place, SCHEDULED: tl.constexpr, NOISY: tl.constexpr):
    """Look for an update in the next few steps from ``t`` on, where a row does not wait.

    Args:
        p: update probability, [R].
        acc: what the skipped steps have added up to, [R].
        t: the next step, int32 [R].
        end: the step after the last real one, int32 [R].
        waits: rows that search nothing, [R].
        place: where the schedule and the noise of step 0 are, int64 [R].

    Returns:
        ``t`` and ``acc`` before the step that updates, or before the next one to search; and whether ``t`` updates.
    """
    found = waits
    start = t
    for i in tl.static_range(SEARCHED):
        searching = (t < end) & (found == 0)
        v = acc + tl.where(p <= 1 - acc, p, 1 - acc)
        if SCHEDULED:
            update = tl.load(schedule + place + start + i, mask=start + i < end, other=0) != 0
        elif NOISY:
            update = v > tl.load(noise + place + start + i, mask=start + i < end, other=0.0)
        else:
            update = v > threshold
        found = found | (searching & update)
        skips = searching & (update == 0)
        acc = tl.where(skips, v, acc)
        t = tl.where(skips, t + 1, t)
    return t, acc, found & (waits == 0)
