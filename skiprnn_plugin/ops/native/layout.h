/* The layout in memory of the cells' gates, the packed weights and the records. H is padded to strips of 16; padding is
 * zero and stays zero. */
#ifndef SKIPRNN_LAYOUT_H
#define SKIPRNN_LAYOUT_H

#include "skiprnn.h"

/* A candidate to compute: its sequence, its step, and the index of the held state that it starts from. */
struct Place {
    int64_t row, time, state;
};

namespace {

constexpr int64_t STRIP = 16;

inline int64_t strips_of(int64_t size) { return (size + STRIP - 1) / STRIP; }
inline int64_t padded(int64_t size) { return strips_of(size) * STRIP; }
inline int64_t pairs_of(int64_t size) { return (size + 1) / 2; }

/* Inputs wider than this are projected by large products: of all steps at once if a backward follows, otherwise only of
 * the steps that are updated. */
constexpr int64_t NARROW = 32;
inline bool is_wide(const skiprnn_shape &shape) { return shape.input > NARROW; }

/* A cell's sums before its nonlinearities are stored in blocks of padded(H) floats. W x + b goes to the blocks from 0
 * on, in the order `ih_order` of torch's gates, and U h to the blocks from `hh_at` on, in the order `hh_order`. A block
 * that gets both holds their sum. */
struct CellLayout {
    int gates; /* G */
    int sums;  /* number of blocks of sums */
    int kept;  /* number of blocks that the backward reads; they include those of the sums */
    int hh_at;
    int hh_first; /* number of gates whose U h is a product with h (not with r h) */
    bool has_c;
    int ih_order[4], hh_order[4];
};

constexpr CellLayout CELLS[] = {
    {4, 4, 5, 0, 4, true, {0, 1, 2, 3}, {0, 1, 2, 3}},    /* i, f, g, o and tanh(c) */
    {3, 4, 4, 1, 3, false, {2, 0, 1, -1}, {0, 1, 2, -1}}, /* W x of n, r, z, U h of n */
    {3, 3, 3, 0, 2, false, {0, 1, 2, -1}, {0, 1, 2, -1}}, /* r, z, n */
    {1, 1, 1, 0, 1, false, {0, -1, -1, -1}, {0, -1, -1, -1}},
};

/* Offsets, in floats, of the parts of one layer's packed weights. Matrices are stored in strips of 16 columns:
 * [strip][k][16]; weight_hh of SKIPRNN_INT8 with every two k together, [strip][pairs_of(H)][16][2], in int8_t. */
struct PackedOffsets {
    int64_t bias; /* [sums][padded(H)] */
    int64_t ih;   /* weight_ih for x W^T, k over inputs; transposed: for dsums W, k over gates * padded(H) */
    int64_t hh;
    int64_t scale; /* with SKIPRNN_INT8: the scale of every row of weight_hh [gates][padded(H)] */
    int64_t size;  /* of the whole layer */
};

inline int64_t inputs_of(const skiprnn_shape &shape, int64_t layer) { return layer == 0 ? shape.input : shape.hidden; }

inline PackedOffsets packed_layer(const skiprnn_shape &shape, int64_t layer) {
    const CellLayout &cell = CELLS[shape.cell];
    const int64_t width = padded(shape.hidden);
    PackedOffsets offsets;
    offsets.bias = 0;
    offsets.ih = cell.sums * width;
    offsets.hh = offsets.ih + cell.gates * width * inputs_of(shape, layer);
    const bool is_int8 = shape.weights == SKIPRNN_INT8;
    const int64_t floats = (int64_t)sizeof(float);
    const int64_t depth = is_int8 ? (2 * pairs_of(shape.hidden) + floats - 1) / floats : shape.hidden;
    offsets.scale = offsets.hh + cell.gates * width * depth;
    offsets.size = padded(offsets.scale + (is_int8 ? cell.gates * width : 0));
    return offsets;
}

/* The offsets for a backward. With `for_x` the lowest layer's weight_ih, which the gradient of x needs, is included. */
inline PackedOffsets transposed_layer(const skiprnn_shape &shape, int64_t layer, bool for_x) {
    const int64_t depth = CELLS[shape.cell].gates * padded(shape.hidden);
    PackedOffsets offsets;
    offsets.bias = offsets.hh = offsets.scale = 0;
    offsets.ih = padded(shape.hidden) * depth;
    offsets.size = offsets.ih + (layer == 0 && !for_x ? 0 : padded(inputs_of(shape, layer)) * depth);
    return offsets;
}

/* The header of a record: the index of the sequence's previous record (-1: the initial state), the step of the update,
 * and p. Behind it are h and then c of every layer and, if `keeps_all`, the blocks that `combine` keeps, [kept][H] of
 * every layer. */
struct Record {
    int64_t previous;
    int32_t time;
    float p;
};
constexpr int64_t RECORD_HEADER = sizeof(Record) / sizeof(float);

/* The number of floats in a record, a multiple of the header's so that every header is aligned. */
inline int64_t record_size(const skiprnn_shape &shape, bool keeps) {
    const CellLayout &cell = CELLS[shape.cell];
    const int64_t size = RECORD_HEADER + shape.layers * shape.hidden * ((cell.has_c ? 2 : 1) + (keeps ? cell.kept : 0));
    return (size + RECORD_HEADER - 1) / RECORD_HEADER * RECORD_HEADER;
}

/* Whether records keep what the backward would otherwise compute again. */
inline bool keeps_all(const skiprnn_problem &problem) {
    return problem.batch * problem.steps * record_size(problem.shape, true) <= problem.keep_limit;
}

inline int64_t record_size(const skiprnn_problem &problem) { return record_size(problem.shape, keeps_all(problem)); }

constexpr int64_t STREAM_SLOTS = 32;    /* rows of a stream that are updated together */
constexpr int64_t RECORDS_AT_ONCE = 64; /* a thread reserves this many records at a time */

inline int64_t begin_of(const skiprnn_problem &problem, int64_t row) { return problem.begin ? problem.begin[row] : 0; }
inline int64_t end_of(const skiprnn_problem &problem, int64_t row) {
    return problem.end ? problem.end[row] : problem.steps;
}
inline int64_t length_of(const skiprnn_problem &problem, int64_t row) {
    return end_of(problem, row) - begin_of(problem, row);
}
inline int64_t min_skip_of(const skiprnn_problem &problem) { return problem.limits ? problem.limits[0] : 0; }
inline int64_t max_skip_of(const skiprnn_problem &problem) {
    return problem.limits ? problem.limits[1] : SKIPRNN_NEVER;
}
inline float p_of(const skiprnn_problem &problem, int64_t row) { return problem.p ? problem.p[row] : 1; }
inline float acc_of(const skiprnn_problem &problem, int64_t row) { return problem.acc ? problem.acc[row] : 0; }

/* Offsets, in floats, of the gradients of one layer's weights, which a thread sums over its sequences. */
struct Totals {
    int64_t bias; /* [sums][padded(H)] */
    int64_t ih;   /* narrow x: [D][gates * padded(H)], else [gates * padded(H)][padded(D or H)]; in ih_order */
    int64_t hh;   /* [gates * padded(H)][padded(H)], in hh_order */
    int64_t size;
};

inline Totals totals_layer(const skiprnn_shape &shape, int64_t layer) {
    const CellLayout &cell = CELLS[shape.cell];
    const int64_t width = padded(shape.hidden), rows = cell.gates * width;
    Totals offsets;
    offsets.bias = 0;
    offsets.ih = cell.sums * width;
    offsets.hh = offsets.ih + rows * (layer == 0 && !is_wide(shape) ? shape.input : padded(inputs_of(shape, layer)));
    offsets.size = offsets.hh + rows * width;
    return offsets;
}

/* One thread's share of some work: number `part` of `parts` even parts. Of `count` items it has those from begin(count)
 * to before end(count). */
struct Portion {
    int64_t part, parts;

