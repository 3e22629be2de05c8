/* The elementwise parts of the cells, for one row of H units and its padding: the mathematics of cells.py.
 *
 * The weights of padding are zero, but zero times a value that is not finite is NaN. So the sums of padding are
 * replaced by 0. */
#ifndef SKIPRNN_CELLS_H
#define SKIPRNN_CELLS_H

#include "layout.h"
#include "vector.h"

namespace {

/* Computes the new state. `sums` are the cell's blocks with W x + b. `u` is U h of the first hh_first gates, or NULL if
 * the blocks contain it already. With KEEP, what `differentiate` needs replaces the blocks. new_h may be equal to h,
 * and new_c to c. */
template <int CELL, bool KEEP>
void combine(int64_t hidden, float *sums, const float *u, const float *h, const float *c, float *new_h, float *new_c) {
    const int64_t width = padded(hidden);
    const auto sum = [&](int block, int64_t at) SKIPRNN_INLINED {
        V value = load(sums + block * width + at);
        const int from = block - CELLS[CELL].hh_at;
        if (u && from >= 0 && from < CELLS[CELL].hh_first) value = value + load(u + from * width + at);
        return first_lanes(value, hidden - at);
    };
    const auto keep = [&](int block, int64_t at, V value) SKIPRNN_INLINED {
        if (KEEP) store(sums + block * width + at, value);
    };
    for (int64_t at = 0; at < width; at += LANES) {
        if constexpr (CELL == SKIPRNN_LSTM) {
            const V i = sigmoid(sum(0, at)), f = sigmoid(sum(1, at)), g = tanh(sum(2, at)), o = sigmoid(sum(3, at));
            const V cell = multiply_add(i, g, f * load(c + at)), tanh_c = tanh(cell);
            store(new_c + at, cell);
            store(new_h + at, o * tanh_c);
            keep(0, at, i);
            keep(1, at, f);
            keep(2, at, g);
            keep(3, at, o);
            keep(4, at, tanh_c);
        } else if constexpr (CELL == SKIPRNN_GRU) {
            const V r = sigmoid(sum(1, at)), z = sigmoid(sum(2, at)), recurrent = sum(3, at);
            const V n = tanh(multiply_add(r, recurrent, sum(0, at)));
            store(new_h + at, multiply_add(z, load(h + at) - n, n));
            keep(0, at, n);
            keep(1, at, r);
            keep(2, at, z);
            keep(3, at, recurrent);
        } else if constexpr (CELL == SKIPRNN_GRU_RESET_BEFORE) {  // `reset` has computed r and z
            const V z = load(sums + width + at), n = tanh(sum(2, at));
            store(new_h + at, multiply_add(z, load(h + at) - n, n));
            keep(2, at, n);
        } else {
            const V value = tanh(sum(0, at));
            store(new_h + at, value);
            keep(0, at, value);
        }
    }
}

/* For a GRU that resets before the product: replaces the sums of r and z by r and z, and computes r h. */
inline void reset(int64_t hidden, float *sums, const float *u, const float *h, float *reset_h) {
    const int64_t width = padded(hidden);
    for (int64_t at = 0; at < width; at += LANES) {
        V r = load(sums + at), z = load(sums + width + at);
        if (u) {
            r = r + load(u + at);
            z = z + load(u + width + at);
        }
        r = sigmoid(first_lanes(r, hidden - at));
        store(sums + at, r);
        store(sums + width + at, sigmoid(first_lanes(z, hidden - at)));
        store(reset_h + at, r * load(h + at));
    }
}

/* Computes the gradients of the sums, which replace `kept`, from those of the new state, `dh` and `dc`. These become
 * the gradients of the old state, without the part that comes through U h (and through r, for a GRU that resets before
 * the product: see `differentiate_reset`). */
template <int CELL>
void differentiate(int64_t width, float *kept, const float *h, const float *c, float *dh, float *dc) {
    const V one = fill(1);
    const auto block = [&](int index, int64_t at) { return kept + index * width + at; };
    for (int64_t at = 0; at < width; at += LANES) {
        const V d = load(dh + at);
        if constexpr (CELL == SKIPRNN_LSTM) {
            const V i = load(block(0, at)), f = load(block(1, at)), g = load(block(2, at)), o = load(block(3, at));
            const V tanh_c = load(block(4, at));
            const V d_cell = multiply_add(d * o, one - tanh_c * tanh_c, load(dc + at));
            store(block(0, at), d_cell * g * i * (one - i));
            store(block(1, at), d_cell * load(c + at) * f * (one - f));
            store(block(2, at), d_cell * i * (one - g * g));
            store(block(3, at), d * tanh_c * o * (one - o));
            store(dc + at, d_cell * f);
            store(dh + at, fill(0));
        } else if constexpr (CELL == SKIPRNN_GRU || CELL == SKIPRNN_GRU_RESET_BEFORE) {
            constexpr bool AFTER = CELL == SKIPRNN_GRU;
            const V n = load(block(AFTER ? 0 : 2, at)), r = load(block(AFTER ? 1 : 0, at)),
                    z = load(block(AFTER ? 2 : 1, at));
            const V dn = d * (one - z) * (one - n * n);
            store(block(AFTER ? 2 : 1, at), d * (load(h + at) - n) * z * (one - z));
            store(block(AFTER ? 0 : 2, at), dn);
            if constexpr (AFTER) {
                store(block(1, at), dn * load(block(3, at)) * r * (one - r));
                store(block(3, at), dn * r);
            }
            store(dh + at, d * z);
        } else {
            const V value = load(block(0, at));
            store(block(0, at), d * (one - value * value));
            store(dh + at, fill(0));
        }
    }
}

/* For a GRU that resets before the product: `d_reset` is the gradient of r h. The gradient of r's sum replaces r in
 * block 0, and the part of h is added to `dh`. */
inline void differentiate_reset(int64_t width, float *kept, const float *d_reset, const float *h, float *dh) {
    for (int64_t at = 0; at < width; at += LANES) {
        const V r = load(kept + at), d = load(d_reset + at);
        store(kept + at, d * load(h + at) * r * (fill(1) - r));
        store(dh + at, multiply_add(d, r, load(dh + at)));
    }
}

/* The sum of a (b - c). */
inline float dot_difference(int64_t width, const float *a, const float *b, const float *c) {
    V sum = fill(0);
    for (int64_t at = 0; at < width; at += LANES) sum = multiply_add(load(a + at), load(b + at) - load(c + at), sum);
    return total(sum);
}

SKIPRNN_INLINE V dot(int64_t width, const float *a, const float *b, V sum) {
    for (int64_t at = 0; at < width; at += LANES) sum = multiply_add(load(a + at), load(b + at), sum);
    return sum;
}

/* y += factor x */
inline void add_scaled(int64_t width, float factor, const float *x, float *y) {
    for (int64_t at = 0; at < width; at += LANES) store(y + at, multiply_add(fill(factor), load(x + at), load(y + at)));
}

/* z = x y */
inline void multiply_values(int64_t width, const float *x, const float *y, float *z) {
    for (int64_t at = 0; at < width; at += LANES) store(z + at, load(x + at) * load(y + at));
}

/* y += x, for any number of values */
inline void add(int64_t size, const float *x, float *y) {
    for (int64_t i = 0; i < size; i++) y[i] += x[i];
}

}  // namespace

#endif
