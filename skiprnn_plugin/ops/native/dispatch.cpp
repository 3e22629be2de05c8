/* The C interface: chooses the kernels, packs weights, divides the work between threads and adds up their gradients. */
#include "skiprnn.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "layout.h"
#include "packing.h"
#include "pool.h"

extern "C" {
const Level *skiprnn_level_baseline();
#ifdef SKIPRNN_X86_LEVELS
const Level *skiprnn_level_avx2();
const Level *skiprnn_level_avx512();
#endif
}

namespace {

/* The instruction sets that this machine supports, best first. */
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
    // This is never destroyed, because a scan may still run while the process ends.
    static const auto *const found = new std::vector<const Level *>(find_levels());
    return *found;
}

std::atomic<const Level *> chosen{nullptr};

const Level &level() {
    const Level *now = chosen.load();
    return now ? *now : *levels().front();
}

/* A thread needs at least this many multiply-adds (about 100 microseconds), because it may have to be woken up. */
constexpr double WORTH_A_THREAD = 4e6;
/* A thread that copies needs at least this many floats (about 30 microseconds). */
constexpr int64_t WORTH_MOVING = 256 * 1024;
/* Up to this number of weights, they stay in the cache of a core. */
constexpr int64_t FITS_CACHE = 160 * 1024;
/* Above this number of weights, the cache of a core holds a part of them at best. */
constexpr int64_t EXCEEDS_CACHE = 512 * 1024;
/* Sequences at a time in a thread: more if the weights do not stay in its cache. */
constexpr int64_t SLOTS = 8, SLOTS_OF_LARGE = 32;

int64_t multiply_adds(const skiprnn_shape &shape) {
    int64_t sum = 0;
    for (int64_t l = 0; l < shape.layers; l++)
        sum += CELLS[shape.cell].gates * shape.hidden * (shape.hidden + inputs_of(shape, l));
    return sum;
}

/* Calls work(i) once for every i = 0..count-1, in at most `count` threads. */
template <class Work>
void in_threads(int64_t count, const Work &work) {
    Pool::instance().run(count, [](const void *context, int64_t i) noexcept { (*(const Work *)context)(i); }, &work);
}

/* Divides the copying of `size` floats between at most `threads` threads, and calls `work` with every portion. */
template <class Work>
void in_portions(int64_t threads, int64_t size, const Work &work) {
    const int64_t parts = std::max<int64_t>(1, std::min(threads, size / WORTH_MOVING));
    in_threads(parts, [&](int64_t i) { work(Portion{i, parts}); });
}

/* How the work on a problem is divided: either its sequences between `threads` threads, or every product between the
 * threads of a `team`. A thread works on `slots` sequences at a time. */
struct Split {
    int64_t threads, slots;
    Team team;
};

Split split(const skiprnn_problem &problem, double products) {
    const int64_t weights = multiply_adds(problem.shape);
    const double work = products * weights / WORTH_A_THREAD;
    const int64_t threads = std::max<int64_t>(1, std::min(problem.threads, (int64_t)work));
    // In a team, a thread fetches only its part of the weights, but has to wait for the others at every product.
    const bool in_team = problem.batch == 1 || (weights > EXCEEDS_CACHE && problem.batch <= 2 * threads);
    Split plan;
    plan.threads = in_team ? 1 : std::max<int64_t>(1, std::min(threads, problem.batch));
    plan.team = {in_team ? threads : 1,
                 [](int64_t parts, Part part, const void *context) { Pool::instance().run(parts, part, context); }};
    plan.slots = weights > FITS_CACHE ? SLOTS_OF_LARGE : SLOTS;
    plan.slots = std::max<int64_t>(1, std::min(plan.slots, (problem.batch + plan.threads - 1) / plan.threads));
    return plan;
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

int64_t totals_of_layers(const skiprnn_shape &shape) {
    int64_t size = 0;
    for (int64_t l = 0; l < shape.layers; l++) size += totals_layer(shape, l).size;
    return size;
}

int64_t totals_size(const skiprnn_problem &problem) {
    return totals_of_layers(problem.shape) + padded(problem.shape.hidden) * problem.gate_count + STRIP;
}

/* The cost of a sequence in the backward, counted in products with the weights: about 3 for an update, and a fraction
 * of one for every step, because skipped steps are computed too. */
double backward_cost(const skiprnn_problem &problem, const skiprnn_saved &saved, int64_t row) {
    return 3.0 * saved.chains[2 * row + 1] + 0.25 * (end_of(problem, row) - begin_of(problem, row));
}

/* Assigns sequences to threads so that the threads have about the same work: every sequence, starting with the most
 * expensive, goes to the thread that has the least work so far. */
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
    const Split plan = split(problem, all_steps(problem));
    std::vector<double> lengths(problem.batch);
    for (int64_t row = 0; row < problem.batch; row++) lengths[row] = end_of(problem, row) - begin_of(problem, row);
    const std::vector<int64_t> order = by_falling(lengths);
    Shared shared = {order.data(), problem.batch, 0, 0, SKIPRNN_OK, plan.team};
    if (saved && saved->projected) {
        const int64_t all = problem.batch * problem.steps,
                      parts = plan.threads * plan.team.threads;  // one of the factors is 1
        in_threads(parts, [&](int64_t i) {
            const Portion portion = {i, parts};
            level().project(&problem, saved->projected, portion.begin(all), portion.end(all));
        });
    }
    in_threads(plan.threads, [&](int64_t) { level().forward(&problem, &result, saved, &shared, plan.slots); });
    if (saved) saved->used = std::min(shared.records, saved->capacity);
    return shared.failed;
}

