/* The backward: every slot runs one sequence from its last update to its first. The equations are at the heads of
 * indexed/backward.py and indexed/gate.py.
 *
 * The states that a sequence held are in the records. So what was computed from them is computed again, for several
 * states together, unless it was kept (see `keeps_all`). Only the gradients have to go from state to state. For every
 * state, the backward passes first the update that ended it, then the skipped steps before that update, last to first.
 * The gate's gradient at a skipped step needs the candidate that the step would have computed.
 */
#ifndef SKIPRNN_BACKWARD_H
#define SKIPRNN_BACKWARD_H

#include "stack.h"

namespace {

/* The number of rows in a sum of outer products: many, because every sum fetches all of the weights' gradients. */
constexpr int64_t PENDING = 256;
/* The number of rows of an efficient product with the weights. */
constexpr int64_t AT_ONCE = 8;

template <int CELL>
class Backward {
public:
    Backward(const skiprnn_problem &problem, const float *packed, const skiprnn_saved &saved,
             const skiprnn_incoming &incoming, const skiprnn_outgoing &outgoing, Assignment &assigned,
             int64_t slot_count)
        : problem(problem), saved(saved), incoming(incoming), outgoing(outgoing), assigned(assigned),
          slot_count(slot_count), window(slot_count < AT_ONCE ? AT_ONCE / slot_count : 1), most(slot_count * window),
          stack(problem, assigned.team, saved.projected, most, 2 * most), cell(stack.cell), hidden(stack.hidden),
          width(stack.width), strips(stack.strips), kept_row(stack.kept_row), layers(problem.shape.layers),
          learned(problem.gate_count > 0 && !problem.schedule), narrow(!is_wide(problem.shape)),
          keeps(keeps_all(problem)), gate_size(problem.gate_count * width + STRIP) {
        int64_t count = 0;
        for (int64_t i = 0; i < assigned.count; i++) count += saved.chains[2 * assigned.rows[i] + 1];
        enough = count < PENDING ? count : PENDING;
        const int64_t room = enough + most;
        Memory &memory = stack.memory;
        slots = memory.take_of<Slot>(slot_count);
        states = memory.take_of<State>(most);
        updates = memory.take_of<Place>(most);
        skips = memory.take_of<Place>(most);
        values = memory.take(slot_count * (problem.steps + 1));
        p = memory.take(most);
        layer_gradients = memory.take_of<LayerGradients>(layers);
        bias = memory.take(cell.sums * width);
        gate = memory.take(gate_size);
        product = memory.take(slot_count * padded(width > problem.shape.input ? width : problem.shape.input));
        if (memory.failed) return;
        float *totals = assigned.totals;
        for (int64_t l = 0; l < layers; l++) {
            LayerGradients &gradients = layer_gradients[l];
            const PackedOffsets offsets = transposed_layer(problem.shape, l, outgoing.x != nullptr);
            const Totals total = totals_layer(problem.shape, l);
            gradients.ih = packed + offsets.ih;
            gradients.hh = packed + offsets.hh;
            packed += offsets.size;
            gradients.total_bias = totals + total.bias;
            gradients.total_ih = totals + total.ih;
            gradients.total_hh = totals + total.hh;
            totals += total.size;
            gradients.dh = memory.take(slot_count * width);
            gradients.dc = cell.has_c ? memory.take(slot_count * width) : nullptr;
            gradients.input_row = l == 0 && narrow ? problem.shape.input : padded(stack.layers[l].input);
            gradients.d_sums = memory.take(room * kept_row);
            gradients.input = memory.take(room * gradients.input_row);
            gradients.h = memory.take(room * width);
            gradients.reset_h = CELL == SKIPRNN_GRU_RESET_BEFORE ? memory.take(room * width) : nullptr;
        }
        total_gate = totals;
    }

