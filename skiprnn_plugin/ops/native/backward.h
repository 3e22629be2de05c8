/* The backward: each slot runs one sequence from its last update to its first. The equations are at the head of
 * by_update_backward.py.
 *
 * A round of a slot stands at one held state, S. It takes the update that S led to, then the steps skipped before it, from
 * the last to the first: what they would have read is computed from S. All of them share U h.
 */
#ifndef SKIPRNN_BACKWARD_H
#define SKIPRNN_BACKWARD_H

#include "stack.h"

namespace {

constexpr int64_t PENDING = 64; /* rows that are worth a sum of outer products */
constexpr int64_t AT_ONCE = 8;  /* skipped steps that are worth a product, even of a single sequence */

template <int CELL>
class Backward {
public:
    Backward(const skiprnn_problem &problem, const float *packed, const skiprnn_saved &saved,
             const skiprnn_incoming &incoming, const skiprnn_outgoing &outgoing, Share &share, int64_t rows)
        : problem(problem), saved(saved), incoming(incoming), outgoing(outgoing), share(share),
          stack(problem, saved.projected, rows, rows > AT_ONCE ? rows : AT_ONCE), cell(stack.cell), hidden(stack.hidden), width(stack.width),
          strips(stack.strips), kept_row(stack.kept_row), layers(problem.shape.layers), used(share.used),
          learned(problem.gate_count > 0 && !problem.schedule), wide(is_wide(problem.shape)) {
        Memory &memory = stack.memory;
        slots = memory.take_of<Slot>(rows);
        places = memory.take_of<Place>(stack.places);
        values = memory.take(rows * (problem.steps + 1));
        p = memory.take(stack.places);
        own = memory.take_of<Own>(layers);
        product = memory.take(rows * padded(width > problem.shape.input ? width : problem.shape.input));
        if (memory.failed) return;
        float *totals = share.totals;
        for (int64_t l = 0; l < layers; l++) {
            Own &layer = own[l];
            const Packed at = transposed_layer(problem.shape, l);
            const Totals total = totals_layer(problem.shape, l);
            layer.ih = packed + at.ih;
            layer.hh = packed + at.hh;
            packed += at.size;
            layer.total_bias = totals + total.bias;
            layer.total_ih = totals + total.ih;
            layer.total_hh = totals + total.hh;
            totals += total.size;
            layer.dh = memory.take(rows * width);
            layer.dc = cell.has_c ? memory.take(rows * width) : nullptr;
            layer.input_row = l > 0 ? width : wide ? 0 : problem.shape.input;
            layer.d_sums = memory.take((PENDING + rows) * kept_row);
            layer.input = memory.take((PENDING + rows) * layer.input_row);
            layer.h = memory.take((PENDING + rows) * width);
            layer.reset_h = CELL == SKIPRNN_GRU_RESET_BEFORE ? memory.take((PENDING + rows) * width) : nullptr;
        }
        total_gate_weight = totals;
        total_gate_bias = totals + problem.gate_count * width;
    }

    void run() {
        if (stack.memory.failed) {
            share.failed = SKIPRNN_NO_MEMORY;
            return;
        }
        int64_t active = 0;
        while (active < stack.slots && admit(active)) active++;
        while (active > 0) {
            stack.recur(active);
            for (int64_t i = 0; i < active; i++) measure(i);
            pass_updates(active);
            pass_skipped(active);
            for (int64_t i = active - 1; i >= 0; i--) {
                if (leave(i) || admit(i)) continue;
                active--;
                if (i < active) move(active, i);
            }
        }
        flush();
    }

private:
    /* Held state: that after the update of `record`, or the initial one (-1). It stands for the steps from `begin` to before
     * `end`, where either the sequence ends or (`follows`) an update happens that set p to `next_p`. */
    struct Slot {
        int64_t row, record, begin, end;
        bool follows;
        float p, acc, next_p, dp, dacc;
    };

    struct Own {
        const float *ih, *hh;
        float *total_bias, *total_ih, *total_hh;
        float *dh, *dc; /* of the state, by slot */
        int64_t input_row;
        float *d_sums, *input, *h, *reset_h; /* of updates whose part of the weights' gradients is still to be added */
        float *kept;                         /* the stack's own, while its candidates' are made in d_sums */
    };

