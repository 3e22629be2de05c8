/* The C interface: chooses the kernels, packs weights, divides the work between threads and adds up their gradients. */
#include "skiprnn.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "layout.h"
#include "packing.h"
#include "pool.h"
#include "stream.h"

extern "C" {
const Level *skiprnn_level_baseline();
#ifdef SKIPRNN_X86_LEVELS
const Level *skiprnn_level_avx2();
const Level *skiprnn_level_avx512();
const Level *skiprnn_level_avx512vnni();
#endif
}

namespace {

/* The instruction sets that this machine supports, best first. */
std::vector<const Level *> find_levels() {
    std::vector<const Level *> levels;
#ifdef SKIPRNN_X86_LEVELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        if (__builtin_cpu_supports("avx512vnni")) levels.push_back(skiprnn_level_avx512vnni());
        levels.push_back(skiprnn_level_avx512());
    }
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

double sum_of(const std::vector<double> &values) { return std::accumulate(values.begin(), values.end(), 0.0); }

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
    return 3.0 * saved.chains[2 * row + 1] + 0.25 * length_of(problem, row);
}

/* Assigns sequences to threads so that the threads have about the same work: every sequence, starting with the most
 * expensive, goes to the thread that has the least work so far. */
std::vector<std::vector<int64_t>> assign(const std::vector<double> &costs, int64_t threads) {
    std::vector<double> load(threads, 0);
    std::vector<std::vector<int64_t>> rows(threads);
    for (const int64_t row : by_falling(costs)) {
        const int64_t least = std::min_element(load.begin(), load.end()) - load.begin();
        rows[least].push_back(row);
        load[least] += costs[row];
    }
    return rows;
}

int run_forward(const skiprnn_problem &problem, const skiprnn_result &result, skiprnn_saved *saved) {
    std::vector<double> lengths(problem.batch);
    for (int64_t row = 0; row < problem.batch; row++) lengths[row] = length_of(problem, row);
    const Split plan = split(problem, sum_of(lengths));
    const std::vector<int64_t> order = by_falling(lengths);
    Queue queue = {order.data(), problem.batch, 0, 0, SKIPRNN_OK, plan.team};
    if (saved && saved->projected) {
        const int64_t all = problem.batch * problem.steps,
                      parts = plan.threads * plan.team.threads;  // one of the factors is 1
        in_threads(parts, [&](int64_t i) {
            const Portion portion = {i, parts};
            level().project(&problem, saved->projected, portion.begin(all), portion.end(all));
        });
    }
    in_threads(plan.threads, [&](int64_t) { level().forward(&problem, &result, saved, &queue, plan.slots); });
    if (saved) saved->used = std::min(queue.records, saved->capacity);
    return queue.failed;
}