    void run() {
        if (stack.memory.failed) {
            assigned.failed = SKIPRNN_NO_MEMORY;
            return;
        }
        int64_t active = 0;
        while (active < slot_count && admit(active)) active++;
        while (active > 0) {
            for (int64_t i = 0; i < active; i++) load_states(i);
            if (!keeps || skips_any(active)) stack.recur((active - 1) * window + slots[active - 1].states);
            place_updates(active);
            for (int64_t j = 0; j < window; j++) pass_states(active, j);
            pending += placed;
            if (pending >= enough) flush();
            for (int64_t i = active - 1; i >= 0; i--) {
                if (!slots[i].done) continue;
                finish(i);
                if (admit(i)) continue;
                active--;
                if (i < active) move(active, i);
            }
        }
        flush();
    }

private:
    static constexpr int64_t INITIAL = -1; /* instead of a record's index: the state before the first update */

    /* A sequence, and the state that it has reached: that of `record`. The state is held until `end`. There the
     * sequence ends or, if `follows`, the update of record `next` sets p to `next_p`. The slot's window contains
     * `states` states; `done` means that the initial state is one of them. */
    struct Slot {
        int64_t row, record, next, end, states;
        bool follows, done;
        float next_p, dp, dacc;
    };

    /* One state of a window. It is held from step `begin` to before `end`. If an update `follows`, it is at `place`. */
    struct State {
        int64_t begin, end, place, record, next;
        bool follows;
        float p, acc, next_p;
    };

    /* One layer: its packed weights, and its gradients. */
    struct LayerGradients {
        const float *ih, *hh;
        float *total_bias, *total_ih, *total_hh;
        float *dh, *dc; /* gradient of the state that the sequence has reached, by slot */
        int64_t input_row;
        /* Of the pending updates, whose part of the weights' gradients still has to be added. */
        float *d_sums, *input, *h, *reset_h;
        float *kept; /* the layer's `kept` while another array replaces it */
    };

    const skiprnn_problem &problem;
    const skiprnn_saved &saved;
    const skiprnn_incoming &incoming;
    const skiprnn_outgoing &outgoing;
    Assignment &assigned;
    const int64_t slot_count, window, most; /* window: states of one slot; most: states of all slots */
    Stack stack;
    const CellLayout &cell;
    const int64_t hidden, width, strips, kept_row, layers;
    const bool learned, narrow, keeps;
    const int64_t gate_size, size = record_size(problem); /* of one record, in floats */
    Slot *slots;
    State *states;
    Place *updates, *skips;
    float *values, *p, *product;
    float *bias, *gate; /* pending parts of the gradients of one layer's biases, and of the gate's weight and bias */
    LayerGradients *layer_gradients;
    float *total_gate;
    int64_t enough, begun = 0, placed = 0, pending = 0;

    float *dh(int64_t l, int64_t slot) { return layer_gradients[l].dh + slot * width; }
    float *dc(int64_t l, int64_t slot) { return layer_gradients[l].dc + slot * width; }
    int64_t slot_of(int64_t state) const { return state / window; }

    /* Copies one row of H units, or fills it with 0 if `from` is NULL. Also clears the padding, where another sequence
     * may have left any value. */
    void set(float *to, const float *from) {
        memset(to, 0, width * sizeof(float));
        if (from) memcpy(to, from, hidden * sizeof(float));
    }

    bool admit(int64_t i) {
        if (begun == assigned.count) return false;
        Slot &slot = slots[i];
        const int64_t row = assigned.rows[begun++];
        slot = {row, saved.chains[2 * row], INITIAL, end_of(problem, row), 0, false, false, 0, 0, 0};
        if (incoming.p) slot.dp = incoming.p[row];
        if (incoming.acc) slot.dacc = incoming.acc[row];
        for (int64_t l = 0; l < layers; l++) {
            const int64_t at = (l * problem.batch + row) * hidden;
            set(dh(l, i), incoming.h ? incoming.h + at : nullptr);
            if (cell.has_c) set(dc(l, i), incoming.c ? incoming.c + at : nullptr);
        }
        if (problem.last_only && incoming.output)
            add(hidden, incoming.output + row * incoming.output_batch_stride, dh(layers - 1, i));
        if (slot.record != INITIAL && record_of(slot.record).time + 1 == slot.end) {
            // no step was computed from the last state
            add_output(i, slot.end - 1);
            step_back(slot);
        }
        return true;
    }