    const skiprnn_problem &problem;
    const skiprnn_saved &saved;
    const skiprnn_incoming &incoming;
    const skiprnn_outgoing &outgoing;
    Share &share;
    Stack stack;
    const CellLayout &cell;
    const int64_t hidden, width, strips, kept_row, layers;
    int64_t used;
    const bool learned, wide;
    Slot *slots;
    Place *places;
    float *values, *p, *product;
    Own *own;
    float *total_gate_weight, *total_gate_bias;
    int64_t begun = 0, pending = 0;

    float *dh(int64_t l, int64_t i) { return own[l].dh + i * width; }
    float *dc(int64_t l, int64_t i) { return own[l].dc + i * width; }
    float *value(int64_t i) { return values + i * (problem.steps + 1); }

    bool admit(int64_t i) {
        while (begun < share.count) {
            Slot &slot = slots[i];
            const int64_t row = slot.row = share.rows[begun++];
            slot.end = end_of(problem, row);
            slot.follows = false;
            slot.dp = incoming.p[row];
            slot.dacc = incoming.acc[row];
            for (int64_t l = 0; l < layers; l++) {
                const int64_t at = (l * problem.batch + row) * hidden;
                memcpy(dh(l, i), incoming.h + at, hidden * sizeof(float));
                if (cell.has_c) memcpy(dc(l, i), incoming.c + at, hidden * sizeof(float));
            }
            if (problem.last_only) add(hidden, incoming.output + row * incoming.output_batch_stride, dh(layers - 1, i));
            fetch(i, saved.chains[2 * row]);
            // where no step is skipped after the last update there is nothing to do for the state that it made
            if (slot.begin < slot.end || leave(i)) return true;
        }
        return false;
    }

    /* Loads a held state. */
    void fetch(int64_t i, int64_t record) {
        Slot &slot = slots[i];
        slot.record = record;
        const float *from = nullptr;
        if (record >= 0) {
            const Record &at = record_at(saved, problem.shape, record);
            from = (const float *)&at + RECORD_HEADER;
            slot.begin = at.time + 1;
            slot.p = at.p;
            slot.acc = 0;
        } else {
            slot.begin = begin_of(problem, slot.row);
            slot.p = problem.p[slot.row];
            slot.acc = problem.acc[slot.row];
        }
        for (int64_t l = 0; l < layers; l++) {
            const int64_t at = (l * problem.batch + slot.row) * hidden;
            memcpy(stack.layers[l].h + i * width, from ? from + l * hidden : problem.h + at, hidden * sizeof(float));
            if (cell.has_c)
                memcpy(stack.layers[l].c + i * width, from ? from + (layers + l) * hidden : problem.c + at,
                       hidden * sizeof(float));
        }
    }

    /* From a held state to the one before. False: it was the initial one, and the sequence is done. */
    bool leave(int64_t i) {
        Slot &slot = slots[i];
        if (slot.record < 0) {
            for (int64_t l = 0; l < layers; l++) {
                const int64_t at = (l * problem.batch + slot.row) * hidden;
                memcpy(outgoing.h + at, dh(l, i), hidden * sizeof(float));
                if (cell.has_c) memcpy(outgoing.c + at, dc(l, i), hidden * sizeof(float));
            }
            outgoing.p[slot.row] = slot.dp;
            outgoing.acc[slot.row] = slot.dacc;
            return false;
        }
        slot.end = slot.begin - 1;
        slot.follows = true;
        slot.next_p = slot.p;
        add_output(i, slot.end);
        fetch(i, record_at(saved, problem.shape, slot.record).previous);
        return true;
    }

    void add_output(int64_t i, int64_t t) {
        if (problem.last_only) return;
        add(hidden, incoming.output + slots[i].row * incoming.output_batch_stride + t * incoming.output_step_stride,
            dh(layers - 1, i));
    }

    /* v of the steps of a slot's round. */
    void measure(int64_t i) {
        if (problem.gate_count == 0) return;
        const Slot &slot = slots[i];
        float acc = slot.acc, *v = value(i);
        for (int64_t t = slot.begin; t < slot.end + slot.follows; t++) acc = *v++ = before_rounding(slot.p, acc);
    }

    float v_at(int64_t i, int64_t t) { return value(i)[t - slots[i].begin]; }

    /* 1 where min(p, 1 - acc) was p. */
    float free_at(int64_t i, int64_t t) {
        const float acc = t > slots[i].begin ? v_at(i, t - 1) : slots[i].acc;
        return slots[i].p <= 1 - acc ? 1.0f : 0.0f;
    }

