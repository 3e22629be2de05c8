/* Matrix products, C = init + A B or C += A B, blocked for registers.
 *
 * Each element of C is one accumulator to which products are added in ascending order of k, whatever the block's size:
 * a row of C does not depend, not in a bit, on the other rows of its block.
 */
#ifndef SKIPRNN_PRODUCT_H
#define SKIPRNN_PRODUCT_H

#include "layout.h"
#include "vector.h"

namespace {

/* Rows of a block, and for each number of rows the strips (of 16 columns) of one: as many accumulators as fit the
 * registers. */
#if defined(__AVX512F__)
constexpr int MAX_ROWS = 8;
constexpr int STRIPS[MAX_ROWS + 1] = {0, 8, 8, 7, 6, 4, 4, 3, 3};
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int MAX_ROWS = 4;
constexpr int STRIPS[MAX_ROWS + 1] = {0, 4, 3, 2, 1};
#else
constexpr int MAX_ROWS = 2;
constexpr int STRIPS[MAX_ROWS + 1] = {0, 2, 1};
#endif

/* What a product reads and writes: C [rows, 16 strips] from A [rows, depth] and B [depth, 16 strips]. */
struct Product {
    int64_t rows, strips, depth;
    const float *a; /* A[i][k] at a[i * a_row + k * a_step] */
    int64_t a_row, a_step;
    const float *b; /* B[k][16 s + lane] at b[s * b_strip + k * b_step + lane] */
    int64_t b_strip, b_step;
    const float *init; /* init[i][16 s + lane] at init[i * init_row + 16 s + lane]; may be c; NULL: 0 */
    int64_t init_row;
    float *c; /* C[i][16 s + lane] at c[i * c_row + 16 s + lane] */
    int64_t c_row;
    bool add; /* C += */
};

/* `A_STEP`, `B_STEP`: a_step and b_step where they are known when compiling, else 0. In registers, not in V: compilers
 * keep arrays of those in memory where they take several registers. */
template <int ROWS, int COLUMNS, int A_STEP, int B_STEP>
void block(const Product &of, int64_t row, int64_t strip, int64_t depth) {
    constexpr int ACROSS = COLUMNS * PARTS;
    Floats sum[ROWS][ACROSS];
    const float *a = of.a + row * of.a_row, *b = of.b + strip * of.b_strip;
    const int64_t a_row = A_STEP == 1 ? of.a_row : 1, a_step = A_STEP ? A_STEP : of.a_step;
    const int64_t b_strip = B_STEP == LANES ? of.b_strip : LANES, b_step = B_STEP ? B_STEP : of.b_step;
    const float *init = of.init ? of.init + row * of.init_row + strip * LANES : nullptr;
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < ACROSS; j++) sum[i][j] = init ? load_part(init + i * of.init_row + j * WIDTH) : all(0);
    for (int64_t k = 0; k < depth; k++) {
        Floats factor[ACROSS];
#pragma GCC unroll 16
        for (int j = 0; j < ACROSS; j++) factor[j] = load_part(b + j / PARTS * b_strip + j % PARTS * WIDTH);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const Floats value = all(a[i * a_row]);
#pragma GCC unroll 16
            for (int j = 0; j < ACROSS; j++) sum[i][j] = multiply_add(value, factor[j], sum[i][j]);
        }
        a += a_step;
        b += b_step;
    }
    float *c = of.c + row * of.c_row + strip * LANES;
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < ACROSS; j++) {
            float *to = c + i * of.c_row + j * WIDTH;
            store_part(to, of.add ? load_part(to) + sum[i][j] : sum[i][j]);
        }
}

typedef void (*Block)(const Product &, int64_t, int64_t, int64_t);

template <int A_STEP, int B_STEP, int ROWS, int COLUMNS>
Block choose_block(int64_t rows, int64_t columns) {
    if (rows == ROWS && columns == COLUMNS) return block<ROWS, COLUMNS, A_STEP, B_STEP>;
    if constexpr (COLUMNS > 1) {
        if (rows == ROWS) return choose_block<A_STEP, B_STEP, ROWS, COLUMNS - 1>(rows, columns);
    }
    if constexpr (ROWS > 1) return choose_block<A_STEP, B_STEP, ROWS - 1, STRIPS[ROWS - 1]>(rows, columns);
    return nullptr;
}

template <int A_STEP, int B_STEP>
struct Blocks {
    Block of[MAX_ROWS + 1][9];
    Blocks() {
        for (int rows = 1; rows <= MAX_ROWS; rows++)
            for (int columns = 1; columns <= STRIPS[rows]; columns++)
                of[rows][columns] = choose_block<A_STEP, B_STEP, MAX_ROWS, STRIPS[MAX_ROWS]>(rows, columns);
    }
};

