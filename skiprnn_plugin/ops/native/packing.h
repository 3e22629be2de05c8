/* Weights from torch's layout to the kernels', and gradients back; each function does the portion of one thread. */
#ifndef SKIPRNN_PACKING_H
#define SKIPRNN_PACKING_H

#include <algorithm>
#include <cstring>

#include "layout.h"

namespace {

/* to[k][16 s + lane] = from[16 s + lane][k], in strips; `from` [rows, depth] by rows, the columns of `to` padded with
 * 0. */
void pack_columns(Portion mine, const float *from, int64_t rows, int64_t depth, float *to) {
    const int64_t strips = strips_of(rows);
    for (int64_t strip = mine.begin(strips); strip < mine.end(strips); strip++)
        for (int64_t first = 0; first < depth; first += STRIP) {  // in squares, which fit the nearest cache
            const int64_t last = std::min(first + STRIP, depth);
            for (int64_t lane = 0; lane < STRIP; lane++) {
                const bool there = strip * STRIP + lane < rows;
                const float *row = from + (strip * STRIP + lane) * depth;
                for (int64_t k = first; k < last; k++) to[(strip * depth + k) * STRIP + lane] = there ? row[k] : 0;
            }
        }
}

/* The same of `from`'s columns, of whose rows this is one gate's: k from `first` on of `depth`, padded with 0. */
void pack_rows(Portion mine, const float *from, int64_t rows, int64_t columns, int64_t first, int64_t depth,
               float *to) {
    const int64_t strips = strips_of(columns);
    for (int64_t strip = mine.begin(strips); strip < mine.end(strips); strip++) {
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

void pack_layer(Portion mine, const skiprnn_shape &shape, int64_t layer, const float *const *weights, float *packed) {
    const CellLayout &cell = CELLS[shape.cell];
    const Packed at = packed_layer(shape, layer);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer);
    for (int64_t block = 0; block < cell.sums; block++)
        std::fill_n(packed + at.bias + block * width + mine.begin(width), mine.end(width) - mine.begin(width), 0.0f);
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g], hh = cell.hh_order[g];
        pack_columns(mine, weights[0] + ih * hidden * input, hidden, input, packed + at.ih + g * width * input);
        pack_columns(mine, weights[1] + hh * hidden * hidden, hidden, hidden, packed + at.hh + g * width * hidden);
        for (int64_t k = mine.begin(width); k < std::min(mine.end(width), hidden); k++) {
            packed[at.bias + g * width + k] += weights[2][ih * hidden + k];
            packed[at.bias + (cell.hh_at + g) * width + k] += weights[3][hh * hidden + k];
        }
    }
}

void pack_transposed_layer(Portion mine, const skiprnn_shape &shape, int64_t layer, bool for_x,
                           const float *const *weights, float *packed) {
    const CellLayout &cell = CELLS[shape.cell];
    const Packed at = transposed_layer(shape, layer, for_x);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer),
                  depth = cell.gates * width;
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g], hh = cell.hh_order[g];
        if (at.size > at.ih)
            pack_rows(mine, weights[0] + ih * hidden * input, hidden, input, g * width, depth, packed + at.ih);
        pack_rows(mine, weights[1] + hh * hidden * hidden, hidden, hidden, g * width, depth, packed + at.hh);
    }
}

/* The weights that packing reads, in their order, and how many floats each has. */
template <class Function>
void each_weight(const skiprnn_shape &shape, int64_t purpose, Function function) {
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

/* Brings the copy of what `each_weight` names up to date, and says whether it was not; without `known` there is none
 * yet. */
bool update_copy(Portion mine, const skiprnn_shape &shape, int64_t purpose, const float *const *weights, float *copy,
                 bool known) {
    bool changed = !known;
    each_weight(shape, purpose, [&](int64_t index, int64_t count) {
        const int64_t first = mine.begin(count), size = (mine.end(count) - first) * (int64_t)sizeof(float);
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
    each_weight(shape, purpose, [&](int64_t index, int64_t count) {
        same = same && std::memcmp(copy, weights[index], count * sizeof(float)) == 0;
        copy += count;
    });
    return same;
}

void pack_layers(Portion mine, const skiprnn_shape &shape, int64_t purpose, const float *const *weights,
                 float *packed) {
    for (int64_t l = 0; l < shape.layers; l++) {
        if (purpose == SKIPRNN_FORWARD)
            pack_layer(mine, shape, l, weights + 4 * l, packed);
        else
            pack_transposed_layer(mine, shape, l, purpose == SKIPRNN_BACKWARD_TO_X, weights + 4 * l, packed);
        packed += layer_size(shape, l, purpose);
    }
}

/* From blocks of padded(H) to torch's gradients of one layer. */
void give_layer(Portion mine, const skiprnn_shape &shape, int64_t layer, const float *totals, float *const *weights) {
    const CellLayout &cell = CELLS[shape.cell];
    const Totals at = totals_layer(shape, layer);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer),
                  first = mine.begin(hidden), last = mine.end(hidden);
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g] * hidden, hh = cell.hh_order[g] * hidden;
        const float *rows = totals + at.hh + g * width * width;
        for (int64_t k = first; k < last; k++)
            std::memcpy(weights[1] + (hh + k) * hidden, rows + k * width, hidden * sizeof(float));
        for (int64_t k = first; k < last; k++) {
            weights[2][ih + k] = totals[at.bias + g * width + k];
            weights[3][hh + k] = totals[at.bias + (cell.hh_at + g) * width + k];
        }
        if (layer > 0 || is_wide(shape)) {
            rows = totals + at.ih + g * width * padded(input);
            for (int64_t k = first; k < last; k++)
                std::memcpy(weights[0] + (ih + k) * input, rows + k * padded(input), input * sizeof(float));
        } else {
            rows = totals + at.ih + g * width;
            for (int64_t k = first; k < last; k++)
                for (int64_t d = 0; d < input; d++) weights[0][(ih + k) * input + d] = rows[d * cell.gates * width + k];
        }
    }
}

void give_layers(Portion mine, const skiprnn_shape &shape, const float *totals, float *const *weights) {
    for (int64_t l = 0; l < shape.layers; l++) {
        give_layer(mine, shape, l, totals, weights + 4 * l);
        totals += totals_layer(shape, l).size;
    }
}

}  // namespace

#endif
