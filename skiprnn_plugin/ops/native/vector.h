/* V: 16 floats in as many registers as the instruction set needs, and the functions that a recurrent cell applies to
 * them.
 *
 * Every function except `total` is elementwise, so results do not depend on the registers' width. This must not be
 * compiled with -ffast-math, which would remove the rounding in `Exponential` (adding and subtracting a large number).
 */
#ifndef SKIPRNN_VECTOR_H
#define SKIPRNN_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

/* Without inlining, a V of several registers would be passed to a function, and returned, in memory. */
#define SKIPRNN_INLINED __attribute__((always_inline))
#define SKIPRNN_INLINE inline SKIPRNN_INLINED

constexpr int LANES = 16;

#if defined(__AVX512F__)
constexpr int PARTS = 1;
#elif defined(__AVX2__)
constexpr int PARTS = 2;
#else
constexpr int PARTS = 4;
#endif

constexpr int WIDTH = LANES / PARTS;
typedef float Floats __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Integers __attribute__((vector_size(4 * WIDTH)));

struct V {
    Floats part[PARTS];
};

#define SKIPRNN_EACH_PART _Pragma("GCC unroll 4") for (int i = 0; i < PARTS; i++)

SKIPRNN_INLINE Floats load_part(const float *from) {
    Floats part;
    memcpy(&part, from, sizeof part);
    return part;
}

SKIPRNN_INLINE void store_part(float *to, Floats part) { memcpy(to, &part, sizeof part); }

SKIPRNN_INLINE Floats all(float value) { return value - Floats{}; }  // adding would turn -0 into 0

/* Loads part by part: if it were copied as a whole, a V of several registers would go through memory. */
SKIPRNN_INLINE V load(const float *from) {
    V v;
    SKIPRNN_EACH_PART v.part[i] = load_part(from + i * WIDTH);
    return v;
}

SKIPRNN_INLINE void store(float *to, V v) { SKIPRNN_EACH_PART store_part(to + i * WIDTH, v.part[i]); }

SKIPRNN_INLINE V fill(float value) {
    V v;
    SKIPRNN_EACH_PART v.part[i] = all(value);
    return v;
}

SKIPRNN_INLINE V operator+(V a, V b) {
    SKIPRNN_EACH_PART a.part[i] += b.part[i];
    return a;
}

SKIPRNN_INLINE V operator-(V a, V b) {
    SKIPRNN_EACH_PART a.part[i] -= b.part[i];
    return a;
}

SKIPRNN_INLINE V operator*(V a, V b) {
    SKIPRNN_EACH_PART a.part[i] *= b.part[i];
    return a;
}

SKIPRNN_INLINE V operator/(V a, V b) {
    SKIPRNN_EACH_PART a.part[i] /= b.part[i];
    return a;
}

/* v in its first `count` lanes and 0 in the others, even where v is NaN. */
SKIPRNN_INLINE V first_lanes(V v, int64_t count) {
    static constexpr int32_t which[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const int32_t *from = which + LANES - (count < LANES ? count : LANES);
    SKIPRNN_EACH_PART {
        Integers mask;
        memcpy(&mask, from + i * WIDTH, sizeof mask);
        v.part[i] = (Floats)((Integers)v.part[i] & mask);
    }
    return v;
}

/* a b + c, rounded only once if the instruction set supports that. */
SKIPRNN_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

SKIPRNN_INLINE V multiply_add(V a, V b, V c) {
    SKIPRNN_EACH_PART c.part[i] = multiply_add(a.part[i], b.part[i], c.part[i]);
    return c;
}

/* The sum of the 16 lanes, always added in this order. */
SKIPRNN_INLINE float total(V v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v.part[0]);
#endif
    float lanes[LANES];
    store(lanes, v);
    for (int size = LANES / 2; size > 0; size /= 2)
        for (int i = 0; i < size; i++) lanes[i] += lanes[i + size];
    return lanes[0];
}

/* This and the next two work on one register and keep NaN: a comparison with NaN is false, which selects the second
 * value. */
SKIPRNN_INLINE Floats choose(Integers which, Floats yes, Floats no) {
    return (Floats)((which & (Integers)yes) | (~which & (Integers)no));
}

SKIPRNN_INLINE Floats absolute(Floats x) { return (Floats)((Integers)x & 0x7fffffff); }

SKIPRNN_INLINE Floats at_least(Floats x, float limit) {
    const Floats limits = all(limit);
#if defined(__AVX512F__)
    return (Floats)_mm512_max_ps((__m512)limits, (__m512)x);  // returns the second value if either is NaN
#else
    return choose(x < limits, limits, x);
#endif
}

/* exp(y) = 2^n (1 + rest) with |rest| < 0.42, for -150 < y / log 2 <= 0. The relative error of `rest` is below 2e-7. */
struct Exponential {
    Floats n, rest;

    SKIPRNN_INLINE explicit Exponential(Floats y) {
#if defined(__AVX512F__)
        n = (Floats)_mm512_roundscale_ps((__m512)(y * 1.44269504f), 0);
#else
        const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
        n = multiply_add(y, all(1.44269504f), all(shift)) - shift;
#endif
        // log 2 is split into two parts; the first has so few digits that its product with n is exact
        Floats r = multiply_add(n, all(-0.693359375f), y);
        r = multiply_add(n, all(2.12194440e-4f), r);
        // exp(r) - 1 = r + r^2 (a polynomial; its largest relative error is 1.4e-8)
        Floats sum = all(0.0013946450781077147f);
        sum = multiply_add(sum, r, all(0.008366583846509457f));
        sum = multiply_add(sum, r, all(0.04166628047823906f));
        sum = multiply_add(sum, r, all(0.1666654348373413f));
        sum = multiply_add(sum, r, all(0.5f));
        rest = multiply_add(sum * r, r, r);
    }

    /* 2^n x, which may be denormal. */
    SKIPRNN_INLINE Floats scale(Floats x) const {
#if defined(__AVX512F__)
        return (Floats)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
        const Integers whole = (Integers)(n + 12582912.0f) - (Integers)all(12582912.0f);
        const Integers half = whole >> 1;  // two factors, because 2^n may be denormal
        return x * (Floats)((half + 127) << 23) * (Floats)((whole - half + 127) << 23);
#endif
    }
};

/* 1 / (1 + exp(-x)), computed from exp(-|x|), which cannot overflow. Results go down to the smallest denormal number.
 */
SKIPRNN_INLINE V sigmoid(V x) {
    SKIPRNN_EACH_PART {
        const Floats value = x.part[i];
        const Exponential exponential(at_least((Floats)((Integers)value | INT32_MIN), -104.0f));
        const Floats e = exponential.scale(1.0f + exponential.rest);
        x.part[i] = choose((Integers)value >> 31, e, all(1.0f)) / (1.0f + e);
    }
    return x;
}

/* tanh(x) = -s / (2 + s) with s = exp(-2 |x|) - 1, with the sign of x. */
SKIPRNN_INLINE V tanh(V x) {
    SKIPRNN_EACH_PART {
        const Floats value = x.part[i];
        const Exponential exponential(at_least(-2.0f * absolute(value), -80.0f));
        const Floats scale = exponential.scale(all(1.0f)), s = multiply_add(scale, exponential.rest, scale - 1.0f);
        x.part[i] = (Floats)((Integers)absolute(s / (2.0f + s)) | ((Integers)value & INT32_MIN));
    }
    return x;
}

}  // namespace

#endif
