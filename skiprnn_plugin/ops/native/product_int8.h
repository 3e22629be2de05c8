/* The recurrent product with weights that are rounded to int8, and states that are rounded to 16 bits. Sums are 32-bit
 * integers, and so exact: they are the same with every instruction set. */
#ifndef SKIPRNN_PRODUCT_INT8_H
#define SKIPRNN_PRODUCT_INT8_H

#include "product.h"

namespace {

/* Pairs of 16-bit integers, a pair for each lane of `Integers`. */
typedef int16_t Pairs __attribute__((vector_size(4 * WIDTH)));

/* A pair of weights for each lane. */
SKIPRNN_INLINE Pairs load_pairs(const int8_t *from) {
#if defined(__AVX512F__)
    return (Pairs)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__AVX2__)
    return (Pairs)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
#elif defined(__SSE2__)
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)from);
    return (Pairs)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#elif defined(__aarch64__)
    return (Pairs)vmovl_s8(vld1_s8(from));
#else
    typedef int8_t Bytes __attribute__((vector_size(2 * WIDTH)));
    Bytes bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, Pairs);
#endif
}

/* The same pair in every lane. */
SKIPRNN_INLINE Pairs fill_pairs(const int16_t *from) {
    int32_t pair;
    memcpy(&pair, from, sizeof pair);
    return (Pairs)(pair - Integers{});
}

/* sum + a0 b0 + a1 b1 in every lane. */
SKIPRNN_INLINE Integers add_products(Integers sum, Pairs a, Pairs b) {
#if defined(__AVX512VNNI__)
    return (Integers)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVX512F__)
    return sum + (Integers)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return sum + (Integers)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return sum + (Integers)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
    const int16x8_t left = (int16x8_t)a, right = (int16x8_t)b;
    return sum + (Integers)vpaddq_s32(vmull_s16(vget_low_s16(left), vget_low_s16(right)), vmull_high_s16(left, right));
#else
    for (int i = 0; i < WIDTH; i++) sum[i] += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
    return sum;
#endif
}

/* The largest integer that a state is rounded to, so that no sum of products overflows. */
inline int64_t largest_state(int64_t hidden) {
    const int64_t most = INT32_MAX / (127 * hidden);
    return most < INT16_MAX ? most : INT16_MAX;
}

/* Rounds a row of H floats and its padding of zeros to integers. Returns the unit, by which to multiply them; NaN if not
 * all are finite. */
inline float round_state(int64_t hidden, const float *h, int16_t *rounded) {
    typedef int16_t Shorts __attribute__((vector_size(2 * WIDTH)));
    const int64_t width = padded(hidden);
    V bounds = fill(1), nothing = fill(0);
    for (int64_t at = 0; at < width; at += LANES) {
        const V value = load(h + at);
        SKIPRNN_EACH_PART {
            const Floats size = absolute(value.part[i]);
            bounds.part[i] = choose(size > bounds.part[i], size, bounds.part[i]);
            nothing.part[i] += size - size;  // NaN if the value is not finite
        }
    }
    float lanes[LANES], bound = 1;
    store(lanes, bounds);
    for (const float lane : lanes) bound = lane > bound ? lane : bound;
    const float most = (float)largest_state(hidden), factor = most / bound, shift = 12582912.0f;
    for (int64_t at = 0; at < width; at += LANES) {
        const V value = load(h + at);
        SKIPRNN_EACH_PART {
            const Floats shifted = value.part[i] * factor + shift;  // 1.5 * 2^23: adding it rounds to an integer
            const Shorts integers = __builtin_convertvector((Integers)shifted - (Integers)all(shift), Shorts);
            memcpy(rounded + at + i * WIDTH, &integers, sizeof integers);
        }
    }
    return bound / most + total(nothing);
}

/* C += (A B) unit scale, where A [rows, 2 * pairs] is rounded states and B [2 * pairs, 16 * strips] int8 weights. */
struct Int8Product {
    int64_t rows, strips, pairs;
    const int16_t *a; /* A[i][k] at a[i * a_row + k] */
    int64_t a_row;
    const int8_t *b;    /* B[2 k + j][16 s + lane] at b[((s * pairs + k) * 16 + lane) * 2 + j] */
    const float *unit;  /* [rows] */
    const float *scale; /* [16 * strips] */
    float *c;           /* C[i][16 s + lane] at c[i * c_row + 16 s + lane] */
    int64_t c_row;
};

template <int ROWS, int COLUMNS>
void block_int8(const Int8Product &product, int64_t row, int64_t strip) {
    constexpr int ACROSS = COLUMNS * PARTS;
    Integers sum[ROWS][ACROSS] = {};
    const int64_t a_row = product.a_row, b_strip = product.pairs * STRIP * 2;
    const int16_t *a = product.a + row * a_row;
    const int8_t *b = product.b + strip * b_strip;
    for (int64_t k = 0; k < product.pairs; k++) {
        Pairs factor[ACROSS];
#pragma GCC unroll 16
        for (int j = 0; j < ACROSS; j++) factor[j] = load_pairs(b + j / PARTS * b_strip + j % PARTS * WIDTH * 2);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const Pairs value = fill_pairs(a + i * a_row);
#pragma GCC unroll 16
            for (int j = 0; j < ACROSS; j++) sum[i][j] = add_products(sum[i][j], value, factor[j]);
        }
        a += 2;
        b += STRIP * 2;
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 16
        for (int j = 0; j < ACROSS; j++) {
            const int64_t at = strip * STRIP + j * WIDTH;
            float *c = product.c + (row + i) * product.c_row + at;
            const Floats unit = load_part(product.scale + at) * product.unit[row + i];
            store_part(c, multiply_add(__builtin_convertvector(sum[i][j], Floats), unit, load_part(c)));
        }
}

struct Int8Kernel {
    typedef void (*Function)(const Int8Product &, int64_t, int64_t);
    template <int ROWS, int COLUMNS>
    static Function get() {
        return block_int8<ROWS, COLUMNS>;
    }
};

inline void multiply_int8(const Team &team, const Int8Product &product, bool backwards) {
    const int64_t columns = product.strips * STRIP, depth = 2 * product.pairs;
    in_sections(team, product.rows * (depth / 2 + columns), product.rows * columns * depth, product.strips,
          [&](int64_t begin, int64_t end) { in_blocks<Int8Kernel>(product, begin, end, backwards); });
}

}  // namespace

#endif
