/* A stream without its arithmetic: which rows want which sample, and how time advances. */
#ifndef SKIPRNN_STREAM_H
#define SKIPRNN_STREAM_H

#include "clock.h"
#include "layout.h"

struct skiprnn_stream {
    skiprnn_problem problem; /* what the stack reads; x is the samples of the present call */
    int64_t rows, slots;     /* slots: how many rows are updated together */
    int64_t min_skip, max_skip;
    int64_t *time, *wanted;   /* [rows] */
    int64_t *since;           /* the time at which `acc` was right [rows]; the present one follows from it */
    int64_t *seen, stamp;     /* seen[row] is `stamp` once the present call has met the row [rows] */
    int64_t *seeds;           /* [rows], or NULL */
    int64_t *taken;           /* rows to be updated together [slots] */
    Place *places;            /* where in x their samples are [slots] */
    float *p, *acc;           /* [rows] */
    float *new_p;             /* [slots] */
    float *h, *c;             /* [layers][rows][padded(H)]; c NULL without cell state */
    float **slot_h, **slot_c; /* where the stack holds states [layers] */
    void *stack;
};

namespace {

inline int64_t row_at(const int64_t *rows, int64_t i) { return rows ? rows[i] : i; }

/* How many steps of the row are skipped before its next update if its state was `p`, `acc` at time `since`: at least
 * `least`, and no more than max_skip. */
inline int64_t find_wait(const skiprnn_stream &s, int64_t row, int64_t least) {
    const float p = s.p[row];
    float acc = s.acc[row];
    int64_t wait = 0;
    if (s.problem.gate_count > 0 && s.seeds) {
        for (; wait < s.max_skip; wait++) {
            const float v = before_rounding(p, acc);
            if (wait >= least && v > uniform((uint64_t)s.seeds[row], s.since[row] + wait)) break;
            if (v != v || (v == acc && v <= 0)) return s.max_skip;  // none of the following steps updates
            acc = v;
        }
        return wait;
    }
    if (s.problem.gate_count > 0) wait = skips_before_update(p, s.problem.threshold, SKIPRNN_NEVER, acc);
    wait = wait < least ? least : wait;
    return wait < s.max_skip ? wait : s.max_skip;
}

/* Writes which sample the row wants next. */
inline void find_wanted(skiprnn_stream &s, int64_t row, bool updated) {
    const int64_t wait = find_wait(s, row, updated ? s.min_skip : 0), since = s.since[row];
    s.wanted[row] = wait > SKIPRNN_LAST - since ? SKIPRNN_NEVER : since + wait;
}

/* The row has been updated with the sample that it wanted; `p` is its new one. */
inline void settle(skiprnn_stream &s, int64_t row, float p) {
    s.since[row] = s.wanted[row] + 1;
    if (s.problem.gate_count > 0) {
        s.p[row] = p;
        s.acc[row] = 0;
    }
    find_wanted(s, row, true);
}

/* How many steps the row can skip. */
inline int64_t room_of(const skiprnn_stream &s, int64_t row) {
    const int64_t wanted = s.wanted[row];
    return (wanted < SKIPRNN_LAST ? wanted : SKIPRNN_LAST) - s.time[row];
}

/* Checks that the rows exist, and that none comes twice. */
inline int check_rows(skiprnn_stream &s, const int64_t *rows, int64_t count) {
    if (count < 0) return SKIPRNN_NO_ROW;
    if (!rows) return count <= s.rows ? SKIPRNN_OK : SKIPRNN_NO_ROW;
    s.stamp++;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= s.rows || s.seen[rows[i]] == s.stamp) return SKIPRNN_NO_ROW;
        s.seen[rows[i]] = s.stamp;
    }
    return SKIPRNN_OK;
}

}  // namespace

#endif