    int64_t begin(int64_t count) const { return count * part / parts; }
    int64_t end(int64_t count) const { return count * (part + 1) / parts; }
};

/* Does part `index` of the work that `context` describes. It must not throw, because other threads may be working on
 * the other parts. */
typedef void (*Part)(const void *context, int64_t index) noexcept;

/* The threads that may share one product, at most `threads`. `run` calls part(context, i) once for every i below
 * `parts`. */
struct Team {
    int64_t threads;
    void (*run)(int64_t parts, Part part, const void *context);
};

/* The sequences of a forward, which its threads take one by one. */
struct Queue {
    const int64_t *order; /* sequences in the order in which they are taken */
    int64_t count;
    int64_t next;    /* atomic: the first entry of `order` that no thread has taken */
    int64_t records; /* atomic: the first record that no thread has reserved */
    int failed;      /* atomic: the fault, or SKIPRNN_OK */
    Team team;       /* for products */
};

/* The part of a backward that one thread is assigned. */
struct Assignment {
    const int64_t *rows; /* its sequences, in order */
    int64_t count;
    float *totals; /* gradients of weights: the Totals of every layer, then the gate's weight
                      [gate_count][padded(H)] and bias [16] */
    int failed;
    Team team;
};

/* The kernels of one instruction set. A thread runs at most `slots` sequences at a time. */
struct Level {
    const char *name;
    /* Computes W x + b of the steps first..last-1 of all B * T steps. */
    void (*project)(const skiprnn_problem *problem, float *projected, int64_t first, int64_t last);
    void (*forward)(const skiprnn_problem *problem, const skiprnn_result *result, skiprnn_saved *saved, Queue *queue,
                    int64_t slots);
    void (*backward)(const skiprnn_problem *problem, const float *packed, const skiprnn_saved *saved,
                     const skiprnn_incoming *incoming, const skiprnn_outgoing *outgoing, Assignment *assigned,
                     int64_t slots);
    void (*activation)(int64_t kind, int64_t n, const float *x, float *y);
    /* Lays out a stream in `memory`, filled with zeros, except for what never changes. Returns the number of bytes, which
     * is all it does if `memory` is NULL; 0 if there is not enough memory. */
    int64_t (*lay_out_stream)(const skiprnn_stream_options *options, void *memory);
    /* Updates the state of `count` rows, at most STREAM_SLOTS, with the samples at the stream's places, and writes
     * their p to `new_p`. */
    void (*update_stream)(skiprnn_stream *stream, const int64_t *rows, int64_t count);
};

}  // namespace

#endif
