/* The kernels of one instruction set, which is named SKIPRNN_LEVEL; the compiler's flags select it. This file must not
 * include any header of the C++ library: the header's inline functions would be compiled for this instruction set, and
 * the linker might use them everywhere. */
#include "backward.h"
#include "forward.h"
#include "stream_update.h"

namespace {

template <int CELL>
struct Constant {
    static constexpr int value = CELL;
};

template <class Function>
void with_cell(int64_t cell, Function function) {
    switch (cell) {
        case SKIPRNN_LSTM: return function(Constant<SKIPRNN_LSTM>());
        case SKIPRNN_GRU: return function(Constant<SKIPRNN_GRU>());
        case SKIPRNN_GRU_RESET_BEFORE: return function(Constant<SKIPRNN_GRU_RESET_BEFORE>());
        default: return function(Constant<SKIPRNN_RNN>());
    }
}

void project(const skiprnn_problem *problem, float *projected, int64_t first, int64_t last) {
    const CellLayout &cell = CELLS[problem->shape.cell];
    const int64_t size = cell.gates * padded(problem->shape.hidden), most = 64;
    const PackedOffsets offsets = packed_layer(problem->shape, 0);
    while (first < last) {
        const int64_t row = first / problem->steps, t = first % problem->steps;
        int64_t count = problem->steps - t < last - first ? problem->steps - t : last - first;
        count = count < most ? count : most;
        multiply({1, nullptr}, problem->x + row * problem->x_batch_stride + t * problem->x_step_stride,
                 problem->x_step_stride, problem->packed + offsets.ih, problem->shape.input * STRIP,
                 problem->packed + offsets.bias, 0, projected + first * size, size, count, size / STRIP,
                 problem->shape.input);
        first += count;
    }
}

void forward(const skiprnn_problem *problem, const skiprnn_result *result, skiprnn_saved *saved, Queue *queue,
             int64_t slots) {
    with_cell(problem->shape.cell,
              [&](auto cell) { Forward<decltype(cell)::value>(*problem, *result, saved, *queue, slots).run(); });
}

void backward(const skiprnn_problem *problem, const float *packed, const skiprnn_saved *saved,
              const skiprnn_incoming *incoming, const skiprnn_outgoing *outgoing, Assignment *assigned, int64_t slots) {
    with_cell(problem->shape.cell, [&](auto cell) {
        Backward<decltype(cell)::value>(*problem, packed, *saved, *incoming, *outgoing, *assigned, slots).run();
    });
}

void update_stream(skiprnn_stream *stream, const int64_t *rows, int64_t count) {
    with_cell(stream->problem.shape.cell,
              [&](auto cell) { update_stream<decltype(cell)::value>(*stream, rows, count); });
}

void activation(int64_t kind, int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i += LANES) {
        float values[LANES] = {};
        const int64_t count = n - i < LANES ? n - i : LANES;
        memcpy(values, x + i, count * sizeof(float));
        store(values, kind ? tanh(load(values)) : sigmoid(load(values)));
        memcpy(y + i, values, count * sizeof(float));
    }
}

}  // namespace

#define SKIPRNN_JOIN(a, b) a##b
#define SKIPRNN_NAME(level) SKIPRNN_JOIN(skiprnn_level_, level)
#define SKIPRNN_TEXT_OF(a) #a
#define SKIPRNN_TEXT(a) SKIPRNN_TEXT_OF(a)

extern "C" __attribute__((visibility("hidden"))) const Level *SKIPRNN_NAME(SKIPRNN_LEVEL)() {
    static const Level level = {
        SKIPRNN_TEXT(SKIPRNN_LEVEL), project, forward, backward, activation, lay_out_stream, update_stream};
    return &level;
}
