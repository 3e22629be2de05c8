/* The forward: every slot runs one sequence from update to update. When a sequence ends, its slot takes the next one
 * from the queue. */
#ifndef SKIPRNN_FORWARD_H
#define SKIPRNN_FORWARD_H

#include "ahead.h"

namespace {

template <int CELL>
class Forward {
public:
    Forward(const skiprnn_problem &problem, const skiprnn_result &result, skiprnn_saved *saved, Queue &queue,
            int64_t slot_count)
        : problem(problem), result(result), saved(saved), queue(queue),
          stack(problem, queue.team, saved ? saved->projected : nullptr, slot_count, 0), ahead(stack),
          hidden(stack.hidden), width(stack.width), layers(problem.shape.layers), stride(record_size(problem)),
          keeps(saved && keeps_all(problem)) {
        slots = stack.memory.template take_of<Slot>(slot_count);
        places = stack.memory.template take_of<Place>(slot_count);
        p = stack.memory.take(slot_count);
    }

    void run() {
        if (stack.memory.failed) {
            __atomic_store_n(&queue.failed, SKIPRNN_NO_MEMORY, __ATOMIC_RELAXED);
            return;
        }
        int64_t active = 0;
        while (active < stack.states && admit(active)) active++;
        while (active > 0) {
            for (int64_t i = 0; i < active; i++) places[i] = {slots[i].row, slots[i].time, i};
            ahead.prepare(active, slots);
            if (keeps)
                stack.template candidates<CELL, true>(0, active, places);
            else
                stack.template candidates<CELL, false>(0, active, places);
            if (problem.gate_count > 0) stack.probabilities(0, active, p);
            for (int64_t i = active - 1; i >= 0; i--) {
                if (problem.gate_count > 0) slots[i].p = p[i];
                if (advance(i) || admit(i)) continue;
                active--;
                if (i < active) move(active, i);
            }
        }
    }

private:
    struct Slot {
        int64_t row, time, end, last, count;
        float p, acc;
    };

    const skiprnn_problem &problem;
    const skiprnn_result &result;
    skiprnn_saved *const saved;
    Queue &queue;
    Stack stack;
    Ahead ahead;
    const int64_t hidden, width, layers, stride;
    const bool keeps;
    Slot *slots;
    Place *places;
    float *p;
    int64_t free_records = 0, free_end = 0;

    /* Puts the next sequence that has an update into the slot, and finishes those before it, which have none. Returns
     * false if there is no such sequence. */
    bool admit(int64_t i) {
        while (true) {
            const int64_t taken = __atomic_fetch_add(&queue.next, 1, __ATOMIC_RELAXED);
            if (taken >= queue.count) return false;
            Slot &slot = slots[i];
            const int64_t row = slot.row = queue.order[taken], begin = begin_of(problem, row);
            slot.end = end_of(problem, row);
            slot.last = -1;
            slot.count = 0;
            slot.p = p_of(problem, row);
            slot.acc = acc_of(problem, row);
            for (int64_t l = 0; l < layers; l++) {
                const int64_t at = (l * problem.batch + row) * hidden;
                memcpy(stack.layers[l].h + i * width, problem.h + at, hidden * sizeof(float));
                if (problem.c) memcpy(stack.layers[l].c + i * width, problem.c + at, hidden * sizeof(float));
            }
            memset(result.updates + row * problem.steps, 0, problem.steps * sizeof(float));
            slot.time = next_update(problem, row, begin, slot.end, slot.p, slot.acc, 0);
            if (!problem.last_only) {
                float *output = result.output + row * problem.steps * hidden;
                memset(output, 0, begin * hidden * sizeof(float));
                memset(output + slot.end * hidden, 0, (problem.steps - slot.end) * hidden * sizeof(float));
                hold(i, begin);
            }
            if (slot.time < slot.end) {
                ahead.begin(i);
                return true;
            }
            finish(i);
        }
    }

    /* Records the update that the slot has computed and finds the next one. If there is none, finishes the sequence and
     * returns false. */
    bool advance(int64_t i) {
        Slot &slot = slots[i];
        const int64_t made = slot.time;
        result.updates[slot.row * problem.steps + made] = 1;
        if (saved) record(i);
        if (problem.gate_count > 0) slot.acc = 0;
        slot.time = next_update(problem, slot.row, made + 1, slot.end, slot.p, slot.acc, min_skip_of(problem));
        if (!problem.last_only) hold(i, made);
        if (slot.time < slot.end) return true;
        finish(i);
        return false;
    }

    /* Writes the output of the steps from `from` to before the next update, all of which hold the present state. */
    void hold(int64_t i, int64_t from) {
        const float *h = stack.layers[layers - 1].h + i * width;
        float *output = result.output + (slots[i].row * problem.steps + from) * hidden;
        for (int64_t t = from; t < slots[i].time; t++, output += hidden) memcpy(output, h, hidden * sizeof(float));
    }

    void record(int64_t i) {
        Slot &slot = slots[i];
        if (free_records == free_end) {
            free_records = __atomic_fetch_add(&queue.records, RECORDS_AT_ONCE, __ATOMIC_RELAXED);
            free_end = free_records + RECORDS_AT_ONCE;
        }
        if (free_records >= saved->capacity) {
            __atomic_store_n(&queue.failed, SKIPRNN_SAVED_FULL, __ATOMIC_RELAXED);
            return;
        }
        float *to = saved->records + free_records * stride;
        *(Record *)to = {slot.last, (int32_t)slot.time, slot.p};
        to += RECORD_HEADER;
        for (int64_t l = 0; l < layers; l++, to += hidden)
            memcpy(to, stack.layers[l].h + i * width, hidden * sizeof(float));
        for (int64_t l = 0; l < layers && problem.c; l++, to += hidden)
            memcpy(to, stack.layers[l].c + i * width, hidden * sizeof(float));
        for (int64_t l = 0; l < layers && keeps; l++)
            for (int block = 0; block < stack.cell.kept; block++, to += hidden)
                memcpy(to, stack.layers[l].kept + i * stack.kept_row + block * width, hidden * sizeof(float));
        slot.last = free_records++;
        slot.count++;
    }

    void finish(int64_t i) {
        const Slot &slot = slots[i];
        for (int64_t l = 0; l < layers; l++) {
            const int64_t at = (l * problem.batch + slot.row) * hidden;
            memcpy(result.h + at, stack.layers[l].h + i * width, hidden * sizeof(float));
            if (problem.c) memcpy(result.c + at, stack.layers[l].c + i * width, hidden * sizeof(float));
        }
        if (problem.last_only)
            memcpy(result.output + slot.row * hidden, stack.layers[layers - 1].h + i * width, hidden * sizeof(float));
        result.p[slot.row] = slot.p;
        result.acc[slot.row] = slot.acc;
        if (saved) {
            saved->chains[2 * slot.row] = slot.last;
            saved->chains[2 * slot.row + 1] = slot.count;
        }
    }

    void move(int64_t from, int64_t to) {
        slots[to] = slots[from];
        ahead.move(from, to);
        for (int64_t l = 0; l < layers; l++) {
            memcpy(stack.layers[l].h + to * width, stack.layers[l].h + from * width, width * sizeof(float));
            if (problem.c)
                memcpy(stack.layers[l].c + to * width, stack.layers[l].c + from * width, width * sizeof(float));
        }
    }
};

}  // namespace

#endif
