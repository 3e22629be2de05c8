/* The native engine: fused kernels for Skip RNNs, on the CPU, in float32. It goes from update to update instead of from
 * step to step. Recurrent weights can be rounded to int8 if no backward follows (SKIPRNN_INT8).
 *
 * This is a C ABI that does not need torch. The caller allocates everything that outlives a call. Arrays are
 * contiguous, and their last index varies fastest, unless their strides are given too. B, T, D, H, L and G are the
 * batch size, steps, input size, hidden size, layers and the cell's number of gates. The mathematics and the names are
 * those of reference.py; the gates' order is torch's.
 *
 * The result of a sequence does not depend, not even in one bit, on the other sequences of the batch or on the number
 * of threads. The same holds for per-sequence gradients (those of x, h, c, p, acc and the dropout mask), given the same
 * choice to keep or recompute (see `keep_limit`). Gradients of weights are sums over sequences; they are the same in
 * every run with the same number of threads. Values that are not finite do not spread to other sequences.
 *
 * Several threads may call the library at once. The threads that it starts itself sleep until the next call. Only one
 * call at a time can use them; a call that finds them in use runs on its caller's thread alone. The child of a fork
 * starts new threads.
 */
#ifndef SKIPRNN_H
#define SKIPRNN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKIPRNN_ABI 10

enum { SKIPRNN_LSTM = 0, SKIPRNN_GRU = 1, SKIPRNN_GRU_RESET_BEFORE = 2, SKIPRNN_RNN = 3 };
/* What packed weights are used for: a forward, a backward, or a backward that computes the gradient of x too. */
enum { SKIPRNN_FORWARD = 0, SKIPRNN_BACKWARD = 1, SKIPRNN_BACKWARD_TO_X = 2 };
/* How the recurrent weights are packed. SKIPRNN_INT8 is for a forward that no backward follows, and for streams: every
 * row of weight_hh is rounded to 8-bit integers with a scale, and the state is rounded to 16 bits before it is multiplied
 * with them. It is faster, and its results differ a little. Everything else is float32. */
enum { SKIPRNN_FLOAT32 = 0, SKIPRNN_INT8 = 1 };
enum {
    SKIPRNN_OK = 0,
    SKIPRNN_NO_MEMORY = 1,
    SKIPRNN_SAVED_FULL = 2,
    SKIPRNN_NO_ROW = 3,    /* a row does not exist, or is given twice; or the number of rows is negative */
    SKIPRNN_TOO_EARLY = 4, /* a row wants a later sample */
    SKIPRNN_TOO_LATE = 5   /* a row would skip the sample that it wants, its time would not be 0..SKIPRNN_LAST, or time
                              would go back */
};

typedef struct {
    int64_t cell, layers, input, hidden;
    int64_t weights; /* SKIPRNN_FLOAT32 or SKIPRNN_INT8 */
} skiprnn_shape;

/* What a scan reads. A pointer may be NULL only if its comment says so. */
typedef struct {
    skiprnn_shape shape;
    int64_t batch, steps; /* fewer than 2^31 steps */
    int64_t last_only;    /* 1: the output is that of the last real step; 0: of every step */
    int64_t threads;      /* the most threads to use; 1 or more */
    int64_t keep_limit;   /* in floats: if the records of all steps fit in this, they also hold what a backward would
                           * compute again */
    const float *x;       /* [B, T, D], contiguous in D */
    int64_t x_batch_stride; /* in floats */
    int64_t x_step_stride;
    const float *packed;        /* from skiprnn_pack */
    const float *h, *c;         /* initial state [L, B, H]; c NULL without cell state */
    const float *p, *acc;       /* [B]; NULL for p: 1; NULL for acc: 0 */
    const float *gate_weight;   /* [gate_count * H]; NULL without a gate */
    const float *gate_bias;     /* [1]; NULL without a gate */
    const float *dropout_mask;  /* [L - 1, B, H], or NULL */
    const int64_t *begin;       /* first real step of each sequence [B]; NULL: 0 */
    const int64_t *end;         /* the step after each sequence's last real step [B]; NULL: T */
    const uint8_t *schedule;    /* prescribed updates [B, T], 0 or 1; NULL: the gate decides */
    const float *noise;         /* u = v > noise [B, T]; NULL: u = v > threshold */
    int64_t gate_count;         /* number of layers that the gate reads; 0: no gate (this needs a schedule) */
    const int64_t *gate_layers; /* which layers the gate reads, 0..L-1 [gate_count] */
    float threshold;
    const int64_t *limits;      /* where the gate decides by the threshold: the fewest steps to skip after an update,
                                 * whatever it says, and the most (SKIPRNN_NEVER: no limit) [2]; NULL: no limits. A
                                 * backward has none: its schedule is the updates that the forward made */
} skiprnn_problem;