int run_backward(const skiprnn_problem &problem, const float *packed, const skiprnn_saved &saved,
                 const skiprnn_incoming &incoming, const skiprnn_outgoing &outgoing) {
    const skiprnn_shape &shape = problem.shape;
    std::vector<double> costs(problem.batch);
    for (int64_t row = 0; row < problem.batch; row++) costs[row] = backward_cost(problem, saved, row);
    const Split plan = split(problem, sum_of(costs));
    const std::vector<std::vector<int64_t>> rows = assign(costs, plan.threads);
    const int64_t size = totals_size(problem);
    const std::unique_ptr<float[]> totals(new float[size * plan.threads]);
    in_portions(problem.threads, size * plan.threads, [&](Portion portion) {
        const int64_t all = size * plan.threads;
        std::fill(totals.get() + portion.begin(all), totals.get() + portion.end(all), 0.0f);
    });
    std::vector<Assignment> assignments(plan.threads);
    for (int64_t i = 0; i < plan.threads; i++)
        assignments[i] = {rows[i].data(), (int64_t)rows[i].size(), totals.get() + i * size, SKIPRNN_OK, plan.team};
    if (outgoing.dropout_mask)
        std::fill(outgoing.dropout_mask, outgoing.dropout_mask + (shape.layers - 1) * problem.batch * shape.hidden,
                  0.0f);
    in_threads(plan.threads, [&](int64_t i) {
        level().backward(&problem, packed, &saved, &incoming, &outgoing, &assignments[i], plan.slots);
    });
    for (const Assignment &assigned : assignments)
        if (assigned.failed) return assigned.failed;
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

/* Updates `count` rows, at most `slots`, with the samples at the stream's places. */
void update(skiprnn_stream &s, const int64_t *rows, int64_t count) {
    level().update_stream(&s, rows, count);
    for (int64_t i = 0; i < count; i++) settle(s, rows[i], s.new_p[i]);
}

void read_samples(skiprnn_stream &s, const float *x, int64_t row_stride, int64_t step_stride) {
    s.problem.x = x;
    s.problem.x_batch_stride = row_stride;
    s.problem.x_step_stride = step_stride;
}

/* Copies rows of H floats between a caller's array [layers, count, H] and the padded one of a stream. */
template <bool INTO_STREAM>
void copy_states(const skiprnn_stream &s, const int64_t *rows, int64_t count, float *states,
                 std::conditional_t<INTO_STREAM, const float *, float *> array) {
    const int64_t hidden = s.problem.shape.hidden, width = padded(hidden);
    for (int64_t l = 0; l < s.problem.shape.layers; l++)
        for (int64_t i = 0; i < count; i++, array += hidden) {
            float *state = states + (l * s.rows + row_at(rows, i)) * width;
            if constexpr (INTO_STREAM)
                std::memcpy(state, array, hidden * sizeof(float));
            else
                std::memcpy(array, state, hidden * sizeof(float));
        }
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

SKIPRNN_API int64_t skiprnn_skips(float p, float *acc, float threshold, int64_t room) {
    return skips_before_update(p, threshold, room, *acc);
}

SKIPRNN_API int64_t skiprnn_stream_size(const skiprnn_stream_options *options) {
    return level().lay_out_stream(options, nullptr);
}

SKIPRNN_API skiprnn_stream *skiprnn_stream_init(const skiprnn_stream_options *options, void *memory) {
    level().lay_out_stream(options, memory);
    return (skiprnn_stream *)memory;
}

SKIPRNN_API int skiprnn_stream_put(skiprnn_stream *stream, const int64_t *rows, int64_t count, const float *h,
                                   const float *c, const float *p, const float *acc, const int64_t *time,
                                   const int64_t *wanted, const int64_t *seeds) {
    skiprnn_stream &s = *stream;
    if (const int fault = check_rows(s, rows, count)) return fault;
    for (int64_t i = 0; i < count; i++) {
        const int64_t now = time ? time[i] : 0;
        if (now < 0 || now > SKIPRNN_LAST || (wanted && wanted[i] < now)) return SKIPRNN_TOO_LATE;
    }
    copy_states<true>(s, rows, count, s.h, h);
    if (s.c) copy_states<true>(s, rows, count, s.c, c);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = row_at(rows, i);
        s.p[row] = p ? p[i] : 1;
        s.acc[row] = acc ? acc[i] : 0;
        s.time[row] = s.since[row] = time ? time[i] : 0;
        if (s.seeds && seeds) s.seeds[row] = seeds[i];
        if (wanted)
            s.wanted[row] = wanted[i];
        else
            find_wanted(s, row, false);
    }
    return SKIPRNN_OK;
}

SKIPRNN_API int skiprnn_stream_get(skiprnn_stream *stream, const int64_t *rows, int64_t count, float *h, float *c,
                                   float *p, float *acc) {
    const skiprnn_stream &s = *stream;
    if (const int fault = check_rows(*stream, rows, count)) return fault;
    copy_states<false>(s, rows, count, s.h, h);
    if (s.c) copy_states<false>(s, rows, count, s.c, c);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = row_at(rows, i);
        p[i] = s.p[row];
        acc[i] = s.acc[row];
        if (s.problem.gate_count > 0) acc[i] = accumulate(p[i], acc[i], s.time[row] - s.since[row]);
    }
    return SKIPRNN_OK;
}

