/* Copies weights from torch's layout to the kernels', and gradients back. A function with a `portion` does one thread's
 * share of the work. */
#ifndef SKIPRNN_PACKING_H
#define SKIPRNN_PACKING_H

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "layout.h"

namespace {

/* to[k][16 s + lane] = from[16 s + lane][k], where `from` is [rows, depth] by rows, and `to` is stored in strips whose
 * columns are padded with zeros. */
void pack_columns(Portion portion, const float *from, int64_t rows, int64_t depth, float *to) {
    const int64_t strips = strips_of(rows);
    for (int64_t strip = portion.begin(strips); strip < portion.end(strips); strip++)
        for (int64_t first = 0; first < depth; first += STRIP) {  // in squares, which fit into the nearest cache
            const int64_t last = std::min(first + STRIP, depth);
            for (int64_t lane = 0; lane < STRIP; lane++) {
                const bool exists = strip * STRIP + lane < rows;
                const float *row = from + (strip * STRIP + lane) * depth;
                for (int64_t k = first; k < last; k++) to[(strip * depth + k) * STRIP + lane] = exists ? row[k] : 0;
            }
        }
}

/* Rounds the rows of a recurrent matrix, `from` [size, size], to 8-bit integers with a scale each: row n is about
 * scale[n] times its integers. Both are padded with zeros. */
void pack_int8(Portion portion, const float *from, int64_t size, int8_t *to, float *scale) {
    const int64_t pairs = pairs_of(size);
    for (int64_t n = portion.begin(strips_of(size)) * STRIP; n < portion.end(strips_of(size)) * STRIP; n++) {
        const float *row = from + n * size;
        float largest = 0;
        bool finite = true;
        for (int64_t k = 0; k < size && n < size; k++) {
            finite = finite && std::isfinite(row[k]);
            largest = std::max(largest, std::fabs(row[k]));
        }
        const float step = largest / 127;
        const bool rounds = finite && step >= FLT_MIN;
        scale[n] = rounds ? step : finite ? 0 : NAN;
        int8_t *lane = to + (n / STRIP * pairs * STRIP + n % STRIP) * 2;
        for (int64_t k = 0; k < 2 * pairs; k++)
            lane[k / 2 * STRIP * 2 + k % 2] = rounds && k < size ? (int8_t)std::lrint(row[k] / step) : 0;
    }
}

/* to[first + k][16 s + lane] = from[k][16 s + lane], where `from` [rows, columns] is one gate's part of a matrix. `to`
 * is stored in strips of `depth` rows, and is padded with zeros. */
void pack_rows(Portion portion, const float *from, int64_t rows, int64_t columns, int64_t first, int64_t depth,
               float *to) {
    const int64_t strips = strips_of(columns);
    for (int64_t strip = portion.begin(strips); strip < portion.end(strips); strip++) {
        const int64_t count = std::min(STRIP, columns - strip * STRIP);
        for (int64_t k = 0; k < padded(rows); k++) {
            float *lanes = to + (strip * depth + first + k) * STRIP;
            const float *values = from + k * columns + strip * STRIP;
            if (k < rows && count == STRIP)
                std::memcpy(lanes, values, sizeof(float) * STRIP);
            else
                for (int64_t lane = 0; lane < STRIP; lane++) lanes[lane] = k < rows && lane < count ? values[lane] : 0;
        }
    }
}

void pack_layer(Portion portion, const skiprnn_shape &shape, int64_t layer, const float *const *weights,
                float *packed) {
    const CellLayout &cell = CELLS[shape.cell];
    const PackedOffsets offsets = packed_layer(shape, layer);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer);
    for (int64_t block = 0; block < cell.sums; block++)
        std::fill_n(packed + offsets.bias + block * width + portion.begin(width),
                    portion.end(width) - portion.begin(width), 0.0f);
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g], hh = cell.hh_order[g];
        pack_columns(portion, weights[0] + ih * hidden * input, hidden, input, packed + offsets.ih + g * width * input);
        const float *recurrent = weights[1] + hh * hidden * hidden;
        if (shape.weights == SKIPRNN_INT8)
            pack_int8(portion, recurrent, hidden, (int8_t *)(packed + offsets.hh) + g * width * pairs_of(hidden) * 2,
                      packed + offsets.scale + g * width);
        else
            pack_columns(portion, recurrent, hidden, hidden, packed + offsets.hh + g * width * hidden);
        for (int64_t k = portion.begin(width); k < std::min(portion.end(width), hidden); k++) {
            packed[offsets.bias + g * width + k] += weights[2][ih * hidden + k];
            packed[offsets.bias + (cell.hh_at + g) * width + k] += weights[3][hh * hidden + k];
        }
    }
}

