/* The stack of layers: computes candidate states of several sequences, each at a step of its own, and the gate. */
#ifndef SKIPRNN_STACK_H
#define SKIPRNN_STACK_H

#include <stdlib.h>

#include "cells.h"
#include "clock.h"
#include "product_int8.h"

namespace {

/* The memory of one thread during one scan, or of a stream: filled with zeros, 64-byte aligned, and freed all at once;
 * or taken from a block of the caller's, which is 64-byte aligned and large enough. */
class Memory {
public:
    bool failed = false;
    int64_t used = 0; /* bytes of a block that has all that was taken */

    explicit Memory(char *block = nullptr) : block(block) {}
    Memory(const Memory &) = delete;

    float *take(int64_t floats) { return (float *)bytes(floats * (int64_t)sizeof(float)); }

    template <class T>
    T *take_of(int64_t count) {
        return (T *)bytes(count * (int64_t)sizeof(T));
    }

    ~Memory() {
        while (last) {
            void *before = *(void **)last;
            free(last);
            last = before;
        }
    }

private:
    char *const block;
    void *last = nullptr;

    void *bytes(int64_t size) {
        const int64_t header = 64;  // holds the address of the previous block
        size = (size + header - 1) / header * header;
        used += size;
        if (block) return memset(block + used - size, 0, (size_t)size);
        size += header;
        void *block = nullptr;
        if (posix_memalign(&block, header, (size_t)size) != 0) {
            failed = true;
            return nullptr;
        }
        memset(block, 0, (size_t)size);
        *(void **)block = last;
        last = block;
        return (char *)block + header;
    }
};

/* One layer: its packed weights, and arrays with one row for each state that is held, or for each place, which is where
 * a candidate is computed (see Place). */
struct Layer {
    const float *bias, *ih, *hh;
    int64_t input, ih_strip, hh_strip;
    const int8_t *hh_int8; /* with SKIPRNN_INT8, in place of `hh` */
    const float *hh_scale;
    float *h, *c; /* the states that are held, by state, [width]; c NULL without cell state */
    float *u;     /* U h of the states, by state, [hh_first][width]; NULL if U h is added to the sums directly */
    float *new_h, *new_c; /* candidates, by place, [width]; equal to h and c if candidates overwrite the states */
    float *kept;          /* the sums, which `combine` replaces by what the backward needs, by place, [kept][width] */
    float *read;    /* the layer's input if it is the masked candidate of the layer below, by place, [width]; or NULL */
    float *reset_h; /* r h, by place, [width]; NULL unless the cell needs it */
};

struct Stack {
    const skiprnn_problem &problem;
    const Team team;
    const CellLayout &cell;
    const int64_t hidden, width, strips, states, places, kept_row, u_row;
    Layer *layers;
    float *x;                      /* inputs of the lowest layer, by place [places][D] */
    const float *projected;        /* W x + b of all steps [B, T, gates * width], or NULL */
    const float **ready = nullptr; /* W x + b, by place, or NULL; if `projected` is NULL too, it is computed here */
    float *gate_weight;            /* [gate_count][width] */
    float *logits;                 /* [padded(places)] */
    int16_t *rounded = nullptr;    /* with SKIPRNN_INT8: rounded states, by place [places][width] */
    float *units = nullptr;        /* and their units [places] */
    Memory memory;

    static void *operator new(size_t, void *at) { return at; }  // <new> belongs to the C++ library
    static void operator delete(void *, void *) {}

