/* Where things lie: the cells' gates, packed weights, records. H is padded to strips of 16; what pads is 0 and stays 0.
 */
#ifndef SKIPRNN_LAYOUT_H
#define SKIPRNN_LAYOUT_H

#include "skiprnn.h"

namespace {

constexpr int64_t STRIP = 16;

inline int64_t strips_of(int64_t size) { return (size + STRIP - 1) / STRIP; }
inline int64_t padded(int64_t size) { return strips_of(size) * STRIP; }

/* Inputs so wide are projected by large products: of all steps at once where there is a backward, else of the used
 * ones. */
constexpr int64_t NARROW = 32;
inline bool is_wide(const skiprnn_shape &shape) { return shape.input > NARROW; }

/* A cell's sums before its nonlinearities lie in blocks of padded(H). W x + b goes to blocks from 0 on, in the order
 * `ih_order` of torch's gates, and U h to those from `hh_at` on, in the order `hh_order`; where both go to one, they
 * add up. */
struct CellLayout {
    int gates; /* G */
    int sums;  /* blocks of sums */
    int kept;  /* blocks of what the backward takes, the sums' own among them */
    int hh_at;
    int hh_first; /* gates whose U h needs h alone (not r h) */
    bool has_c;
    int ih_order[4], hh_order[4];
};

constexpr CellLayout CELLS[] = {
    {4, 4, 5, 0, 4, true, {0, 1, 2, 3}, {0, 1, 2, 3}},    /* i f g o, and tanh(c) */
    {3, 4, 4, 1, 3, false, {2, 0, 1, -1}, {0, 1, 2, -1}}, /* W n, r, z, U n */
    {3, 3, 3, 0, 2, false, {0, 1, 2, -1}, {0, 1, 2, -1}}, /* r z n */
    {1, 1, 1, 0, 1, false, {0, -1, -1, -1}, {0, -1, -1, -1}},
};

/* Offsets, in floats, of one layer's packed weights. Matrices lie in strips of 16 columns, [strip][k][16]. */
struct Packed {
    int64_t bias; /* [sums][padded(H)] */
    int64_t ih;   /* of x W^T, k over inputs; transposed: of dsums W, k over gates * padded(H) */
    int64_t hh;
    int64_t size; /* all of it */
};

inline int64_t inputs_of(const skiprnn_shape &shape, int64_t layer) { return layer == 0 ? shape.input : shape.hidden; }

inline Packed packed_layer(const skiprnn_shape &shape, int64_t layer) {
    const CellLayout &cell = CELLS[shape.cell];
    const int64_t width = padded(shape.hidden);
    Packed at;
    at.bias = 0;
    at.ih = cell.sums * width;
    at.hh = at.ih + cell.gates * width * inputs_of(shape, layer);
    at.size = padded(at.hh + cell.gates * width * shape.hidden);
    return at;
}

/* The same for a backward; `for_x`: for x's gradient too, which takes the lowest layer's weight_ih. */
inline Packed transposed_layer(const skiprnn_shape &shape, int64_t layer, bool for_x) {
    const int64_t depth = CELLS[shape.cell].gates * padded(shape.hidden);
    Packed at;
    at.bias = at.hh = 0;
    at.ih = padded(shape.hidden) * depth;
    at.size = at.ih + (layer == 0 && !for_x ? 0 : padded(inputs_of(shape, layer)) * depth);
    return at;
}

/* A record: the one before it (-1: the initial state), time, p; then h and c of every layer, and where it keeps them,
 * what `combine` kept, [kept][H] of every layer. */
struct Record {
    int64_t previous;
    int32_t time;
    float p;
};
constexpr int64_t RECORD_HEADER = sizeof(Record) / sizeof(float);

/* Floats of a record, of whole headers so that each is aligned. */
inline int64_t record_size(const skiprnn_shape &shape, bool keeps) {
    const CellLayout &cell = CELLS[shape.cell];
    const int64_t size = RECORD_HEADER + shape.layers * shape.hidden * ((cell.has_c ? 2 : 1) + (keeps ? cell.kept : 0));
    return (size + RECORD_HEADER - 1) / RECORD_HEADER * RECORD_HEADER;
}

/* Whether records keep what the backward would else compute anew. */
inline bool keeps_all(const skiprnn_problem &problem) {
    return problem.batch * problem.steps * record_size(problem.shape, true) <= problem.near;
}

inline int64_t record_size(const skiprnn_problem &problem) { return record_size(problem.shape, keeps_all(problem)); }

constexpr int64_t RECORDS_AT_ONCE = 64; /* that a thread takes for itself */

inline int64_t begin_of(const skiprnn_problem &problem, int64_t row) { return problem.begin ? problem.begin[row] : 0; }
inline int64_t end_of(const skiprnn_problem &problem, int64_t row) {
    return problem.end ? problem.end[row] : problem.steps;
}
inline float p_of(const skiprnn_problem &problem, int64_t row) { return problem.p ? problem.p[row] : 1; }
inline float acc_of(const skiprnn_problem &problem, int64_t row) { return problem.acc ? problem.acc[row] : 0; }

/* One thread's sums of gradients over its sequences: offsets, in floats, and the blocks they hold. */
struct Totals {
    int64_t bias; /* [sums][padded(H)] */
    int64_t ih;   /* of a narrow x [D][gates * padded(H)], else [gates * padded(H)][padded(D or H)]; in ih_order */
    int64_t hh;   /* [gates * padded(H)][padded(H)], in hh_order */
    int64_t size;
};

inline Totals totals_layer(const skiprnn_shape &shape, int64_t layer) {
    const CellLayout &cell = CELLS[shape.cell];
    const int64_t width = padded(shape.hidden), rows = cell.gates * width;
    Totals at;
    at.bias = 0;
    at.ih = cell.sums * width;
    at.hh = at.ih + rows * (layer == 0 && !is_wide(shape) ? shape.input : padded(inputs_of(shape, layer)));
    at.size = at.hh + rows * width;
    return at;
}

/* One of `parts` even parts of work, for one thread: which of `count` things it has. */
struct Portion {
    int64_t part, parts;