void pack_transposed_layer(Portion portion, const skiprnn_shape &shape, int64_t layer, bool for_x,
                           const float *const *weights, float *packed) {
    const CellLayout &cell = CELLS[shape.cell];
    const PackedOffsets offsets = transposed_layer(shape, layer, for_x);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer),
                  depth = cell.gates * width;
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g], hh = cell.hh_order[g];
        if (offsets.size > offsets.ih)
            pack_rows(portion, weights[0] + ih * hidden * input, hidden, input, g * width, depth, packed + offsets.ih);
        pack_rows(portion, weights[1] + hh * hidden * hidden, hidden, hidden, g * width, depth, packed + offsets.hh);
    }
}

/* The weights that packing reads, in their order, and how many floats each has. */
template <class Function>
void for_each_weight(const skiprnn_shape &shape, int64_t purpose, Function function) {
    const int64_t rows = CELLS[shape.cell].gates * shape.hidden;
    for (int64_t l = 0; l < shape.layers; l++) {
        if (l > 0 || purpose != SKIPRNN_BACKWARD) function(4 * l, rows * inputs_of(shape, l));
        function(4 * l + 1, rows * shape.hidden);
        if (purpose != SKIPRNN_FORWARD) continue;
        function(4 * l + 2, rows);
        function(4 * l + 3, rows);
    }
}

int64_t layer_size(const skiprnn_shape &shape, int64_t layer, int64_t purpose) {
    if (purpose == SKIPRNN_FORWARD) return packed_layer(shape, layer).size;
    return transposed_layer(shape, layer, purpose == SKIPRNN_BACKWARD_TO_X).size;
}

int64_t layers_size(const skiprnn_shape &shape, int64_t purpose) {
    int64_t size = 0;
    for (int64_t l = 0; l < shape.layers; l++) size += layer_size(shape, l, purpose);
    return size;
}

/* Updates the copy of the weights that `for_each_weight` goes through. Returns whether the copy differed from them;
 * without `known` there is no copy yet. */
bool update_copy(Portion portion, const skiprnn_shape &shape, int64_t purpose, const float *const *weights, float *copy,
                 bool known) {
    bool changed = !known;
    for_each_weight(shape, purpose, [&](int64_t index, int64_t count) {
        const int64_t first = portion.begin(count), size = (portion.end(count) - first) * (int64_t)sizeof(float);
        if (!known || std::memcmp(copy + first, weights[index] + first, size) != 0) {
            std::memcpy(copy + first, weights[index] + first, size);
            changed = true;
        }
        copy += count;
    });
    return changed;
}

bool is_copy(const skiprnn_shape &shape, int64_t purpose, const float *const *weights, const float *copy) {
    bool same = true;
    for_each_weight(shape, purpose, [&](int64_t index, int64_t count) {
        same = same && std::memcmp(copy, weights[index], count * sizeof(float)) == 0;
        copy += count;
    });
    return same;
}

void pack_layers(Portion portion, const skiprnn_shape &shape, int64_t purpose, const float *const *weights,
                 float *packed) {
    for (int64_t l = 0; l < shape.layers; l++) {
        if (purpose == SKIPRNN_FORWARD)
            pack_layer(portion, shape, l, weights + 4 * l, packed);
        else
            pack_transposed_layer(portion, shape, l, purpose == SKIPRNN_BACKWARD_TO_X, weights + 4 * l, packed);
        packed += layer_size(shape, l, purpose);
    }
}

/* Copies the gradients of one layer's weights from blocks of padded(H) to torch's layout. */
void unpack_layer(Portion portion, const skiprnn_shape &shape, int64_t layer, const float *totals,
                  float *const *weights) {
    const CellLayout &cell = CELLS[shape.cell];
    const Totals offsets = totals_layer(shape, layer);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer),
                  first = portion.begin(hidden), last = portion.end(hidden);
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g] * hidden, hh = cell.hh_order[g] * hidden;
        const float *rows = totals + offsets.hh + g * width * width;
        for (int64_t k = first; k < last; k++)
            std::memcpy(weights[1] + (hh + k) * hidden, rows + k * width, hidden * sizeof(float));
        for (int64_t k = first; k < last; k++) {
            weights[2][ih + k] = totals[offsets.bias + g * width + k];
            weights[3][hh + k] = totals[offsets.bias + (cell.hh_at + g) * width + k];
        }
        if (layer > 0 || is_wide(shape)) {
            rows = totals + offsets.ih + g * width * padded(input);
            for (int64_t k = first; k < last; k++)
                std::memcpy(weights[0] + (ih + k) * input, rows + k * padded(input), input * sizeof(float));
        } else {
            rows = totals + offsets.ih + g * width;
            for (int64_t k = first; k < last; k++)
                for (int64_t d = 0; d < input; d++) weights[0][(ih + k) * input + d] = rows[d * cell.gates * width + k];
        }
    }
}

void unpack_layers(Portion portion, const skiprnn_shape &shape, const float *totals, float *const *weights) {
    for (int64_t l = 0; l < shape.layers; l++) {
        unpack_layer(portion, shape, l, totals, weights + 4 * l);
        totals += totals_layer(shape, l).size;
    }
}

}  // namespace

#endif
