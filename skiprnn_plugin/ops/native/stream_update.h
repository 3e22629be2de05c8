/* The part of a stream that computes: its stack, and the update of some rows. */
#ifndef SKIPRNN_STREAM_UPDATE_H
#define SKIPRNN_STREAM_UPDATE_H

#include "stack.h"
#include "stream.h"

namespace {

inline int64_t lay_out_stream(const skiprnn_stream_options *options, void *block) {
    const skiprnn_shape &shape = options->shape;
    const int64_t rows = options->rows, layers = shape.layers, states = layers * rows * padded(shape.hidden),
                  slots = rows < STREAM_SLOTS ? rows : STREAM_SLOTS;
    const bool has_c = CELLS[shape.cell].has_c;
    Memory memory((char *)block);
    skiprnn_stream *stream = memory.take_of<skiprnn_stream>(1);
    float *gate_bias = memory.take(1);
    int64_t *gate_layers = memory.take_of<int64_t>(options->gate_count);
    void *stack = memory.take_of<Stack>(1);
    if (memory.failed) return 0;
    skiprnn_stream &s = *stream;
    s.rows = rows;
    s.slots = slots;
    s.min_skip = options->min_skip;
    s.max_skip = options->max_skip;
    s.time = memory.take_of<int64_t>(rows);
    s.wanted = memory.take_of<int64_t>(rows);
    s.since = memory.take_of<int64_t>(rows);
    s.seen = memory.take_of<int64_t>(rows);
    s.seeds = options->seeds ? memory.take_of<int64_t>(rows) : nullptr;
    s.taken = memory.take_of<int64_t>(slots);
    s.places = memory.take_of<Place>(slots);
    s.p = memory.take(rows);
    s.acc = memory.take(rows);
    s.new_p = memory.take(slots);
    s.h = memory.take(states);
    s.c = has_c ? memory.take(states) : nullptr;
    s.slot_h = memory.take_of<float *>(layers);
    s.slot_c = memory.take_of<float *>(layers);
    if (memory.failed) return 0;
    memcpy(gate_layers, options->gate_layers, options->gate_count * sizeof(int64_t));
    if (options->gate_count > 0) *gate_bias = *options->gate_bias;
    if (s.seeds) memcpy(s.seeds, options->seeds, rows * sizeof(int64_t));
    s.problem.shape = shape;
    s.problem.batch = rows;
    s.problem.packed = options->packed;
    s.problem.gate_weight = options->gate_weight;
    s.problem.gate_bias = gate_bias;
    s.problem.gate_count = options->gate_count;
    s.problem.gate_layers = gate_layers;
    s.problem.threshold = options->threshold;
    Stack &laid =
        *new (stack) Stack(s.problem, {1, nullptr}, nullptr, slots, 0, block ? (char *)block + memory.used : nullptr);
    s.problem.gate_weight = nullptr;  // the stack has a copy
    s.stack = stack;
    const int64_t used = laid.memory.failed ? 0 : memory.used + laid.memory.used;
    for (int64_t l = 0; l < layers && used > 0; l++) {
        s.slot_h[l] = laid.layers[l].h;
        s.slot_c[l] = laid.layers[l].c;
    }
    if (!block) laid.~Stack();
    return used;
}

/* Copies rows between a layer's states and the slots. */
template <bool TO_SLOTS>
void copy_rows(const int64_t *rows, int64_t count, int64_t width, float *states, float *slots) {
    for (int64_t i = 0; i < count; i++)
        if (TO_SLOTS)
            memcpy(slots + i * width, states + rows[i] * width, width * sizeof(float));
        else
            memcpy(states + rows[i] * width, slots + i * width, width * sizeof(float));
}

template <int CELL>
void update_stream(skiprnn_stream &s, const int64_t *rows, int64_t count) {
    Stack &stack = *(Stack *)s.stack;
    const int64_t layers = s.problem.shape.layers, width = stack.width, size = s.rows * width;
    bool adjacent = true;  // then the states can be used where they are
    for (int64_t i = 1; i < count; i++) adjacent &= rows[i] == rows[0] + i;
    for (int64_t l = 0; l < layers; l++) {
        Layer &layer = stack.layers[l];
        float *h = s.h + l * size, *c = s.c ? s.c + l * size : nullptr;
        layer.h = layer.new_h = adjacent ? h + rows[0] * width : s.slot_h[l];
        if (c) layer.c = layer.new_c = adjacent ? c + rows[0] * width : s.slot_c[l];
        if (adjacent) continue;
        copy_rows<true>(rows, count, width, h, layer.h);
        if (c) copy_rows<true>(rows, count, width, c, layer.c);
    }
    stack.candidates<CELL, false>(0, count, s.places);
    if (s.problem.gate_count > 0) stack.probabilities(0, count, s.new_p);
    for (int64_t l = 0; l < layers && !adjacent; l++) {
        copy_rows<false>(rows, count, width, s.h + l * size, s.slot_h[l]);
        if (s.c) copy_rows<false>(rows, count, width, s.c + l * size, s.slot_c[l]);
    }
}

}  // namespace

#endif
