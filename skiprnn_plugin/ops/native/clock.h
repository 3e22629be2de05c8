/* When does a sequence update next? The gate's arithmetic between two updates: clock.py and random.py in C. */
#ifndef SKIPRNN_CLOCK_H
#define SKIPRNN_CLOCK_H

#include <stdint.h>
#include <string.h>

namespace {

/* v of a step, the sum that the gate rounds. */
inline float before_rounding(float p, float acc) { return acc + (p <= 1 - acc ? p : 1 - acc); }

inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* This many steps are added one by one before the first jump, because most updates come sooner. */
constexpr int64_t BEFORE_JUMPS = 8;

/* How many of the next `room` steps are skipped before one updates, which needs v > threshold; `room` if none does.
 * `acc` becomes the sum after those steps, to the bit what repeated addition gives.
 *
 * All floats of one binade, [2^e, 2^(e+1)), have the same distance, and their bits are consecutive integers. If one
 * addition of p stays within a binade, the further ones grow by one constant until they leave it: a sum halfway between
 * two floats is rounded to the even one, from which all following sums are rounded in the same direction. So the number
 * of additions up to the binade's last float, or the threshold, is a quotient of integers. */
inline int64_t skips_before_update(float p, float threshold, int64_t room, float &acc) {
    constexpr uint32_t MANTISSA = 0x7fffff;
    for (int64_t count = 0; count < room; count++) {
        const float v = before_rounding(p, acc);
        if (v > threshold) return count;
        if (v == acc || v != v) {  // v stays the same at all further steps
            acc = v;
            return room;
        }
        const uint32_t now = bits_of(v);
        if (count >= BEFORE_JUMPS && (bits_of(acc) ^ now) <= MANTISSA) {
            const uint32_t next = bits_of(before_rounding(p, v)), end = now | MANTISSA, limit = bits_of(threshold);
            if ((now ^ next) <= MANTISSA && next > now && limit >= now) {
                int64_t jump = ((limit < end ? limit : end) - now) / (next - now);
                jump = jump < room - count - 1 ? jump : room - count - 1;
                const uint32_t bits = now + (uint32_t)jump * (next - now);
                memcpy(&acc, &bits, sizeof bits);
                count += jump;
                continue;
            }
        }
        acc = v;
    }
    return room;
}

constexpr float NO_UPDATE = __builtin_inff(); /* a threshold that v never exceeds */

/* `acc` after `steps` skipped steps. */
inline float accumulate(float p, float acc, int64_t steps) {
    skips_before_update(p, NO_UPDATE, steps, acc);
    return acc;
}

inline uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The uniform number in [0, 1) that random.py gives step `t` of the sequence with this seed. */
inline float uniform(uint64_t seed, int64_t t) {
    return (float)(mix(mix(seed) + ((uint64_t)t + 1) * 0x9E3779B97F4A7C15u) >> 40) * 0x1p-24f;
}

}  // namespace

#endif