    /* For `states` states at a time and `separate_places` places. If `separate_places` is 0, place i belongs to state
     * i, and candidates overwrite the states that they start from. Memory comes from `block` if it is given. */
    Stack(const skiprnn_problem &p, const Team &team, const float *projected, int64_t states, int64_t separate_places,
          char *block = nullptr)
        : problem(p), team(team), cell(CELLS[p.shape.cell]), hidden(p.shape.hidden), width(padded(hidden)),
          strips(strips_of(hidden)), states(states), places(separate_places ? separate_places : states),
          kept_row(cell.kept * width), u_row(cell.hh_first * width), projected(projected), memory(block) {
        layers = memory.take_of<Layer>(p.shape.layers);
        x = memory.take(places * p.shape.input);
        gate_weight = memory.take(p.gate_count * width);
        logits = memory.take(padded(places));
        if (p.shape.weights == SKIPRNN_INT8) {
            rounded = memory.take_of<int16_t>(places * width);
            units = memory.take(places);
        }
        if (memory.failed) return;
        const float *packed = p.packed;
        for (int64_t l = 0; l < p.shape.layers; l++) {
            Layer &layer = layers[l];
            const PackedOffsets offsets = packed_layer(p.shape, l);
            layer.bias = packed + offsets.bias;
            layer.ih = packed + offsets.ih;
            layer.hh = packed + offsets.hh;
            layer.hh_int8 = (const int8_t *)layer.hh;
            layer.hh_scale = packed + offsets.scale;
            packed += offsets.size;
            layer.input = inputs_of(p.shape, l);
            layer.ih_strip = layer.input * STRIP;
            layer.hh_strip = hidden * STRIP;
            layer.h = layer.new_h = memory.take(states * width);
            layer.c = layer.new_c = cell.has_c ? memory.take(states * width) : nullptr;
            layer.u = nullptr;
            if (separate_places) {
                layer.new_h = memory.take(places * width);
                layer.new_c = cell.has_c ? memory.take(places * width) : nullptr;
                layer.u = memory.take(states * u_row);
            }
            layer.kept = memory.take(places * kept_row);
            layer.read = l > 0 && p.dropout_mask ? memory.take(places * width) : nullptr;
            layer.reset_h = p.shape.cell == SKIPRNN_GRU_RESET_BEFORE ? memory.take(places * width) : nullptr;
        }
        for (int64_t i = 0; i < p.gate_count && !memory.failed; i++)
            memcpy(gate_weight + i * width, p.gate_weight + i * hidden, hidden * sizeof(float));
    }

    const float *mask(int64_t layer, int64_t row) const {
        return problem.dropout_mask + ((layer - 1) * problem.batch + row) * hidden;
    }

    /* Returns true every other time: the direction of the next product, see `in_blocks`. */
    bool turn() { return turned = !turned; }

    /* Computes U h of the first `count` states. */
    void recur(int64_t count) {
        for (int64_t l = 0; l < problem.shape.layers; l++)
            multiply(team, layers[l].h, width, layers[l].hh, layers[l].hh_strip, nullptr, 0, layers[l].u, u_row, count,
                     cell.hh_first * strips, hidden, turn());
    }

    /* Computes the candidates of `count` places from `first` on. Without `u`, place i has to start from state i. */
    template <int CELL, bool KEEP>
    void candidates(int64_t first, int64_t count, const Place *at) {
        for (int64_t l = 0; l < problem.shape.layers; l++) {
            Layer &layer = layers[l];
            float *kept = layer.kept + first * kept_row;
            project(l, first, count, at);
            if (!layer.u) add_recurrent(layer, layer.h, 0, cell.hh_first, kept + cell.hh_at * width, count, turn());
            const auto u = [&](int64_t i) { return layer.u ? layer.u + at[i].state * u_row : nullptr; };
            if constexpr (CELL == SKIPRNN_GRU_RESET_BEFORE) {
                float *reset_h = layer.reset_h + first * width;
                for (int64_t i = 0; i < count; i++)
                    reset(hidden, kept + i * kept_row, u(i), layer.h + at[i].state * width, reset_h + i * width);
                add_recurrent(layer, reset_h, 2, 1, kept + 2 * width, count, false);
            }
            for (int64_t i = 0; i < count; i++)
                combine<CELL, KEEP>(hidden, kept + i * kept_row, u(i), layer.h + at[i].state * width,
                                    layer.c ? layer.c + at[i].state * width : nullptr,
                                    layer.new_h + (first + i) * width,
                                    layer.c ? layer.new_c + (first + i) * width : nullptr);
        }
    }

    /* Computes layer `l`'s input at a place of sequence `row` if there is a dropout mask. */
    void mask_input(int64_t l, int64_t place, int64_t row) {
        const float *from = layers[l - 1].new_h + place * width, *factor = mask(l, row);
        for (int64_t k = 0; k < hidden; k++) layers[l].read[place * width + k] = from[k] * factor[k];
    }

    /* The input, by place, of a layer above the lowest. */
    const float *read_by(int64_t l) const { return layers[l].read ? layers[l].read : layers[l - 1].new_h; }

    /* The input of the lowest layer. */
    const float *x_at(int64_t row, int64_t t) const {
        return problem.x + row * problem.x_batch_stride + t * problem.x_step_stride;
    }