    void pass_updates(int64_t active) {
        int64_t count = 0;
        for (int64_t i = 0; i < active; i++)
            if (slots[i].follows) places[count++] = {slots[i].row, slots[i].end, i};
        if (count == 0) return;
        for (int64_t l = 0; l < layers; l++) own[l].kept = stack.layers[l].kept;
        for (int64_t l = 0; l < layers; l++) stack.layers[l].kept = own[l].d_sums + pending * kept_row;
        stack.template candidates<CELL, true>(count, places);
        if (problem.gate_count > 0)
            for (int64_t n = 0; n < count; n++) pass_gate(n);
        for (int64_t l = layers - 1; l >= 0; l--) pass_layer(l, count);
        for (int64_t l = 0; l < layers; l++) stack.layers[l].kept = own[l].kept;
        pending += count;
        if (pending >= PENDING) flush();
    }

    /* sum <dS, S~ - S> of a place, over layers. */
    float gain(int64_t n) {
        const int64_t slot = places[n].slot;
        float sum = 0;
        for (int64_t l = 0; l < layers; l++) {
            const Layer &layer = stack.layers[l];
            sum += dot_difference(width, dh(l, slot), layer.new_h + n * width, layer.h + slot * width);
            if (cell.has_c) sum += dot_difference(width, dc(l, slot), layer.new_c + n * width, layer.c + slot * width);
        }
        return sum;
    }

    /* The gate's part of an update. */
    void pass_gate(int64_t n) {
        const int64_t i = places[n].slot, t = places[n].time;
        Slot &slot = slots[i];
        float dv = 0;
        if (learned) {
            const float direct = incoming.updates[slot.row * problem.steps + t];
            dv = free_at(i, t) * (direct + slot.dp * (slot.next_p - slot.p) - slot.dacc * v_at(i, t) + gain(n));
        }
        const float d_logit = slot.dp * slot.next_p * (1 - slot.next_p);
        slot.dp = slot.dacc = dv;
        total_gate_bias[0] += d_logit;
        for (int64_t g = 0; g < problem.gate_count; g++) {
            const int64_t l = problem.gate_layers[g];
            add_scaled(width, d_logit, stack.gate_input(g) + n * width, total_gate_weight + g * width);
            add_scaled(width, d_logit, stack.gate_weight + g * width, cell.has_c ? dc(l, i) : dh(l, i));
        }
    }

    /* One layer's part of the updates of all places. */
    void pass_layer(int64_t l, int64_t count) {
        const Layer &layer = stack.layers[l];
        Own &mine = own[l];
        const int64_t depth = cell.gates * width;
        int64_t from_row;
        const float *from = stack.input_of(l, from_row);
        for (int64_t n = 0; n < count; n++) {
            const int64_t i = places[n].slot, at = pending + n;
            memcpy(mine.h + at * width, layer.h + i * width, width * sizeof(float));
            memcpy(mine.input + at * mine.input_row, from + n * from_row, mine.input_row * sizeof(float));
            if (layer.reset_h) memcpy(mine.reset_h + at * width, layer.reset_h + n * width, width * sizeof(float));
            differentiate<CELL>(width, layer.kept + n * kept_row, layer.h + i * width,
                                cell.has_c ? layer.c + i * width : nullptr, dh(l, i), cell.has_c ? dc(l, i) : nullptr);
        }
        if constexpr (CELL == SKIPRNN_GRU_RESET_BEFORE) {
            multiply(layer.kept + 2 * width, kept_row, mine.hh + 2 * width * STRIP, depth * STRIP, nullptr, 0, product, width,
                     count, strips, width);
            for (int64_t n = 0; n < count; n++) {
                const int64_t i = places[n].slot;
                differentiate_reset(width, layer.kept + n * kept_row, product + n * width, layer.h + i * width, dh(l, i));
            }
        }
        for (int64_t n = 0; n < count; n++)
            memcpy(product + n * width, dh(l, places[n].slot), width * sizeof(float));
        multiply(layer.kept + cell.hh_at * width, kept_row, mine.hh, depth * STRIP, product, width, product, width, count, strips,
                 cell.hh_first * width);
        for (int64_t n = 0; n < count; n++) memcpy(dh(l, places[n].slot), product + n * width, width * sizeof(float));
        if (l > 0) {
            multiply(layer.kept, kept_row, mine.ih, depth * STRIP, nullptr, 0, product, width, count, strips, depth);
            for (int64_t n = 0; n < count; n++) pass_down(l, n);
        } else if (wide) {
            for (int64_t n = 0; n < count; n++) give_projected(n);
        } else if (outgoing.x) {
            const int64_t size = padded(problem.shape.input);
            multiply(layer.kept, kept_row, mine.ih, depth * STRIP, nullptr, 0, product, size, count, size / STRIP, depth);
            for (int64_t n = 0; n < count; n++)
                memcpy(outgoing.x + (places[n].row * problem.steps + places[n].time) * problem.shape.input,
                       product + n * size, problem.shape.input * sizeof(float));
        }
    }

