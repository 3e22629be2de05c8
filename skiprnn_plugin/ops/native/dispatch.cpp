/* The C interface: chooses the kernels, packs weights, shares the work out among threads and adds their gradients up.
 */
#include "skiprnn.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "layout.h"
#include "pool.h"

extern "C" {
const Level *skiprnn_level_baseline();
#ifdef SKIPRNN_X86_LEVELS
const Level *skiprnn_level_avx2();
const Level *skiprnn_level_avx512();
#endif
}

namespace {

/* Those that this machine can run, best first. */
std::vector<const Level *> find_levels() {
    std::vector<const Level *> levels;
#ifdef SKIPRNN_X86_LEVELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        levels.push_back(skiprnn_level_avx512());
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) levels.push_back(skiprnn_level_avx2());
#endif
    levels.push_back(skiprnn_level_baseline());
    return levels;
}

const std::vector<const Level *> &levels() {
    static const std::vector<const Level *> found = find_levels();
    return found;
}

std::atomic<const Level *> chosen{nullptr};

const Level &level() {
    const Level *now = chosen.load();
    return now ? *now : *levels().front();
}

constexpr double WORTH_A_THREAD = 5e5; /* multiply-adds, some 10 microseconds */
constexpr int64_t CACHED = 160 * 1024; /* floats of weights that stay in a core's own cache */
constexpr int64_t SLOTS = 8,
                  SLOTS_OF_LARGE = 32; /* sequences at a time: more, where weights must come from further away */

int64_t multiply_adds(const skiprnn_shape &shape) {
    int64_t sum = 0;
    for (int64_t l = 0; l < shape.layers; l++)
        sum += CELLS[shape.cell].gates * shape.hidden * (shape.hidden + inputs_of(shape, l));
    return sum;
}

/* Calls `work` with 0..count-1, each once, in so many threads at most. */
template <class Work>
void in_threads(int64_t count, const Work &work) {
    Pool::own().run(count, [](const void *of, int64_t i) { (*(const Work *)of)(i); }, &work);
}

/* How a problem is shared out: sequences to `threads`, or, where they are fewer than threads, each product to a `team`
 * of them. `slots`: sequences at a time. */
struct Split {
    int64_t threads, slots;
    Team team;
};

Split split(const skiprnn_problem &problem, double products) {
    const double work = products * multiply_adds(problem.shape) / WORTH_A_THREAD;
    const int64_t threads = std::max<int64_t>(1, std::min(problem.threads, (int64_t)work));
    const bool alone = problem.batch < threads;
    Split of;
    of.threads = alone ? 1 : threads;
    of.team = {alone ? threads : 1,
               [](int64_t parts, Part part, const void *work) { Pool::own().run(parts, part, work); }};
    of.slots = multiply_adds(problem.shape) > CACHED ? SLOTS_OF_LARGE : SLOTS;
    of.slots = std::max<int64_t>(1, std::min(of.slots, (problem.batch + of.threads - 1) / of.threads));
    return of;
}

double all_steps(const skiprnn_problem &problem) {
    double sum = 0;
    for (int64_t row = 0; row < problem.batch; row++) sum += end_of(problem, row) - begin_of(problem, row);
    return sum;
}

std::vector<int64_t> by_falling(const std::vector<double> &sizes) {
    std::vector<int64_t> order(sizes.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = (int64_t)i;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return sizes[a] > sizes[b]; });
    return order;
}

/* to[k][16 s + lane] = from[16 s + lane][k], in strips; `from` [rows, depth] by rows, the columns of `to` padded with
 * 0. */
void pack_columns(const float *from, int64_t rows, int64_t depth, float *to) {
    for (int64_t strip = 0; strip < rows; strip += STRIP, to += depth * STRIP)
        for (int64_t first = 0; first < depth; first += STRIP) {  // in squares, which fit the nearest cache
            const int64_t last = std::min(first + STRIP, depth);
            for (int64_t lane = 0; lane < STRIP; lane++) {
                const bool there = strip + lane < rows;
                const float *row = from + (strip + lane) * depth;
                for (int64_t k = first; k < last; k++) to[k * STRIP + lane] = there ? row[k] : 0;
            }
        }
}

/* The same of `from`'s columns, of whose rows this is one gate's: k from `first` on of `depth`, padded with 0. */
void pack_rows(const float *from, int64_t rows, int64_t columns, int64_t first, int64_t depth, float *to) {
    for (int64_t strip = 0; strip < strips_of(columns); strip++) {
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

void pack_layer(const skiprnn_shape &shape, int64_t layer, const float *const *weights, float *packed) {
    const CellLayout &cell = CELLS[shape.cell];
    const Packed at = packed_layer(shape, layer);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer);
    std::fill(packed, packed + at.ih, 0.0f);
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g], hh = cell.hh_order[g];
        pack_columns(weights[0] + ih * hidden * input, hidden, input, packed + at.ih + g * width * input);
        pack_columns(weights[1] + hh * hidden * hidden, hidden, hidden, packed + at.hh + g * width * hidden);
        for (int64_t k = 0; k < hidden; k++) {
            packed[at.bias + g * width + k] += weights[2][ih * hidden + k];
            packed[at.bias + (cell.hh_at + g) * width + k] += weights[3][hh * hidden + k];
        }
    }
}

