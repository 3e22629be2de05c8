/* Wide inputs of few sequences: W x + b of the steps that a sequence will probably use, several at a time.
 *
 * A product of one row fetches all of W for it. So while there are fewer sequences than make a good product, some of
 * their next steps are projected together: those at which they would update if p stayed as it is. A wrong guess costs
 * time, never a value, and makes the next guess shorter.
 */
#ifndef SKIPRNN_AHEAD_H
#define SKIPRNN_AHEAD_H

#include "stack.h"

namespace {

class Ahead {
public:
    static constexpr int64_t MOST = 8; /* rows that make a good product */

    explicit Ahead(Stack &stack) : stack(stack), problem(stack.problem), size(stack.cell.gates * stack.width) {
        if (!is_wide(problem.shape) || stack.projected) return;
        rows = stack.memory.take(stack.states * MOST * size);
        fresh = stack.memory.take(stack.states * MOST * size);
        x = stack.memory.take(stack.states * MOST * problem.shape.input);
        guesses = stack.memory.take_of<Guess>(stack.states);
        stack.ready = stack.memory.take_of<const float *>(stack.states);
    }

    bool on() const { return rows != nullptr; }

    /* A new sequence is in the slot. */
    void begin(int64_t slot) {
        if (on()) guesses[slot] = {{}, 0, 0, MOST};
    }

    void move(int64_t from, int64_t to) {
        if (!on()) return;
        guesses[to] = guesses[from];
        memcpy(rows + to * MOST * size, rows + from * MOST * size, MOST * size * sizeof(float));
    }

    /* Sets `stack.ready` for an update of each slot, which has a `row`, `time`, `end` and the last `p`. */
    template <class Slot>
    void prepare(int64_t active, const Slot *slots) {
        if (!on()) return;
        int64_t count = 0;
        for (int64_t i = 0; i < active; i++)
            if (!find(i, slots[i].time)) count += guess(i, slots[i], active < MOST ? MOST / active : 1, count);
        if (count > 0) {
            const Layer &layer = stack.layers[0];
            multiply(stack.team, x, layer.input, layer.ih, layer.ih_strip, layer.bias, 0, fresh, size, count,
                     size / STRIP, layer.input);
        }
        const float *from = fresh;
        for (int64_t i = 0; i < active; i++) {
            Guess &of = guesses[i];
            if (of.next == 0) {  // just made
                memcpy(rows + i * MOST * size, from, of.count * size * sizeof(float));
                from += of.count * size;
            }
            stack.ready[i] = rows + (i * MOST + of.next) * size;
            of.next++;
        }
    }

private:
    /* Steps that have been projected, of which those before `next` are past; how many to take the next time. */
    struct Guess {
        int64_t times[MOST], count, next, depth;
    };

    Stack &stack;
    const skiprnn_problem &problem;
    const int64_t size;
    float *rows = nullptr, *fresh = nullptr, *x = nullptr;
    Guess *guesses = nullptr;

    /* Whether the step is there; `next` is then where. */
    bool find(int64_t slot, int64_t time) {
        Guess &of = guesses[slot];
        while (of.next < of.count && of.times[of.next] < time) of.next++;
        return of.next > 0 && of.next < of.count && of.times[of.next] == time;
    }

    /* Gathers the inputs of the slot's next steps behind `first` others; returns how many they are. */
    template <class Slot>
    int64_t guess(int64_t index, const Slot &slot, int64_t most, int64_t first) {
        Guess &of = guesses[index];
        const bool missed = of.next < of.count;
        of.depth = missed ? (of.depth + 1) / 2 : of.count > 0 ? of.depth * 2 : of.depth;
        of.depth = of.depth > MOST ? MOST : of.depth;
        int64_t time = slot.time;
        for (of.count = of.next = 0; of.count < of.depth && of.count < most && time < slot.end; of.count++) {
            of.times[of.count] = time;
            memcpy(x + (first + of.count) * problem.shape.input, stack.x_at(slot.row, time),
                   problem.shape.input * sizeof(float));
            float acc = 0;
            time = next_update(problem, slot.row, time + 1, slot.end, slot.p, acc);
        }
        return of.count;
    }
};

}  // namespace

#endif