    /* Computes p of the candidates of `count` places from `first` on. */
    void probabilities(int64_t first, int64_t count, float *p) {
        for (int64_t i = 0; i < count; i++) {
            V sum = fill(0);
            for (int64_t g = 0; g < problem.gate_count; g++)
                sum = dot(width, gate_weight + g * width, gate_input(g) + (first + i) * width, sum);
            logits[i] = total(sum) + problem.gate_bias[0];
        }
        for (int64_t i = 0; i < count; i += LANES) {
            float several[LANES];
            store(several, sigmoid(load(logits + i)));
            for (int64_t j = 0; j < LANES && i + j < count; j++) p[i + j] = several[j];
        }
    }

    const float *gate_input(int64_t g) const {
        const Layer &layer = layers[problem.gate_layers[g]];
        return cell.has_c ? layer.new_c : layer.new_h;
    }

private:
    bool turned = false;

    /* Adds U a of `gates` gates, from the `first`-th on, to the sums of `count` places. `a` is h, or r h. */
    void add_recurrent(const Layer &layer, const float *a, int64_t first, int64_t gates, float *sums, int64_t count,
                       bool backwards) {
        if (!rounded) {
            multiply(team, a, width, layer.hh + first * strips * layer.hh_strip, layer.hh_strip, sums, kept_row, sums,
                     kept_row, count, gates * strips, hidden, backwards);
            return;
        }
        const int64_t pairs = pairs_of(hidden);
        for (int64_t i = 0; i < count; i++) units[i] = round_state(hidden, a + i * width, rounded + i * width);
        const Int8Product product = {count,
                                     gates * strips,
                                     pairs,
                                     rounded,
                                     width,
                                     layer.hh_int8 + first * width * pairs * 2,
                                     units,
                                     layer.hh_scale + first * width,
                                     sums,
                                     kept_row};
        multiply_int8(team, product, backwards);
    }

    /* Writes W x + b to the sums. */
    void project(int64_t l, int64_t first, int64_t count, const Place *at) {
        const Layer &layer = layers[l];
        const int64_t size = cell.gates * width;
        float *kept = layer.kept + first * kept_row;
        for (int64_t i = 0; i < count; i++)  // these blocks get no W x, only the bias
            for (int64_t k = size; k < cell.sums * width; k += LANES)
                store(kept + i * kept_row + k, load(layer.bias + k));
        const float *input = x + first * layer.input;
        if (l > 0) {
            input = read_by(l) + first * width;
            for (int64_t i = 0; i < count && layer.read; i++) mask_input(l, first + i, at[i].row);
        } else if (projected || ready) {
            for (int64_t i = 0; i < count; i++)
                memcpy(kept + i * kept_row,
                       ready ? ready[i] : projected + (at[i].row * problem.steps + at[i].time) * size,
                       size * sizeof(float));
            return;
        } else {
            for (int64_t i = 0; i < count; i++)
                memcpy(x + (first + i) * layer.input, x_at(at[i].row, at[i].time), layer.input * sizeof(float));
        }
        multiply(team, input, l > 0 ? width : layer.input, layer.ih, layer.ih_strip, layer.bias, 0, kept, kept_row,
                 count, cell.gates * strips, layer.input);
    }
};

/* The step of the sequence's first update from step `t` on; `end` if there is none. `acc` becomes the sum after the
 * steps that are skipped until then: at least `least`, where the gate decides by the threshold. */
inline int64_t next_update(const skiprnn_problem &problem, int64_t row, int64_t t, int64_t end, float p, float &acc,
                           int64_t least) {
    const bool gated = problem.gate_count > 0;
    const uint8_t *schedule = problem.schedule ? problem.schedule + row * problem.steps : nullptr;
    const float *noise = problem.noise ? problem.noise + row * problem.steps : nullptr;
    if (gated && !schedule && !noise) {
        const int64_t room = end - t, limit = max_skip_of(problem), most = room < limit ? room : limit;
        const int64_t count = skips_before_update(p, problem.threshold, most, acc);
        if (count >= least || count == room) return t + count;
        least = least < room ? least : room;
        acc = accumulate(p, acc, least - count);
        return t + least;
    }
    for (; t < end; t++) {
        const float v = gated ? before_rounding(p, acc) : acc;
        if (schedule ? schedule[t] != 0 : v > (noise ? noise[t] : problem.threshold)) return t;
        acc = v;
    }
    return end;
}

inline const Record &record_at(const skiprnn_saved &saved, int64_t size, int64_t index) {
    return *(const Record *)(saved.records + index * size);
}

}  // namespace

#endif