    const Record &record_of(int64_t record) { return record_at(saved, size, record); }
    const float *values_of(int64_t record) { return (const float *)&record_of(record) + RECORD_HEADER; }

    /* Moves the slot to the previous state, which ended with the update of `slot.record`. */
    void step_back(Slot &slot) {
        const Record &record = record_of(slot.record);
        slot.end = record.time;
        slot.follows = true;
        slot.next_p = record.p;
        slot.next = slot.record;
        slot.record = record.previous;
    }

    /* Loads the slot's next states, as many as its window has room for. */
    void load_states(int64_t i) {
        Slot &slot = slots[i];
        for (slot.states = 0; slot.states < window && !slot.done; slot.states++) {
            const int64_t index = i * window + slot.states;
            const bool initial = slot.record == INITIAL;
            slot.done = initial;
            const float *from = initial ? nullptr : values_of(slot.record);
            State &state = states[index];
            state.begin = initial ? begin_of(problem, slot.row) : record_of(slot.record).time + 1;
            state.end = slot.end;
            state.record = slot.record;
            state.next = slot.next;
            state.follows = slot.follows;
            state.p = initial ? p_of(problem, slot.row) : record_of(slot.record).p;
            state.acc = initial ? acc_of(problem, slot.row) : 0;
            state.next_p = slot.next_p;
            for (int64_t l = 0; l < layers; l++) {
                const int64_t at = (l * problem.batch + slot.row) * hidden;
                memcpy(stack.layers[l].h + index * width, initial ? problem.h + at : from + l * hidden,
                       hidden * sizeof(float));
                if (cell.has_c)
                    memcpy(stack.layers[l].c + index * width, initial ? problem.c + at : from + (layers + l) * hidden,
                           hidden * sizeof(float));
            }
            if (!initial) step_back(slot);
        }
    }

    /* Whether the windows contain skipped steps that need U h of their states. */
    bool skips_any(int64_t active) {
        for (int64_t i = 0; i < active && learned; i++)
            for (int64_t j = 0; j < slots[i].states; j++)
                if (states[i * window + j].begin < states[i * window + j].end) return true;
        return false;
    }

    /* Gives every update of the windows a place, those of the windows' first states first, and computes their
     * candidates or copies them from the records. */
    void place_updates(int64_t active) {
        placed = 0;
        for (int64_t j = 0; j < window; j++)
            for (int64_t i = 0; i < active; i++) {
                const int64_t index = i * window + j;
                if (j >= slots[i].states || !states[index].follows) continue;
                states[index].place = placed;
                updates[placed++] = {slots[i].row, states[index].end, index};
            }
        if (placed == 0) return;
        if (keeps) {
            for (int64_t n = 0; n < placed; n++) restore(n);
            return;
        }
        for (int64_t l = 0; l < layers; l++) {
            layer_gradients[l].kept = stack.layers[l].kept;
            // their gradients will replace what `combine` keeps
            stack.layers[l].kept = layer_gradients[l].d_sums + pending * kept_row;
        }
        stack.template candidates<CELL, true>(0, placed, updates);
        for (int64_t l = 0; l < layers; l++) stack.layers[l].kept = layer_gradients[l].kept;
    }

