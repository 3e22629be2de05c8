/* Wide inputs of few sequences: computes W x + b of several steps at once that a sequence will probably update.
 *
 * A product with one row has to fetch all of W for that row. So if there are too few sequences for an efficient
 * product, several of their next steps are projected together: the steps that would be updated if p did not change. A
 * wrong guess costs time but does not change any value, and the next guess will have fewer steps.
 */
#ifndef SKIPRNN_AHEAD_H
#define SKIPRNN_AHEAD_H

#include "stack.h"

namespace {

class Ahead {
public:
    static constexpr int64_t MOST = 8; /* number of rows of an efficient product */

    explicit Ahead(Stack &stack) : stack(stack), problem(stack.problem), size(stack.cell.gates * stack.width) {
        if (!is_wide(problem.shape) || stack.projected) return;
        rows = stack.memory.take(stack.states * MOST * size);
        fresh = stack.memory.take(stack.states * MOST * size);
        x = stack.memory.take(stack.states * MOST * problem.shape.input);
        guesses = stack.memory.take_of<Guess>(stack.states);
        stack.ready = stack.memory.take_of<const float *>(stack.states);
    }

    bool on() const { return rows != nullptr; }

    /* A new sequence has been put into the slot. */
    void begin(int64_t slot) {
        if (on()) guesses[slot] = {{}, 0, 0, MOST};
    }

    void move(int64_t from, int64_t to) {
        if (!on()) return;
        guesses[to] = guesses[from];
        memcpy(rows + to * MOST * size, rows + from * MOST * size, MOST * size * sizeof(float));
    }

    /* Sets `stack.ready` for the next update of every slot. A slot has `row`, `time`, `end` and the present `p`. */
    template <class Slot>
    void prepare(int64_t active, const Slot *slots) {
        if (!on()) return;
        int64_t count = 0;
        for (int64_t i = 0; i < active; i++)
            if (!find(i, slots[i].time)) count += make_guess(i, slots[i], active < MOST ? MOST / active : 1, count);
        if (count > 0) {
            const Layer &layer = stack.layers[0];
            multiply(stack.team, x, layer.input, layer.ih, layer.ih_strip, layer.bias, 0, fresh, size, count,
                     size / STRIP, layer.input);
        }
        const float *from = fresh;
        for (int64_t i = 0; i < active; i++) {
            Guess &guess = guesses[i];
            if (guess.next == 0) {  // a new guess
                memcpy(rows + i * MOST * size, from, guess.count * size * sizeof(float));
                from += guess.count * size;
            }
            stack.ready[i] = rows + (i * MOST + guess.next) * size;
            guess.next++;
        }
    }

private:
    /* `times` are the `count` steps that have been projected. Those before index `next` are past. The next guess has at
     * most `depth` steps. */
    struct Guess {
        int64_t times[MOST], count, next, depth;
    };

    Stack &stack;
    const skiprnn_problem &problem;
    const int64_t size;
    float *rows = nullptr, *fresh = nullptr, *x = nullptr;
    Guess *guesses = nullptr;

    /* Whether the step has been projected; if so, `next` becomes its index. */
    bool find(int64_t slot, int64_t time) {
        Guess &guess = guesses[slot];
        while (guess.next < guess.count && guess.times[guess.next] < time) guess.next++;
        return guess.next > 0 && guess.next < guess.count && guess.times[guess.next] == time;
    }

    /* Guesses the slot's next updates and copies their inputs to the rows of `x` from `first` on. Returns their number.
     */
    template <class Slot>
    int64_t make_guess(int64_t index, const Slot &slot, int64_t most, int64_t first) {
        Guess &guess = guesses[index];
        const bool missed = guess.next < guess.count;
        guess.depth = missed ? (guess.depth + 1) / 2 : guess.count > 0 ? guess.depth * 2 : guess.depth;
        guess.depth = guess.depth > MOST ? MOST : guess.depth;
        int64_t time = slot.time;
        for (guess.count = guess.next = 0; guess.count < guess.depth && guess.count < most && time < slot.end;
             guess.count++) {
            guess.times[guess.count] = time;
            memcpy(x + (first + guess.count) * problem.shape.input, stack.x_at(slot.row, time),
                   problem.shape.input * sizeof(float));
            float acc = 0;
            time = next_update(problem, slot.row, time + 1, slot.end, slot.p, acc, min_skip_of(problem));
        }
        return guess.count;
    }
};

}  // namespace

#endif