    int64_t begin(int64_t count) const { return count * part / parts; }
    int64_t end(int64_t count) const { return count * (part + 1) / parts; }
};

/* Part `index` of what `of` describes, which other threads may be at work on: so it must not leave by an exception. */
typedef void (*Part)(const void *of, int64_t index) noexcept;

/* Who works on a product: at most so many threads. `run` calls part(of, i) once for each i below `parts`. */
struct Team {
    int64_t threads;
    void (*run)(int64_t parts, Part part, const void *of);
};

/* Work that threads share. */
struct Shared {
    const int64_t *order; /* sequences, in the order in which they begin */
    int64_t count;
    int64_t next;    /* atomic: the first that nobody has begun */
    int64_t records; /* atomic: the first record that nobody has taken */
    int failed;      /* atomic: what went wrong, if anything did */
    Team team;       /* for each thread's products */
};

/* What one thread does in a backward. */
struct Share {
    const int64_t *rows; /* its sequences, in order */
    int64_t count;
    float *totals; /* gradients of weights: every layer's Totals, then the gate's weight [gate_count][padded(H)] and
                      bias [16] */
    int failed;
    Team team;
};

/* The kernels of one instruction set. */
struct Level {
    const char *name;
    void (*project)(const skiprnn_problem *problem, float *projected, int64_t first, int64_t last); /* of B * T steps */
    void (*forward)(const skiprnn_problem *problem, const skiprnn_result *result, skiprnn_saved *saved, Shared *shared,
                    int64_t rows);
    void (*backward)(const skiprnn_problem *problem, const float *packed, const skiprnn_saved *saved,
                     const skiprnn_incoming *incoming, const skiprnn_outgoing *outgoing, Share *share, int64_t rows);
    void (*activation)(int64_t kind, int64_t n, const float *x, float *y);
};

}  // namespace

#endif