    /* Copies the candidate of the update at place `n`, and what `combine` kept, from its record. */
    void restore(int64_t n) {
        const int64_t index = updates[n].state;
        const float *from = values_of(states[index].next);
        for (int64_t l = 0; l < layers; l++, from += hidden) set(stack.layers[l].new_h + n * width, from);
        for (int64_t l = 0; l < layers && cell.has_c; l++, from += hidden) set(stack.layers[l].new_c + n * width, from);
        for (int64_t l = 0; l < layers; l++) {
            const Layer &layer = stack.layers[l];
            float *to = layer_gradients[l].d_sums + (pending + n) * kept_row;
            for (int block = 0; block < cell.kept; block++, from += hidden) set(to + block * width, from);
            if (layer.read) stack.mask_input(l, n, updates[n].row);
            if (layer.reset_h) multiply_values(width, to, layer.h + index * width, layer.reset_h + n * width);
        }
    }

    /* Passes the gradients through the j-th state of all windows. */
    void pass_states(int64_t active, int64_t j) {
        int64_t first = -1, count = 0;
        for (int64_t i = 0; i < active; i++) {
            const int64_t index = i * window + j;
            if (j >= slots[i].states) continue;
            measure(index);
            if (!states[index].follows) continue;
            if (first < 0) first = states[index].place;
            count++;
        }
        if (count > 0) {
            for (int64_t n = first; n < first + count && problem.gate_count > 0; n++) pass_gate(n);
            for (int64_t l = layers - 1; l >= 0; l--) pass_layer(l, first, count);
        }
        pass_skipped(active, j);
        for (int64_t i = 0; i < active; i++) {
            const State &state = states[i * window + j];
            if (j < slots[i].states && state.record != INITIAL) add_output(i, state.begin - 1);
        }
    }

    void add_output(int64_t slot, int64_t t) {
        if (problem.last_only || !incoming.output) return;
        add(hidden, incoming.output + slots[slot].row * incoming.output_batch_stride + t * incoming.output_step_stride,
            dh(layers - 1, slot));
    }

    /* Computes v of the steps of a state. */
    void measure(int64_t index) {
        if (problem.gate_count == 0) return;
        const State &state = states[index];
        float acc = state.acc, *v = values + slot_of(index) * (problem.steps + 1);
        for (int64_t t = state.begin; t < state.end + state.follows; t++) acc = *v++ = before_rounding(state.p, acc);
    }

    /* The gradient of an update that the caller gave. */
    float direct(int64_t row, int64_t t) { return incoming.updates ? incoming.updates[row * problem.steps + t] : 0; }

    float v_at(int64_t index, int64_t t) {
        return values[slot_of(index) * (problem.steps + 1) + t - states[index].begin];
    }

    /* 1 if min(p, 1 - acc) was p, otherwise 0. */
    float free_at(int64_t index, int64_t t) {
        const State &state = states[index];
        const float acc = t > state.begin ? v_at(index, t - 1) : state.acc;
        return state.p <= 1 - acc ? 1.0f : 0.0f;
    }

    /* <dS, S~ - S> of the candidate at place `n`, summed over the layers. */
    float gain(int64_t n, int64_t index) {
        const int64_t slot = slot_of(index);
        float sum = 0;
        for (int64_t l = 0; l < layers; l++) {
            const Layer &layer = stack.layers[l];
            sum += dot_difference(width, dh(l, slot), layer.new_h + n * width, layer.h + index * width);
            if (cell.has_c) sum += dot_difference(width, dc(l, slot), layer.new_c + n * width, layer.c + index * width);
        }
        return sum;
    }

    /* Passes the gradients through the gate at the update at place `n`. */
    void pass_gate(int64_t n) {
        const int64_t index = updates[n].state, i = slot_of(index), t = updates[n].time;
        const State &state = states[index];
        Slot &slot = slots[i];
        float dv = 0;
        if (learned) {
            dv = free_at(index, t) * (direct(slot.row, t) + slot.dp * (state.next_p - state.p) -
                                      slot.dacc * v_at(index, t) + gain(n, index));
        }
        const float d_logit = slot.dp * state.next_p * (1 - state.next_p);
        slot.dp = slot.dacc = dv;
        gate[problem.gate_count * width] += d_logit;
        for (int64_t g = 0; g < problem.gate_count; g++) {
            const int64_t l = problem.gate_layers[g];
            add_scaled(width, d_logit, stack.gate_input(g) + n * width, gate + g * width);
            add_scaled(width, d_logit, stack.gate_weight + g * width, cell.has_c ? dc(l, i) : dh(l, i));
        }
    }

