/* Matrix products, C = init + A B or C += A B, computed in blocks that fit into registers.
 *
 * Every element of C is one accumulator to which products are added in ascending order of k, whatever the block's size.
 * So a row of C does not depend, not even in one bit, on the other rows of its block.
 */
#ifndef SKIPRNN_PRODUCT_H
#define SKIPRNN_PRODUCT_H

#include "layout.h"
#include "vector.h"

namespace {

/* MAX_ROWS is the largest number of rows of a block. STRIPS[rows] is the number of strips (of 16 columns) in a block of
 * that many rows: as many as the registers have room for accumulators. */
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

/* What a product reads and writes: C [rows, 16 * strips] from A [rows, depth] and B [depth, 16 * strips]. */
struct Product {
    int64_t rows, strips, depth;
    const float *a; /* A[i][k] at a[i * a_row + k * a_step] */
    int64_t a_row, a_step;
    const float *b; /* B[k][16 s + lane] at b[s * b_strip + k * b_step + lane] */
    int64_t b_strip, b_step;
    const float *init; /* init[i][16 s + lane] at init[i * init_row + 16 s + lane]; may be equal to c; NULL: 0 */
    int64_t init_row;
    float *c; /* C[i][16 s + lane] at c[i * c_row + 16 s + lane] */
    int64_t c_row;
    bool add; /* C += A B, and `init` is NULL */
};

/* One block of C. `A_STEP` and `B_STEP` are a_step and b_step if they are known at compile time, otherwise 0. The
 * accumulators are single registers (`Floats`), not `V`, because compilers keep arrays of V in memory if a V takes
 * several registers. */
template <int ROWS, int COLUMNS, int A_STEP, int B_STEP>
void block(const Product &product, int64_t row, int64_t strip, int64_t depth) {
    constexpr int ACROSS = COLUMNS * PARTS;
    Floats sum[ROWS][ACROSS];
    const float *a = product.a + row * product.a_row, *b = product.b + strip * product.b_strip;
    const int64_t a_row = A_STEP == 1 ? product.a_row : 1, a_step = A_STEP ? A_STEP : product.a_step;
    const int64_t b_strip = B_STEP == LANES ? product.b_strip : LANES, b_step = B_STEP ? B_STEP : product.b_step;
    const float *init = product.init ? product.init + row * product.init_row + strip * LANES : nullptr;
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < ACROSS; j++) sum[i][j] = init ? load_part(init + i * product.init_row + j * WIDTH) : all(0);
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
    float *c = product.c + row * product.c_row + strip * LANES;
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < ACROSS; j++) {
            float *to = c + i * product.c_row + j * WIDTH;
            store_part(to, product.add ? load_part(to) + sum[i][j] : sum[i][j]);
        }
}

/* Kernel::get<rows, columns>() for every size of a block: a function for blocks of that many rows and strips. */
template <class Kernel>
struct Blocks {
    typename Kernel::Function functions[MAX_ROWS + 1][9];
    Blocks() { fill_from<MAX_ROWS, STRIPS[MAX_ROWS]>(); }

private:
    template <int ROWS, int COLUMNS>
    void fill_from() {
        functions[ROWS][COLUMNS] = Kernel::template get<ROWS, COLUMNS>();
        if constexpr (COLUMNS > 1)
            fill_from<ROWS, COLUMNS - 1>();
        else if constexpr (ROWS > 1)
            fill_from<ROWS - 1, STRIPS[ROWS - 1]>();
    }
};

/* Divides `rows` rows and the strips from `begin` to before `end` into blocks, and calls the function for each one's size
 * with (product, row, strip, arguments...). With `backwards` it goes from the last strip to the first: if the same B is
 * used again and again, alternating the direction finds the strips that were used last still in the nearest cache. */
template <class Kernel, class AnyProduct, class... Arguments>
void in_blocks(const AnyProduct &product, int64_t begin, int64_t end, bool backwards, Arguments... arguments) {
    static const Blocks<Kernel> blocks;
    const int64_t rows = product.rows;
    if (rows == 0) return;
    // the outer loop goes over B's strips, in even parts, so that a wide matrix is fetched once for all rows
    const int64_t most = STRIPS[rows < MAX_ROWS ? rows : MAX_ROWS], parts = (end - begin + most - 1) / most;
    for (int64_t part = 0; part < parts; part++) {
        const Portion portion = {backwards ? parts - 1 - part : part, parts};
        const int64_t first = begin + portion.begin(end - begin), last = begin + portion.end(end - begin);
        for (int64_t row = 0; row < rows; row += MAX_ROWS) {
            const int64_t height = rows - row < MAX_ROWS ? rows - row : MAX_ROWS;
            for (int64_t at = first; at < last;) {
                const int64_t columns = last - at < STRIPS[height] ? last - at : STRIPS[height];
                blocks.functions[height][columns](product, row, at, arguments...);
                at += columns;
            }
        }
    }
}