SKIPRNN_API int skiprnn_stream_output(skiprnn_stream *stream, const int64_t *rows, int64_t count, float *output) {
    const skiprnn_stream &s = *stream;
    if (const int fault = check_rows(*stream, rows, count)) return fault;
    const int64_t hidden = s.problem.shape.hidden, width = padded(hidden);
    const float *top = s.h + (s.problem.shape.layers - 1) * s.rows * width;
    for (int64_t i = 0; i < count; i++)
        std::memcpy(output + i * hidden, top + row_at(rows, i) * width, hidden * sizeof(float));
    return SKIPRNN_OK;
}

SKIPRNN_API const int64_t *skiprnn_stream_time(const skiprnn_stream *stream) { return stream->time; }

SKIPRNN_API const int64_t *skiprnn_stream_wanted(const skiprnn_stream *stream) { return stream->wanted; }

SKIPRNN_API int64_t skiprnn_stream_wait(const skiprnn_stream *stream, int64_t row) {
    const int64_t wanted = stream->wanted[row];
    return wanted == SKIPRNN_NEVER ? SKIPRNN_NEVER : wanted - stream->time[row];
}

SKIPRNN_API int skiprnn_stream_update(skiprnn_stream *stream, const int64_t *rows, int64_t count, const float *x) {
    skiprnn_stream &s = *stream;
    if (const int fault = check_rows(s, rows, count)) return fault;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = row_at(rows, i);
        if (s.wanted[row] != s.time[row]) return SKIPRNN_TOO_EARLY;
    }
    read_samples(s, x, s.problem.shape.input, 0);
    for (int64_t first = 0; first < count; first += s.slots) {
        const int64_t size = std::min(s.slots, count - first);
        for (int64_t i = 0; i < size; i++) {
            s.taken[i] = row_at(rows, first + i);
            s.places[i] = {first + i, 0, i};
        }
        update(s, s.taken, size);
        for (int64_t i = 0; i < size; i++) s.time[s.taken[i]]++;
    }
    return SKIPRNN_OK;
}

SKIPRNN_API int skiprnn_stream_skip(skiprnn_stream *stream, const int64_t *rows, int64_t count, const int64_t *steps,
                                    int64_t same) {
    skiprnn_stream &s = *stream;
    if (const int fault = check_rows(s, rows, count)) return fault;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = row_at(rows, i), step = steps ? steps[i] : same;
        if (step < 0 || step > room_of(s, row)) return SKIPRNN_TOO_LATE;
    }
    for (int64_t i = 0; i < count; i++) s.time[row_at(rows, i)] += steps ? steps[i] : same;
    return SKIPRNN_OK;
}

SKIPRNN_API int skiprnn_stream_feed(skiprnn_stream *stream, const int64_t *rows, int64_t count, const float *x,
                                    int64_t row_stride, int64_t step_stride, int64_t steps, int64_t *used) {
    skiprnn_stream &s = *stream;
    if (const int fault = check_rows(s, rows, count)) return fault;
    for (int64_t i = 0; i < count; i++)
        if (steps < 0 || steps > SKIPRNN_LAST - s.time[row_at(rows, i)]) return SKIPRNN_TOO_LATE;
    read_samples(s, x, row_stride, step_stride);
    int64_t next = 0, active = 0, total = 0;
    while (true) {
        for (; active < s.slots && next < count; next++) {  // a row that has finished leaves its slot to the next one
            const int64_t row = row_at(rows, next);
            if (s.wanted[row] - s.time[row] >= steps) continue;
            s.taken[active] = row;
            s.places[active++].row = next;
        }
        if (active == 0) break;
        for (int64_t i = 0; i < active; i++) {
            const int64_t row = s.taken[i];
            s.places[i] = {s.places[i].row, s.wanted[row] - s.time[row], i};
        }
        update(s, s.taken, active);
        total += active;
        int64_t left = 0;
        for (int64_t i = 0; i < active; i++) {
            const int64_t row = s.taken[i];
            if (s.wanted[row] - s.time[row] >= steps) continue;
            s.places[left].row = s.places[i].row;
            s.taken[left++] = row;
        }
        active = left;
    }
    for (int64_t i = 0; i < count; i++) s.time[row_at(rows, i)] += steps;
    if (used) *used = total;
    return SKIPRNN_OK;
}

SKIPRNN_API void skiprnn_activation(int64_t kind, int64_t n, const float *x, float *y) {
    level().activation(kind, n, x, y);
}