    /* Passes the gradients through one layer at `count` updates from place `first` on, which belong to different
     * sequences. */
    void pass_layer(int64_t l, int64_t first, int64_t count) {
        const Layer &layer = stack.layers[l];
        LayerGradients &gradients = layer_gradients[l];
        const Place *const at = updates + first;
        const int64_t depth = cell.gates * width, input = layer.input;
        float *const kept = gradients.d_sums + (pending + first) * kept_row;
        for (int64_t n = 0; n < count; n++) {
            const int64_t index = at[n].state, i = slot_of(index), to = pending + first + n;
            const float *read = l > 0 ? stack.read_by(l) + (first + n) * width : stack.x_at(at[n].row, at[n].time);
            memcpy(gradients.h + to * width, layer.h + index * width, width * sizeof(float));
            memcpy(gradients.input + to * gradients.input_row, read, input * sizeof(float));
            if (layer.reset_h)
                memcpy(gradients.reset_h + to * width, layer.reset_h + (first + n) * width, width * sizeof(float));
            differentiate<CELL>(width, kept + n * kept_row, layer.h + index * width,
                                cell.has_c ? layer.c + index * width : nullptr, dh(l, i),
                                cell.has_c ? dc(l, i) : nullptr);
        }
        if constexpr (CELL == SKIPRNN_GRU_RESET_BEFORE) {
            multiply(stack.team, kept + 2 * width, kept_row, gradients.hh + 2 * width * STRIP, depth * STRIP, nullptr,
                     0, product, width, count, strips, width);
            for (int64_t n = 0; n < count; n++)
                differentiate_reset(width, kept + n * kept_row, product + n * width, layer.h + at[n].state * width,
                                    dh(l, slot_of(at[n].state)));
        }
        for (int64_t n = 0; n < count; n++)
            memcpy(product + n * width, dh(l, slot_of(at[n].state)), width * sizeof(float));
        multiply(stack.team, kept + cell.hh_at * width, kept_row, gradients.hh, depth * STRIP, product, width, product,
                 width, count, strips, cell.hh_first * width, stack.turn());
        for (int64_t n = 0; n < count; n++)
            memcpy(dh(l, slot_of(at[n].state)), product + n * width, width * sizeof(float));
        if (l > 0) {
            multiply(stack.team, kept, kept_row, gradients.ih, depth * STRIP, nullptr, 0, product, width, count, strips,
                     depth);
            for (int64_t n = 0; n < count; n++) pass_down(l, first + n, product + n * width);
        } else if (outgoing.x) {
            const int64_t size = padded(input);
            multiply(stack.team, kept, kept_row, gradients.ih, depth * STRIP, nullptr, 0, product, size, count,
                     size / STRIP, depth);
            for (int64_t n = 0; n < count; n++)
                memcpy(outgoing.x + (at[n].row * problem.steps + at[n].time) * input, product + n * size,
                       input * sizeof(float));
        }
    }

    /* Passes the gradient `d` of layer `l`'s input at place `n` to the layer below. */
    void pass_down(int64_t l, int64_t n, float *d) {
        if (problem.dropout_mask) {
            const int64_t row = updates[n].row;
            const float *mask = stack.mask(l, row), *below = stack.layers[l - 1].new_h + n * width;
            float *d_mask = outgoing.dropout_mask + ((l - 1) * problem.batch + row) * hidden;
            for (int64_t k = 0; k < hidden; k++) {
                d_mask[k] += d[k] * below[k];
                d[k] *= mask[k];
            }
        }
        add(width, d, dh(l - 1, slot_of(updates[n].state)));
    }