void pack_transposed_layer(const skiprnn_shape &shape, int64_t layer, bool for_x, const float *const *weights,
                           float *packed) {
    const CellLayout &cell = CELLS[shape.cell];
    const Packed at = transposed_layer(shape, layer, for_x);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer),
                  depth = cell.gates * width;
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g], hh = cell.hh_order[g];
        if (at.size > at.ih)
            pack_rows(weights[0] + ih * hidden * input, hidden, input, g * width, depth, packed + at.ih);
        pack_rows(weights[1] + hh * hidden * hidden, hidden, hidden, g * width, depth, packed + at.hh);
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

int64_t totals_size(const skiprnn_problem &problem) {
    int64_t size = padded(problem.shape.hidden) * problem.gate_count + STRIP;
    for (int64_t l = 0; l < problem.shape.layers; l++) size += totals_layer(problem.shape, l).size;
    return size;
}

/* From blocks of padded(H) to torch's gradients of one layer. */
void give_layer(const skiprnn_shape &shape, int64_t layer, const float *totals, float *const *weights) {
    const CellLayout &cell = CELLS[shape.cell];
    const Totals at = totals_layer(shape, layer);
    const int64_t hidden = shape.hidden, width = padded(hidden), input = inputs_of(shape, layer);
    for (int g = 0; g < cell.gates; g++) {
        const int64_t ih = cell.ih_order[g] * hidden, hh = cell.hh_order[g] * hidden;
        const float *rows = totals + at.hh + g * width * width;
        for (int64_t k = 0; k < hidden; k++)
            std::memcpy(weights[1] + (hh + k) * hidden, rows + k * width, hidden * sizeof(float));
        std::memcpy(weights[2] + ih, totals + at.bias + g * width, hidden * sizeof(float));
        std::memcpy(weights[3] + hh, totals + at.bias + (cell.hh_at + g) * width, hidden * sizeof(float));
        if (layer > 0 || is_wide(shape)) {
            rows = totals + at.ih + g * width * padded(input);
            for (int64_t k = 0; k < hidden; k++)
                std::memcpy(weights[0] + (ih + k) * input, rows + k * padded(input), input * sizeof(float));
        } else {
            rows = totals + at.ih + g * width;
            for (int64_t k = 0; k < hidden; k++)
                for (int64_t d = 0; d < input; d++) weights[0][(ih + k) * input + d] = rows[d * cell.gates * width + k];
        }
    }
}

/* What a sequence costs in the backward, in products with the weights: some 3 for an update, and a part of one for
 * every step, as skipped ones are looked at too. */
double backward_cost(const skiprnn_problem &problem, const skiprnn_saved &saved, int64_t row) {
    return 3.0 * saved.chains[2 * row + 1] + 0.25 * (end_of(problem, row) - begin_of(problem, row));
}

/* Sequences to threads so that the busiest has the least to do: each, from the costliest on, to the one with the least
 * so far. */
std::vector<std::vector<int64_t>> assign(const skiprnn_problem &problem, const skiprnn_saved &saved, int64_t threads) {
    std::vector<double> costs(problem.batch), load(threads, 0);
    for (int64_t row = 0; row < problem.batch; row++) costs[row] = backward_cost(problem, saved, row);
    std::vector<std::vector<int64_t>> rows(threads);
    for (const int64_t row : by_falling(costs)) {
        const int64_t least = std::min_element(load.begin(), load.end()) - load.begin();
        rows[least].push_back(row);
        load[least] += costs[row];
    }
    return rows;
}

int run_forward(const skiprnn_problem &problem, const skiprnn_result &result, skiprnn_saved *saved) {
    const Split of = split(problem, all_steps(problem));
    std::vector<double> lengths(problem.batch);
    for (int64_t row = 0; row < problem.batch; row++) lengths[row] = end_of(problem, row) - begin_of(problem, row);
    const std::vector<int64_t> order = by_falling(lengths);
    Shared shared = {order.data(), problem.batch, 0, 0, SKIPRNN_OK, of.team};
    if (saved && saved->projected) {
        const int64_t all = problem.batch * problem.steps, parts = of.threads * of.team.threads;  // one of them is 1
        in_threads(parts, [&](int64_t i) {
            level().project(&problem, saved->projected, all * i / parts, all * (i + 1) / parts);
        });
    }
    in_threads(of.threads, [&](int64_t) { level().forward(&problem, &result, saved, &shared, of.slots); });
    if (saved) saved->used = std::min(shared.records, saved->capacity);
    return shared.failed;
}