/* What a scan writes. Every element is written, at padding too. */
typedef struct {
    float *output;  /* [B, T, H], 0 at padding; [B, H] with last_only */
    float *h, *c;   /* [L, B, H]; c NULL without cell state */
    float *p, *acc; /* [B] */
    float *updates; /* [B, T], 0 or 1 */
} skiprnn_result;

/* What a backward needs in addition to the problem. Every update has a record of skiprnn_record_size floats. Memory
 * grows with the number of updates, because the unused part of `records` is never touched. */
typedef struct {
    float *records;
    int64_t capacity; /* the number of records that fit; skiprnn_records(problem) is always enough */
    int64_t used;     /* skiprnn_forward writes how many records, from the first, have to be kept */
    int64_t *chains;  /* [B, 2]: the index of each sequence's last record (-1: none) and its number of updates */
    float *projected; /* [skiprnn_projected_size], W x + b of every step; NULL where that size is 0 */
} skiprnn_saved;

/* The gradients of the results, which a backward reads. All but `output` are contiguous; NULL means 0. */
typedef struct {
    const float *output;         /* shaped as the result's output */
    int64_t output_batch_stride; /* in floats; contiguous in H */
    int64_t output_step_stride;
    const float *h, *c, *p, *acc, *updates;
} skiprnn_incoming;

/* The gradients that a backward writes. It writes every element, except of x: the caller has to fill x's gradient with
 * 0 first, because only the steps that are updated are written. */
typedef struct {
    float *x;                       /* [B, T, D]; NULL if it is not wanted */
    float *const *weights;          /* weight_ih, weight_hh, bias_ih, bias_hh of each layer [4 * L] */
    float *h, *c, *p, *acc;         /* c NULL without cell state; p and acc NULL where the problem's are */
    float *gate_weight, *gate_bias; /* NULL without a gate */
    float *dropout_mask;            /* NULL without a mask */
} skiprnn_outgoing;

/* A stream: sequences, its rows, that are read sample by sample, each at a time of its own. Right after an update it is
 * known which sample a row wants next; the samples until then need not be read at all.
 *
 * A row's time is the index of its next sample, 0 at first. Its values are to the bit those that skiprnn_forward
 * computes of the same samples. A stream must not be used by two threads at once, and stays at its address. No call
 * allocates memory, except for skiprnn_stream_size. Where `rows` is an argument, it names `count` rows, none twice; NULL
 * names the first `count`. A call that returns a fault has changed nothing. */
typedef struct skiprnn_stream skiprnn_stream;

#define SKIPRNN_NEVER INT64_MAX      /* the sample wanted by a row that never updates again */
#define SKIPRNN_LAST (INT64_MAX / 2) /* the last time that a row can have */

typedef struct {
    skiprnn_shape shape;
    int64_t rows;               /* 1 or more */
    const float *packed;        /* from skiprnn_pack for SKIPRNN_FORWARD; read by every update */
    const float *gate_weight;   /* this and what follows is copied; [gate_count * H]; NULL without a gate */
    const float *gate_bias;     /* [1]; NULL without a gate */
    int64_t gate_count;         /* 0: no gate, every sample is wanted */
    const int64_t *gate_layers; /* [gate_count] */
    float threshold;
    int64_t min_skip; /* after an update at least this many steps are skipped, whatever the gate says; 0: no limit */
    int64_t max_skip; /* and at most this many, but no fewer than min_skip; SKIPRNN_NEVER: no limit */
    const int64_t *seeds; /* [rows]: u = v > a uniform number from the seed and the time; NULL: u = v > threshold */
} skiprnn_stream_options;

/* The library's SKIPRNN_ABI. */
int64_t skiprnn_abi(void);

/* Names of the instruction sets that the library has kernels for and that this machine supports: best first, separated
 * by commas. */
const char *skiprnn_levels(void);

/* The name of the instruction set in use. */
const char *skiprnn_level(void);

/* Uses the named instruction set from now on. Returns 1, or 0 if skiprnn_levels does not list it. Must not be called
 * while a scan runs. */
int skiprnn_set_level(const char *name);

/* The number of floats that skiprnn_pack writes. It is the same for all instruction sets. */
int64_t skiprnn_packed_size(const skiprnn_shape *shape, int64_t purpose);

/* Writes the weights in the kernels' layout to `packed`, which is 64-byte aligned, followed by a plain copy of them.
 * The weights are weight_ih [G*H, D or H], weight_hh [G*H, H], bias_ih and bias_hh [G*H] of every layer [4 * L].
 * `*known` is 0 before the first call, which sets it to 1. Later calls compare the weights with the copy, and write
 * only if they differ. Uses at most `threads` threads. Returns 1 if it wrote the weights, 0 if they had not changed. */
int skiprnn_pack(const skiprnn_shape *shape, const float *const *weights, int64_t purpose, int64_t threads,
                 float *packed, uint64_t *known);