template <int A_STEP, int B_STEP>
struct FloatKernel {
    typedef void (*Function)(const Product &, int64_t, int64_t, int64_t);
    template <int ROWS, int COLUMNS>
    static Function get() {
        return block<ROWS, COLUMNS, A_STEP, B_STEP>;
    }
};

/* Computes a product on this thread. */
template <int A_STEP, int B_STEP>
void multiply_with(const Product &product, bool backwards) {
    in_blocks<FloatKernel<A_STEP, B_STEP>>(product, 0, product.strips, backwards, product.depth);
}

/* The number of multiply-adds that take as long as a transfer of memory from one core to another, about 200
 * nanoseconds; it depends on which cores the threads run on. */
constexpr int64_t TRANSFER = 6 * 1024;
constexpr int64_t FLOATS_AT_ONCE = 128; /* floats in one such transfer */

/* Calls work(begin, end) with all `strips` strips of a product on this thread or, if that is faster, with some of them
 * on each of the team's threads. Sharing pays if it saves more time than it costs to start the parts, to learn that they
 * are done, and to transfer `floats` floats between the cores. */
template <class Work>
void in_sections(const Team &team, int64_t floats, int64_t multiply_adds, int64_t strips, const Work &work) {
    if (team.threads == 1) return work(0, strips);
    int64_t parts = multiply_adds / (TRANSFER * (2 + floats / FLOATS_AT_ONCE));
    parts = parts < team.threads ? parts : team.threads;
    parts = parts < strips ? parts : strips;
    if (parts < 2) return work(0, strips);
    const struct {
        const Work &work;
        int64_t strips, parts;
    } context = {work, strips, parts};
    const auto part = [](const void *all, int64_t index) noexcept {
        const auto &[work, strips, parts] = *(const decltype(context) *)all;
        const Portion portion = {index, parts};
        work(portion.begin(strips), portion.end(strips));
    };
    team.run(parts, part, &context);
}

/* As above; `work` takes a product of some of the strips. */
template <class Work>
void in_sections(const Team &team, int64_t floats, const Product &product, const Work &work) {
    in_sections(team, floats, product.rows * product.strips * STRIP * product.depth, product.strips,
          [&](int64_t begin, int64_t end) {
              Product section = product;
              section.strips = end - begin;
              section.b += begin * product.b_strip;
              if (section.init) section.init += begin * STRIP;
              section.c += begin * STRIP;
              work(section);
          });
}

/* C = init + A B, with A by rows and B in packed strips. */
inline void multiply(const Team &team, const float *a, int64_t a_row, const float *b, int64_t b_strip,
                     const float *init, int64_t init_row, float *c, int64_t c_row, int64_t rows, int64_t strips,
                     int64_t depth, bool backwards = false) {
    const Product all = {rows, strips, depth, a, a_row, 1, b, b_strip, LANES, init, init_row, c, c_row, false};
    in_sections(team, rows * (depth + strips * STRIP), all, [&](const Product &product) {
        const int64_t most = 1024;  // so that a block's part of B stays in the nearest cache
        if (depth <= most) return multiply_with<1, LANES>(product, backwards);
        Product slice = product;
        for (int64_t k = 0; k < depth; k += most) {
            slice.depth = depth - k < most ? depth - k : most;
            multiply_with<1, LANES>(slice, backwards);
            slice.a += most;
            slice.b += most * LANES;
            slice.init = product.c;
            slice.init_row = product.c_row;
        }
    });
}

/* C += A^T B with A [depth, rows] and B [depth, 16 * strips], both by rows: a sum of outer products. The product is
 * summed first and added to C then, because sums of few terms, added up, are more exact than one sum of all terms. */
inline void add_outer(const Team &team, const float *a, int64_t a_row, const float *b, int64_t b_row, float *c,
                      int64_t c_row, int64_t rows, int64_t strips, int64_t depth) {
    const Product all = {rows, strips, depth, a, 1, a_row, b, LANES, b_row, nullptr, 0, c, c_row, true};
    in_sections(team, depth * (rows + strips * STRIP), all,
          [](const Product &product) { multiply_with<0, 0>(product, false); });
}

}  // namespace

#endif