int run_backward(const skiprnn_problem &problem, const float *packed, const skiprnn_saved &saved,
                 const skiprnn_incoming &incoming, const skiprnn_outgoing &outgoing) {
    const skiprnn_shape &shape = problem.shape;
    double cost = 0;
    for (int64_t row = 0; row < problem.batch; row++) cost += backward_cost(problem, saved, row);
    const Split of = split(problem, cost);
    const std::vector<std::vector<int64_t>> rows = assign(problem, saved, of.threads);
    const int64_t size = totals_size(problem);
    std::vector<float> totals(size * of.threads, 0.0f);
    std::vector<Share> shares(of.threads);
    for (int64_t i = 0; i < of.threads; i++)
        shares[i] = {rows[i].data(), (int64_t)rows[i].size(), totals.data() + i * size, SKIPRNN_OK, of.team};
    if (outgoing.dropout_mask)
        std::fill(outgoing.dropout_mask, outgoing.dropout_mask + (shape.layers - 1) * problem.batch * shape.hidden,
                  0.0f);
    in_threads(of.threads, [&](int64_t i) {
        level().backward(&problem, packed, &saved, &incoming, &outgoing, &shares[i], of.slots);
    });
    for (const Share &share : shares)
        if (share.failed) return share.failed;
    for (int64_t i = 1; i < of.threads; i++)
        for (int64_t k = 0; k < size; k++) totals[k] += totals[i * size + k];
    const float *from = totals.data();
    for (int64_t l = 0; l < shape.layers; l++) {
        give_layer(shape, l, from, outgoing.weights + 4 * l);
        from += totals_layer(shape, l).size;
    }
    for (int64_t g = 0; g < problem.gate_count; g++, from += padded(shape.hidden))
        std::memcpy(outgoing.gate_weight + g * shape.hidden, from, shape.hidden * sizeof(float));
    if (problem.gate_count > 0) outgoing.gate_bias[0] = from[0];
    return SKIPRNN_OK;
}

}  // namespace

#define SKIPRNN_API extern "C" __attribute__((visibility("default")))

SKIPRNN_API int64_t skiprnn_abi(void) { return SKIPRNN_ABI; }

SKIPRNN_API const char *skiprnn_levels(void) {
    static const std::string names = [] {
        std::string joined;
        for (const Level *each : levels()) joined += (joined.empty() ? "" : ",") + std::string(each->name);
        return joined;
    }();
    return names.c_str();
}

SKIPRNN_API const char *skiprnn_level(void) { return level().name; }

SKIPRNN_API int skiprnn_set_level(const char *name) {
    for (const Level *each : levels())
        if (std::strcmp(each->name, name) == 0) {
            chosen.store(each);
            return 1;
        }
    return 0;
}

SKIPRNN_API int64_t skiprnn_packed_size(const skiprnn_shape *shape, int64_t purpose) {
    int64_t size = layers_size(*shape, purpose);
    each_weight(*shape, purpose, [&](int64_t, int64_t count) { size += count; });
    return size;
}

SKIPRNN_API int skiprnn_pack(const skiprnn_shape *shape, const float *const *weights, int64_t purpose, float *packed,
                             uint64_t *known) {
    float *copy = packed + layers_size(*shape, purpose);
    bool same = *known != 0;
    each_weight(*shape, purpose, [&](int64_t index, int64_t count) {
        same = same && std::memcmp(copy, weights[index], count * sizeof(float)) == 0;
        if (!same) std::memcpy(copy, weights[index], count * sizeof(float));
        copy += count;
    });
    if (same) return 0;
    for (int64_t l = 0; l < shape->layers; l++) {
        if (purpose == SKIPRNN_FORWARD)
            pack_layer(*shape, l, weights + 4 * l, packed);
        else
            pack_transposed_layer(*shape, l, purpose == SKIPRNN_BACKWARD_TO_X, weights + 4 * l, packed);
        packed += layer_size(*shape, l, purpose);
    }
    *known = 1;
    return 1;
}

SKIPRNN_API int64_t skiprnn_record_size(const skiprnn_problem *problem) { return record_size(*problem); }

SKIPRNN_API int64_t skiprnn_records(const skiprnn_problem *problem) {
    return problem->batch * problem->steps + problem->threads * RECORDS_AT_ONCE;
}

SKIPRNN_API int64_t skiprnn_projected_size(const skiprnn_problem *problem) {
    if (!is_wide(problem->shape)) return 0;
    return problem->batch * problem->steps * CELLS[problem->shape.cell].gates * padded(problem->shape.hidden);
}

SKIPRNN_API int skiprnn_forward(const skiprnn_problem *problem, const skiprnn_result *result, skiprnn_saved *saved) {
    try {
        return run_forward(*problem, *result, saved);
    } catch (const std::exception &) {  // std::length_error too
        return SKIPRNN_NO_MEMORY;
    }
}

SKIPRNN_API int skiprnn_backward(const skiprnn_problem *problem, const float *packed, const skiprnn_saved *saved,
                                 const skiprnn_incoming *incoming, const skiprnn_outgoing *outgoing) {
    try {
        return run_backward(*problem, packed, *saved, *incoming, *outgoing);
    } catch (const std::exception &) {  // std::length_error too
        return SKIPRNN_NO_MEMORY;
    }
}

SKIPRNN_API void skiprnn_activation(int64_t kind, int64_t n, const float *x, float *y) {
    level().activation(kind, n, x, y);
}