/* Whether `packed`, which skiprnn_pack has filled, holds these weights: 1 or 0. */
int skiprnn_packed_is(const skiprnn_shape *shape, const float *const *weights, int64_t purpose, const float *packed);

/* The number of floats in one record. */
int64_t skiprnn_record_size(const skiprnn_problem *problem);

/* The number of records that is always enough. */
int64_t skiprnn_records(const skiprnn_problem *problem);

/* The number of floats in W x + b of all steps; 0 if it is computed as needed instead. */
int64_t skiprnn_projected_size(const skiprnn_problem *problem);

/* Runs the scan. `saved` is NULL if no backward follows. Returns SKIPRNN_OK or the fault. */
int skiprnn_forward(const skiprnn_problem *problem, const skiprnn_result *result, skiprnn_saved *saved);

/* Computes the gradients. `problem` is that of the forward. `packed` comes from skiprnn_pack for SKIPRNN_BACKWARD_TO_X
 * if the gradient of x is wanted, for SKIPRNN_BACKWARD otherwise. Returns SKIPRNN_OK or the fault. */
int skiprnn_backward(const skiprnn_problem *problem, const float *packed, const skiprnn_saved *saved,
                     const skiprnn_incoming *incoming, const skiprnn_outgoing *outgoing);

/* How many of the next `room` steps are skipped before one updates, if p and acc are 0..1; `room` if none does. `acc`
 * becomes the sum after those steps. Both are exactly what adding step by step gives, but take no longer for more
 * steps. */
int64_t skiprnn_skips(float p, float *acc, float threshold, int64_t room);

/* The bytes of memory that a stream needs. 0 if there is not enough memory. */
int64_t skiprnn_stream_size(const skiprnn_stream_options *options);

/* Makes a stream in `memory`, which is 64-byte aligned. Its rows have no state before skiprnn_stream_put. Needs no
 * counterpart: the memory can simply be freed. */
skiprnn_stream *skiprnn_stream_init(const skiprnn_stream_options *options, void *memory);

/* Gives rows a state: h and c [L, count, H]; c NULL without cell state; p and acc [count], NULL for 1 and 0. `time`
 * [count] is NULL for 0. `wanted` [count] is what skiprnn_stream_wanted said when the state was got, and must not be
 * before `time`; NULL: the gate decides from the state. `seeds` [count] replaces the rows' seeds; NULL: they stay.
 * Returns SKIPRNN_OK or the fault. */
int skiprnn_stream_put(skiprnn_stream *stream, const int64_t *rows, int64_t count, const float *h, const float *c,
                       const float *p, const float *acc, const int64_t *time, const int64_t *wanted,
                       const int64_t *seeds);

/* Writes the rows' state at their time, shaped as for skiprnn_stream_put. `acc` contains the steps that were skipped up
 * to then. */
int skiprnn_stream_get(skiprnn_stream *stream, const int64_t *rows, int64_t count, float *h, float *c, float *p,
                       float *acc);

/* Writes h of the top layer [count, H]. */
int skiprnn_stream_output(skiprnn_stream *stream, const int64_t *rows, int64_t count, float *output);

/* The time of every row, and the sample that it wants next [rows]. They change with the stream. */
const int64_t *skiprnn_stream_time(const skiprnn_stream *stream);
const int64_t *skiprnn_stream_wanted(const skiprnn_stream *stream);

/* How many steps a row can skip before the sample that it wants; SKIPRNN_NEVER if it wants none. */
int64_t skiprnn_stream_wait(const skiprnn_stream *stream, int64_t row);

/* Reads a sample of every row, x [count, D]; each has to be the one that its row wants. Their time advances by 1. */
int skiprnn_stream_update(skiprnn_stream *stream, const int64_t *rows, int64_t count, const float *x);

/* Time goes on without samples: by steps[i] for row i, or by `same` for every row if `steps` is NULL; neither may be
 * negative. */
int skiprnn_stream_skip(skiprnn_stream *stream, const int64_t *rows, int64_t count, const int64_t *steps, int64_t same);

/* Reads those samples of x [count, steps, D] that the rows want, and skips the others. `steps` is 0 or more. x is
 * contiguous in D; its strides are in floats. Writes to `used`, if it is not NULL, how many samples it has read. */
int skiprnn_stream_feed(skiprnn_stream *stream, const int64_t *rows, int64_t count, const float *x, int64_t row_stride,
                        int64_t step_stride, int64_t steps, int64_t *used);

/* Computes y = sigmoid(x) (`kind` 0) or y = tanh(x) (`kind` 1) of n values as the kernels do. Only tests use it. */
void skiprnn_activation(int64_t kind, int64_t n, const float *x, float *y);

#ifdef __cplusplus
}
#endif

#endif