/* `backwards`: from the last strip to the first. Where the same B comes again and again, going to and fro finds what
 * was used last still in the nearest cache. */
template <int A_STEP, int B_STEP>
void multiply_with(const Product &of, bool backwards) {
    static const Blocks<A_STEP, B_STEP> blocks;
    const int64_t rows = of.rows, strips = of.strips;
    if (rows == 0) return;
    // B's strips outside, so that those of a wide matrix are fetched once for all rows; and in even parts
    const int64_t most = STRIPS[rows < MAX_ROWS ? rows : MAX_ROWS], parts = (strips + most - 1) / most;
    for (int64_t part = 0; part < parts; part++) {
        const int64_t nth = backwards ? parts - 1 - part : part;
        const int64_t begin = strips * nth / parts, end = strips * (nth + 1) / parts;
        for (int64_t row = 0; row < rows; row += MAX_ROWS) {
            const int64_t height = rows - row < MAX_ROWS ? rows - row : MAX_ROWS;
            for (int64_t at = begin; at < end;) {
                const int64_t columns = end - at < STRIPS[height] ? end - at : STRIPS[height];
                blocks.of[height][columns](of, row, at, of.depth);
                at += columns;
            }
        }
    }
}

/* Multiply-adds in the time that memory takes from one core to another, some 200 nanoseconds; it depends on where the
 * system has put the threads. */
constexpr int64_t A_WAY = 6 * 1024;
constexpr int64_t ON_A_WAY = 128; /* floats that come together */

/* Calls `work` with the product, or with parts of it, some strips each, on the team's threads, if that is worth the way
 * there and back, and that of so many `floats`. */
template <class Work>
void share(const Team &team, int64_t floats, const Product &of, const Work &work) {
    if (team.threads == 1) return work(of);
    int64_t parts = of.rows * of.strips * STRIP * of.depth / (A_WAY * (2 + floats / ON_A_WAY));
    parts = parts < team.threads ? parts : team.threads;
    parts = parts < of.strips ? parts : of.strips;
    if (parts < 2) return work(of);
    const struct {
        const Product &of;
        const Work &work;
        int64_t parts;
    } shared = {of, work, parts};
    const auto part = [](const void *all, int64_t index) noexcept {
        const auto &[of, work, parts] = *(const decltype(shared) *)all;
        const Portion mine = {index, parts};
        const int64_t begin = mine.begin(of.strips);
        Product some = of;
        some.strips = mine.end(of.strips) - begin;
        some.b += begin * of.b_strip;
        if (some.init) some.init += begin * STRIP;
        some.c += begin * STRIP;
        work(some);
    };
    team.run(parts, part, &shared);
}

/* A by rows, B in packed strips. */
inline void multiply(const Team &team, const float *a, int64_t a_row, const float *b, int64_t b_strip,
                     const float *init, int64_t init_row, float *c, int64_t c_row, int64_t rows, int64_t strips,
                     int64_t depth, bool backwards = false) {
    const Product all = {rows, strips, depth, a, a_row, 1, b, b_strip, LANES, init, init_row, c, c_row, false};
    share(team, rows * (depth + strips * STRIP), all, [&](const Product &of) {
        const int64_t most = 1024;  // so that a block's part of B stays in the nearest caches
        if (depth <= most) return multiply_with<1, LANES>(of, backwards);
        Product slice = of;
        for (int64_t k = 0; k < depth; k += most) {
            slice.depth = depth - k < most ? depth - k : most;
            multiply_with<1, LANES>(slice, backwards);
            slice.a += most;
            slice.b += most * LANES;
            slice.init = of.c;
            slice.init_row = of.c_row;
        }
    });
}

/* C += A^T B with A [depth, rows] and B [depth, 16 strips], both by rows: sums of outer products. They are added up
 * before C is, as a sum of few terms, and then of few sums, is more exact than one of all terms. */
inline void add_outer(const Team &team, const float *a, int64_t a_row, const float *b, int64_t b_row, float *c,
                      int64_t c_row, int64_t rows, int64_t strips, int64_t depth) {
    const Product all = {rows, strips, depth, a, 1, a_row, b, LANES, b_row, nullptr, 0, c, c_row, true};
    share(team, depth * (rows + strips * STRIP), all, [](const Product &of) { multiply_with<0, 0>(of, false); });
}

}  // namespace

#endif