    /* The gradient of what layer `l` read, in `product`, to the layer below. */
    void pass_down(int64_t l, int64_t n) {
        const int64_t i = places[n].slot;
        float *d = product + n * width;
        if (problem.dropout_mask) {
            const float *mask = stack.mask(l, places[n].row), *below = stack.layers[l - 1].new_h + n * width;
            float *d_mask = outgoing.dropout_mask + ((l - 1) * problem.batch + places[n].row) * hidden;
            for (int64_t k = 0; k < hidden; k++) {
                d_mask[k] += d[k] * below[k];
                d[k] *= mask[k];
            }
        }
        add(width, d, dh(l - 1, i));
    }

    void give_projected(int64_t n) {
        float *to = outgoing.projected + used * cell.gates * hidden;
        for (int g = 0; g < cell.gates; g++)
            memcpy(to + cell.ih_order[g] * hidden, stack.layers[0].kept + n * kept_row + g * width, hidden * sizeof(float));
        outgoing.used[used++] = places[n].row * problem.steps + places[n].time;
    }

    /* The steps skipped while the slots' states were held; only `dp` and `dacc` change, and `dh` by the outputs' gradients. */
    void pass_skipped(int64_t active) {
        int64_t count = 0;
        for (int64_t i = 0; i < active; i++) {
            if (problem.gate_count == 0 && problem.last_only) break;
            for (int64_t t = slots[i].end - 1; t >= slots[i].begin; t--) {
                places[count++] = {slots[i].row, t, i};
                if (count == stack.places) {
                    pass_places(count);
                    count = 0;
                }
            }
        }
        if (count > 0) pass_places(count);
    }

    void pass_places(int64_t count) {
        if (learned) {
            stack.template candidates<CELL, false>(count, places);
            stack.probabilities(count, p);
        }
        for (int64_t n = 0; n < count; n++) {
            const int64_t i = places[n].slot, t = places[n].time;
            Slot &slot = slots[i];
            add_output(i, t);
            if (problem.gate_count == 0) continue;
            const float free = free_at(i, t);
            float dv = free * slot.dacc;
            if (learned) {
                const float direct = incoming.updates[slot.row * problem.steps + t];
                dv = free * (gain(n) + direct + slot.dp * (p[n] - slot.p) + slot.dacc * (1 - v_at(i, t)));
            }
            slot.dacc = dv;
            slot.dp += dv;
        }
    }

    /* Adds what is pending to the weights' gradients. */
    void flush() {
        const int64_t depth = cell.gates * width;
        for (int64_t l = 0; l < layers && pending > 0; l++) {
            Own &mine = own[l];
            for (int64_t n = 0; n < pending; n++) add(cell.sums * width, mine.d_sums + n * kept_row, mine.total_bias);
            const float *d_recurrent = mine.d_sums + cell.hh_at * width;
            const int64_t first = cell.hh_first * width;
            add_outer(d_recurrent, kept_row, mine.h, width, mine.total_hh, width, first, strips, pending);
            if (CELL == SKIPRNN_GRU_RESET_BEFORE)
                add_outer(d_recurrent + first, kept_row, mine.reset_h, width, mine.total_hh + first * width, width, depth - first,
                          strips, pending);
            if (l > 0)
                add_outer(mine.d_sums, kept_row, mine.input, width, mine.total_ih, width, depth, strips, pending);
            else if (!wide)
                add_outer(mine.input, mine.input_row, mine.d_sums, kept_row, mine.total_ih, depth, mine.input_row,
                          cell.gates * strips, pending);
        }
        pending = 0;
    }

    void move(int64_t from, int64_t to) {
        slots[to] = slots[from];
        for (int64_t l = 0; l < layers; l++) {
            const Layer &layer = stack.layers[l];
            memcpy(layer.h + to * width, layer.h + from * width, width * sizeof(float));
            memcpy(dh(l, to), dh(l, from), width * sizeof(float));
            if (!cell.has_c) continue;
            memcpy(layer.c + to * width, layer.c + from * width, width * sizeof(float));
            memcpy(dc(l, to), dc(l, from), width * sizeof(float));
        }
    }
};

}  // namespace

#endif
