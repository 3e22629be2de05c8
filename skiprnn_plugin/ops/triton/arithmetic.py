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
COLUMNS = tl.constexpr(8)  # of the weights that products in ieee take together
# In a product this stands on the right: triton 3.7's interpreter takes constexpr * tensor for a constexpr.
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def sigmoid(x):
    """As a square, because a division takes more instructions to be exact where nobody needs it."""
    return _sigmoid_exp2(x * -LOG2_E)


@triton.jit
def tanh(x):
    return 2 * sigmoid(2 * x) - 1


@triton.jit
def sigmoid_sum(x, u):
    """sigmoid(x + u), where ``u`` is a product.

    Both are scaled before they are added. Otherwise Triton would start the product from ``x``, and it would have to
    wait until ``x`` has come from memory.
    """
    return _sigmoid_exp2(x.to(tl.float32) * -LOG2_E + u * -LOG2_E)


@triton.jit
def tanh_sum(x, u):
    """tanh(x + u), where ``u`` is a product, as :func:`sigmoid_sum`."""
    return 2 * _sigmoid_exp2(x.to(tl.float32) * (-2 * LOG2_E) + u * (-2 * LOG2_E)) - 1


@triton.jit
def _sigmoid_exp2(x):
    """1 / (1 + 2^x)."""
    root = tl.math.rsqrt(1 + tl.math.exp2(x))
    return root * root


@triton.jit
def exact_sigmoid(x):
    """With a division, which is rounded correctly. For the backward pass, which multiplies by derivatives of every
    update: with :func:`sigmoid`, gradients through a hundred updates are off by up to 1e-4 of the largest one."""
    return tl.math.div_rn(1.0, 1 + tl.math.exp2(x * -LOG2_E))


@triton.jit
def exact_tanh(x):
    return 2 * exact_sigmoid(2 * x) - 1


@triton.jit
def load_weights(w, H: tl.constexpr, HP: tl.constexpr, PRECISION: tl.constexpr):
    """A gate's weights [H, H] in the shape that :func:`product` multiplies: [HP, HP], or, for ``ieee``, [HP,
    HP / COLUMNS, COLUMNS]."""
    if PRECISION == "ieee":
        units = tl.arange(0, HP)[:, None, None]
        columns = (tl.arange(0, HP // COLUMNS) * COLUMNS)[None, :, None] + tl.arange(0, COLUMNS)[None, None, :]
    else:
        units = tl.arange(0, HP)[:, None]
        columns = tl.arange(0, HP)[None, :]
    return tl.load(w + units * H + columns, mask=(units < H) & (columns < H), other=0.0)


@triton.jit
def product(w, h, PRECISION: tl.constexpr, EMULATED: tl.constexpr):
    """The weights of a gate, from :func:`load_weights`, times h [HP, R], summed in float32, [HP, R].

    ``PRECISION`` is ``ieee``, ``tf32``, or ``half`` for the dtype of ``w``. ``ieee`` is for R = 1: a thread has a few
    columns of some units, sums what it has, and adds up with the few threads that have the units' other columns.
    """
    if PRECISION == "ieee":
        # The sum over an axis of size 1 changes nothing, but lets Triton choose a layout for h apart from that of w.
        # Otherwise it may spread w over the threads as it does h, and most of w goes to memory and back in every turn.
        columns = tl.reshape(tl.cumsum(h, 1), (1, w.shape[1], w.shape[2]))
        return tl.sum(tl.sum(w * columns, 1), 1)[:, None]
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
def look_ahead(schedule, noise, place, t, end, SCHEDULED: tl.constexpr, NOISY: tl.constexpr):
    """The schedule, or the noise, of the steps that :func:`search` will look at, [R] each; nothing without either.

    Called early, so that nothing waits for memory when p is known. Unmasked, from a step that exists.

    Args:
        place: where the schedule and the noise of step 0 are, int64 [R].
        t: the next step, int32 [R].
        end: the step after the last real one, int32 [R].
    """
    place = tl.where(end > 0, place, 0)
    given = ()
    for i in tl.static_range(SEARCHED):
        at = place + tl.maximum(tl.minimum(t + i, end - 1), 0)
        if SCHEDULED:
            given = given + (tl.load(schedule + at),)
        elif NOISY:
            given = given + (tl.load(noise + at),)
    return given


@triton.jit
def search(p, acc, t, end, waits, given, threshold, SCHEDULED: tl.constexpr, NOISY: tl.constexpr):
    """Look for an update in the next few steps from ``t`` on, where a row does not wait.

    With the specification's bits, v + min(p, 1 - v) = min(v + p, 1) for every v from 0 to 1; a NaN p also gives 1.

    Args:
        p: update probability, [R].
        acc: what the skipped steps have added up to, [R].
        t: the next step, int32 [R].
        end: the step after the last real one, int32 [R].
        waits: rows that search nothing, [R].
        given: from :func:`look_ahead`.

    Returns:
        ``t`` and ``acc`` before the step that updates, or before the next one to search; and whether ``t`` updates.
    """
    start = t
    v = acc
    searching = waits == 0
    found = waits != waits
    for i in tl.static_range(SEARCHED):
        v = tl.where(v + p < 1, v + p, 1.0)
        searching = searching & (start + i < end)
        if SCHEDULED:
            update = given[i] != 0
        elif NOISY:
            update = v > given[i]
        else:
            update = v > threshold
        found = found | (searching & update)
        searching = searching & (update == 0)
        acc = tl.where(searching, v, acc)
        t = tl.where(searching, t + 1, t)
    return t, acc, found