    /* Passes the gradients through the steps that were skipped while the j-th states were held. This changes only `dp`
     * and `dacc`, and adds the outputs' gradients to `dh`. */
    void pass_skipped(int64_t active, int64_t j) {
        if (problem.gate_count == 0 && (problem.last_only || !incoming.output)) return;
        int64_t count = 0;
        for (int64_t i = 0; i < active; i++) {
            const State &state = states[i * window + j];
            for (int64_t t = state.end - 1; j < slots[i].states && t >= state.begin; t--) {
                skips[count++] = {slots[i].row, t, i * window + j};
                if (count == most) {
                    pass_places(count);
                    count = 0;
                }
            }
        }
        if (count > 0) pass_places(count);
    }

    void pass_places(int64_t count) {
        if (learned) {  // in the places behind those of the updates
            stack.template candidates<CELL, false>(most, count, skips);
            stack.probabilities(most, count, p);
        }
        for (int64_t n = 0; n < count; n++) {
            const int64_t index = skips[n].state, t = skips[n].time;
            Slot &slot = slots[slot_of(index)];
            add_output(slot_of(index), t);
            if (problem.gate_count == 0) continue;
            const float free = free_at(index, t);
            float dv = free * slot.dacc;
            if (learned) {
                dv = free * (gain(most + n, index) + direct(slot.row, t) + slot.dp * (p[n] - states[index].p) +
                             slot.dacc * (1 - v_at(index, t)));
            }
            slot.dacc = dv;
            slot.dp += dv;
        }
    }

    /* Adds the pending parts to the weights' gradients. */
    void flush() {
        const int64_t depth = cell.gates * width, first = cell.hh_first * width;
        for (int64_t l = 0; l < layers && pending > 0; l++) {
            LayerGradients &gradients = layer_gradients[l];
            memset(bias, 0, cell.sums * width * sizeof(float));
            for (int64_t n = 0; n < pending; n++) add(cell.sums * width, gradients.d_sums + n * kept_row, bias);
            add(cell.sums * width, bias, gradients.total_bias);
            const float *d_recurrent = gradients.d_sums + cell.hh_at * width;
            add_outer(stack.team, d_recurrent, kept_row, gradients.h, width, gradients.total_hh, width, first, strips,
                      pending);
            if (CELL == SKIPRNN_GRU_RESET_BEFORE)
                add_outer(stack.team, d_recurrent + first, kept_row, gradients.reset_h, width,
                          gradients.total_hh + first * width, width, depth - first, strips, pending);
            if (l == 0 && narrow)
                add_outer(stack.team, gradients.input, gradients.input_row, gradients.d_sums, kept_row,
                          gradients.total_ih, depth, gradients.input_row, cell.gates * strips, pending);
            else
                add_outer(stack.team, gradients.d_sums, kept_row, gradients.input, gradients.input_row,
                          gradients.total_ih, gradients.input_row, depth, gradients.input_row / STRIP, pending);
        }
        add(gate_size, gate, total_gate);
        memset(gate, 0, gate_size * sizeof(float));
        pending = 0;
    }

    /* Writes the gradients of the sequence's initial state. */
    void finish(int64_t i) {
        const Slot &slot = slots[i];
        for (int64_t l = 0; l < layers; l++) {
            const int64_t at = (l * problem.batch + slot.row) * hidden;
            memcpy(outgoing.h + at, dh(l, i), hidden * sizeof(float));
            if (cell.has_c) memcpy(outgoing.c + at, dc(l, i), hidden * sizeof(float));
        }
        if (outgoing.p) outgoing.p[slot.row] = slot.dp;
        if (outgoing.acc) outgoing.acc[slot.row] = slot.dacc;
    }

    void move(int64_t from, int64_t to) {
        slots[to] = slots[from];
        for (int64_t l = 0; l < layers; l++) {
            memcpy(dh(l, to), dh(l, from), width * sizeof(float));
            if (cell.has_c) memcpy(dc(l, to), dc(l, from), width * sizeof(float));
        }
    }
};

}  // namespace

#endif