int run_backward(const skiprnn_problem &problem, const float *packed, const skiprnn_saved &saved,
                 const skiprnn_incoming &incoming, const skiprnn_outgoing &outgoing) {
    const skiprnn_shape &shape = problem.shape;
    double cost = 0;
    for (int64_t row = 0; row < problem.batch; row++) cost += backward_cost(problem, saved, row);
    const Split plan = split(problem, cost);
    const std::vector<std::vector<int64_t>> rows = assign(problem, saved, plan.threads);
    const int64_t size = totals_size(problem);
    const std::unique_ptr<float[]> totals(new float[size * plan.threads]);
    in_portions(problem.threads, size * plan.threads, [&](Portion portion) {
        const int64_t all = size * plan.threads;
        std::fill(totals.get() + portion.begin(all), totals.get() + portion.end(all), 0.0f);
    });
    std::vector<Share> shares(plan.threads);
    for (int64_t i = 0; i < plan.threads; i++)
        shares[i] = {rows[i].data(), (int64_t)rows[i].size(), totals.get() + i * size, SKIPRNN_OK, plan.team};
    if (outgoing.dropout_mask)
        std::fill(outgoing.dropout_mask, outgoing.dropout_mask + (shape.layers - 1) * problem.batch * shape.hidden,
                  0.0f);
    in_threads(plan.threads, [&](int64_t i) {
        level().backward(&problem, packed, &saved, &incoming, &outgoing, &shares[i], plan.slots);
    });
    for (const Share &share : shares)
        if (share.failed) return share.failed;
    for (int64_t i = 1; i < plan.threads; i++)
        for (int64_t k = 0; k < size; k++) totals[k] += totals[i * size + k];
    in_portions(problem.threads, size,
                [&](Portion portion) { unpack_layers(portion, shape, totals.get(), outgoing.weights); });
    const float *from = totals.get() + totals_of_layers(shape);
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
        for (const Level *candidate : levels()) joined += (joined.empty() ? "" : ",") + std::string(candidate->name);
        return joined;
    }();
    return names.c_str();
}

SKIPRNN_API const char *skiprnn_level(void) { return level().name; }

SKIPRNN_API int skiprnn_set_level(const char *name) {
    for (const Level *candidate : levels())
        if (std::strcmp(candidate->name, name) == 0) {
            chosen.store(candidate);
            return 1;
        }
    return 0;
}

SKIPRNN_API int64_t skiprnn_packed_size(const skiprnn_shape *shape, int64_t purpose) {
    int64_t size = layers_size(*shape, purpose);
    for_each_weight(*shape, purpose, [&](int64_t, int64_t count) { size += count; });
    return size;
}

SKIPRNN_API int skiprnn_pack(const skiprnn_shape *shape, const float *const *weights, int64_t purpose, int64_t threads,
                             float *packed, uint64_t *known) {
    const int64_t size = layers_size(*shape, purpose);
    std::atomic<bool> changed{false};
    in_portions(threads, size, [&](Portion portion) {
        if (update_copy(portion, *shape, purpose, weights, packed + size, *known != 0)) changed = true;
    });
    if (!changed) return 0;
    in_portions(threads, size, [&](Portion portion) { pack_layers(portion, *shape, purpose, weights, packed); });
    *known = 1;
    return 1;
}

SKIPRNN_API int skiprnn_packed_is(const skiprnn_shape *shape, const float *const *weights, int64_t purpose,
                                  const float *packed) {
    return is_copy(*shape, purpose, weights, packed + layers_size(*shape, purpose));
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
    } catch (const std::exception &) {  // std::bad_alloc, or std::length_error
        return SKIPRNN_NO_MEMORY;
    }
}

SKIPRNN_API int skiprnn_backward(const skiprnn_problem *problem, const float *packed, const skiprnn_saved *saved,
                                 const skiprnn_incoming *incoming, const skiprnn_outgoing *outgoing) {
    try {
        return run_backward(*problem, packed, *saved, *incoming, *outgoing);
    } catch (const std::exception &) {  // std::bad_alloc, or std::length_error
        return SKIPRNN_NO_MEMORY;
    }
}

SKIPRNN_API void skiprnn_activation(int64_t kind, int64_t n, const float *x, float *y) {
    level().activation(kind, n, x, y);
}
