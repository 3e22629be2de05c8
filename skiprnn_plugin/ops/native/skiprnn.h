/* The native engine: Skip RNN by update, not by time step, fused, on the CPU, in float32.
 *
 * A C ABI without torch: the caller allocates everything that outlives a call. Arrays are contiguous, last index
 * fastest, unless strides stand beside them; B, T, D, H, L and G are batch, steps, input, hidden, layers and the cell's
 * number of gates. The mathematics and names are those of reference.py, the gates' order is torch's.
 *
 * A result of a sequence does not depend, not in a bit, on the batch around it or on the number of threads; nor do the
 * gradients of what is its own, but for whether all records are `near`. Gradients of weights, which are sums over
 * sequences, are the same at every run with the same number of threads. Values that are not finite stay in their
 * sequence.
 *
 * Any threads may call it at once. Those that it starts itself wait for the next call, asleep; one call at a time has
 * them, others do with their own. A fork starts its own.
 */
#ifndef SKIPRNN_H
#define SKIPRNN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKIPRNN_ABI 6

enum { SKIPRNN_LSTM = 0, SKIPRNN_GRU = 1, SKIPRNN_GRU_RESET_BEFORE = 2, SKIPRNN_RNN = 3 };
/* What packed weights are for: a forward, a backward, or one that gives x's gradient too. */
enum { SKIPRNN_FORWARD = 0, SKIPRNN_BACKWARD = 1, SKIPRNN_BACKWARD_TO_X = 2 };
enum { SKIPRNN_OK = 0, SKIPRNN_NO_MEMORY = 1, SKIPRNN_SAVED_FULL = 2 };

typedef struct {
    int64_t cell, layers, input, hidden;
} skiprnn_shape;

/* What a scan reads. Pointers may be NULL where this says so. */
typedef struct {
    skiprnn_shape shape;
    int64_t batch, steps; /* fewer than 2^31 steps */
    int64_t last_only;    /* output is that after the last real step, not that of every step */
    int64_t threads;      /* at most so many; 1 or more */
    int64_t near;   /* floats of records that are so near that they are to keep what a backward would compute anew */
    const float *x; /* [B, T, D], contiguous in D */
    int64_t x_batch_stride; /* in floats */
    int64_t x_step_stride;
    const float *packed;        /* from skiprnn_pack */
    const float *h, *c;         /* initial state [L, B, H]; c NULL without cell state */
    const float *p, *acc;       /* [B]; NULL: 1 and 0 */
    const float *gate_weight;   /* [gate_count * H]; NULL without a gate */
    const float *gate_bias;     /* [1]; NULL without a gate */
    const float *dropout_mask;  /* [L - 1, B, H], or NULL */
    const int64_t *begin;       /* first real step of each sequence [B]; NULL: 0 */
    const int64_t *end;         /* the one after its last [B]; NULL: T */
    const uint8_t *schedule;    /* updates from outside [B, T], 0 or 1; NULL: the gate decides */
    const float *noise;         /* u = v > noise [B, T]; NULL: u = v > threshold */
    int64_t gate_count;         /* layers that the gate reads; 0: no gate (then there is a schedule) */
    const int64_t *gate_layers; /* which, each 0..L-1 [gate_count] */
    float threshold;
} skiprnn_problem;

/* What it writes; all of it, padding too. */
typedef struct {
    float *output;  /* [B, T, H], 0 at padding; with last_only [B, H] */
    float *h, *c;   /* [L, B, H]; c NULL without cell state */
    float *p, *acc; /* [B] */
    float *updates; /* [B, T], 0 or 1 */
} skiprnn_result;

/* What a backward needs beside the problem. One record for each update, of skiprnn_record_size floats; memory grows
 * with updates, as what is not used of `records` is not touched. */
typedef struct {
    float *records;
    int64_t capacity; /* records that there is room for: skiprnn_records(problem) are always enough */
    int64_t used;     /* written by skiprnn_forward: how many of them, from the first, are to be kept */
    int64_t *chains;  /* [B, 2]: each sequence's last record (-1: none) and its number of updates */
    float *projected; /* [skiprnn_projected_size], W x + b of every step; NULL where that size is 0 */
} skiprnn_saved;

/* Gradients that come in (contiguous but for the strides; NULL: 0) ... */
typedef struct {
    const float *output;         /* as the result's */
    int64_t output_batch_stride; /* in floats; contiguous in H */
    int64_t output_step_stride;
    const float *h, *c, *p, *acc, *updates;
} skiprnn_incoming;

/* ... and go out. All are written whole, but x, which the caller sets to 0 before, as only used steps get one. */
typedef struct {
    float *x;                       /* [B, T, D], or NULL if none is wanted */
    float *const *weights;          /* weight_ih, weight_hh, bias_ih, bias_hh of each layer [4 * L] */
    float *h, *c, *p, *acc;         /* c NULL without cell state, p and acc where those of the problem are */
    float *gate_weight, *gate_bias; /* NULL without a gate */
    float *dropout_mask;            /* NULL without a mask */
} skiprnn_outgoing;

/* SKIPRNN_ABI of the library. */
int64_t skiprnn_abi(void);

/* Names of the instruction sets that the library has kernels for and this machine can run, best first, with commas. */
const char *skiprnn_levels(void);

/* The one in use. */
const char *skiprnn_level(void);

/* Use that one from now on; 0 if there is none of that name here. Not while a scan runs. */
int skiprnn_set_level(const char *name);

/* Floats that the weights take in the kernels' layout, which is that of all levels. */
int64_t skiprnn_packed_size(const skiprnn_shape *shape, int64_t purpose);

/* Lays the weights out (weight_ih [G*H, D or H], weight_hh [G*H, H], bias_ih, bias_hh [G*H] of each layer, [4 * L]) in
 * `packed`, 64-byte aligned, and a copy of them behind. With `*known` not 0 it compares them with the copy, and does so
 * only if they differ; sets it to 1. Takes `threads` at most. Returns 1 if it packed, else 0. */
int skiprnn_pack(const skiprnn_shape *shape, const float *const *weights, int64_t purpose, int64_t threads,
                 float *packed, uint64_t *known);

/* Whether that is what `packed`, which skiprnn_pack has filled, holds. */
int skiprnn_packed_is(const skiprnn_shape *shape, const float *const *weights, int64_t purpose, const float *packed);

int64_t skiprnn_record_size(const skiprnn_problem *problem); /* floats of one record */
int64_t skiprnn_records(const skiprnn_problem *problem);     /* records that are enough for all updates there can be */
int64_t skiprnn_projected_size(const skiprnn_problem *problem); /* floats of W x + b of all steps; 0: made as needed */

/* Runs the scan. `saved` NULL: for no backward. Returns SKIPRNN_OK or what was wrong. */
int skiprnn_forward(const skiprnn_problem *problem, const skiprnn_result *result, skiprnn_saved *saved);

/* The gradients. `problem` as it went forward; `packed` from skiprnn_pack for a backward, for one to x if x's is
 * wanted. */
int skiprnn_backward(const skiprnn_problem *problem, const float *packed, const skiprnn_saved *saved,
                     const skiprnn_incoming *incoming, const skiprnn_outgoing *outgoing);

/* y = sigmoid(x) or, with `kind` 1, tanh(x), of n values, as the kernels compute them: for their tests. */
void skiprnn_activation(int64_t kind, int64_t n, const float *x, float *y);

#ifdef __cplusplus
}
#endif

#endif
