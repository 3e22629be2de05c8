"""A C header with a whole model: C99, no allocation, for microcontrollers. It reads one wanted sample at a time."""

import re
from typing import Dict, Iterator

import numpy as np

from .parts import Parts, check_threshold
from .quantize import largest_state, quantize_rows

LINE = 8  # numbers in a line of an array

HEAD = """\
/* A Skip RNN that reads only the samples it asks for. Written by skiprnn-export; do not edit.
 *
 *     NAME_state state;
 *     float probabilities[NAME_OUTPUTS];
 *     uint32_t wait;
 *
 *     NAME_start(&state);
 *     wait = NAME_update(&state, sample);  the first sample; then let wait - 1 samples pass and give the next one
 *     NAME_predict(&state, probabilities); at any time
 *
 * NAME_update returns NAME_NEVER when no further sample is wanted. A sample holds NAME_INPUTS numbers as the sensor
 * gives them: they are normalised here. They must be finite, also when normalised: check a sensor that can fail. One
 * NaN stays in the state and the outputs until NAME_start, and NAME_update then always returns 1.
 *
 * C99; needs expf, tanhf, frexpf, ldexpf$also. Nothing is allocated; a state takes sizeof(NAME_state) bytes. Do not
 * compile with -ffast-math: the waiting time counts rounded additions.
 */
#ifndef NAME_H
#define NAME_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NAME_INPUTS $inputs
#define NAME_HIDDEN $hidden
#define NAME_LAYERS $layers
#define NAME_OUTPUTS $outputs
$class_count#define NAME_NEVER UINT32_MAX

typedef struct {
    float h[NAME_LAYERS][NAME_HIDDEN];
$c_field} NAME_state;
"""

SIGMOID = """
static inline float NAME_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

static float NAME_dot(const float *a, const float *b, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
"""

# The recurrent product with int8 weights. The largest rounded state is so small that no sum overflows.
INT8 = """
/* Rounds the state h to q, 16-bit integers. Returns the unit, by which to multiply them to get h again; NaN if not all
 * of h is finite, as NaN has no integer. */
static float NAME_round(const float *h, int16_t *q) {
    float bound = 1.0f, nothing = 0.0f;
    for (int i = 0; i < NAME_HIDDEN; i++) {
        const float size = fabsf(h[i]);
        if (size > bound) bound = size;
        nothing += size - size; /* NaN if h[i] is not finite */
    }
    const float factor = $most.0f / bound;
    for (int i = 0; i < NAME_HIDDEN; i++) q[i] = nothing >= 0.0f ? (int16_t)lrintf(h[i] * factor) : 0;
    return bound / $most.0f + nothing;
}

static float NAME_dot_int8(const int8_t *a, const int16_t *b) {
    int32_t sum = 0;
    for (int i = 0; i < NAME_HIDDEN; i++) sum += (int32_t)a[i] * b[i];
    return (float)sum;
}
"""

# A layer's new state. The arrays hold a block of NAME_HIDDEN rows for each gate, in torch's order
LAYERS = {
    "lstm": """
static void NAME_layer(const float *x, int inputs, const float *w, $u_type, const float *b,
                       const float *d, float *h, float *c) {
    float next[NAME_HIDDEN], sum[4];
$round_h    for (int j = 0; j < NAME_HIDDEN; j++) {
        for (int g = 0; g < 4; g++) {
            const int row = g * NAME_HIDDEN + j;
            sum[g] = NAME_dot(w + row * inputs, x, inputs) + b[row] +
                     $u_times_h + d[row];
        }
        c[j] = NAME_sigmoid(sum[1]) * c[j] + NAME_sigmoid(sum[0]) * tanhf(sum[2]);
        next[j] = NAME_sigmoid(sum[3]) * tanhf(c[j]);
    }
    memcpy(h, next, sizeof next);
}
""",
    "gru": """
static void NAME_layer(const float *x, int inputs, const float *w, $u_type, const float *b,
                       const float *d, float *h) {
    float next[NAME_HIDDEN], in[3], held[3];
$round_h    for (int j = 0; j < NAME_HIDDEN; j++) {
        for (int g = 0; g < 3; g++) {
            const int row = g * NAME_HIDDEN + j;
            in[g] = NAME_dot(w + row * inputs, x, inputs) + b[row];
            held[g] = $u_times_h + d[row];
        }
        const float z = NAME_sigmoid(in[1] + held[1]);
        next[j] = (1.0f - z) * tanhf(in[2] + NAME_sigmoid(in[0] + held[0]) * held[2]) + z * h[j];
    }
    memcpy(h, next, sizeof next);
}
""",
    "gru_reset_before": """
static void NAME_layer(const float *x, int inputs, const float *w, $u_type, const float *b,
                       const float *d, float *h) {
    float gate[2][NAME_HIDDEN], reset[NAME_HIDDEN];
$round_h    for (int g = 0; g < 2; g++)
        for (int j = 0; j < NAME_HIDDEN; j++) {
            const int row = g * NAME_HIDDEN + j;
            gate[g][j] = NAME_sigmoid(NAME_dot(w + row * inputs, x, inputs) +
                                      $u_times_h + b[row] + d[row]);
        }
    for (int j = 0; j < NAME_HIDDEN; j++) reset[j] = gate[0][j] * h[j];
$round_reset    for (int j = 0; j < NAME_HIDDEN; j++) {
        const int row = 2 * NAME_HIDDEN + j;
        const float n = tanhf(NAME_dot(w + row * inputs, x, inputs) + b[row] +
                              $u_times_reset + d[row]);
        h[j] = (1.0f - gate[1][j]) * n + gate[1][j] * h[j];
    }
}
""",
    "rnn": """
static void NAME_layer(const float *x, int inputs, const float *w, $u_type, const float *b,
                       const float *d, float *h) {
    float next[NAME_HIDDEN];
$round_h    for (int row = 0; row < NAME_HIDDEN; row++)
        next[row] = tanhf(NAME_dot(w + row * inputs, x, inputs) + b[row] + $u_times_h + d[row]);
    memcpy(h, next, sizeof next);
}
""",
}

START = """
/* The state that every stream starts from. */
static inline void NAME_start(NAME_state *state) {
    memcpy(state->h, NAME_initial_h, sizeof state->h);
$start_c}
"""

WAIT = """
/* a + b rounded to float, also by a compiler that computes in wider registers, as those of an x87: it must write a
 * volatile number to memory. */
static float NAME_add(float a, float b) {
    const volatile float sum = a + b;
    return sum;
}

/* After how many samples the next one is wanted, for the update probability p: the rounded sum of p over the samples
 * must exceed the threshold. Between two powers of 2 the sum grows by the same number at every addition but the first,
 * which may round a tie in another way. */
static uint32_t NAME_wait(float p) {
    const float threshold = $threshold;
    float sum = 0.0f;
    uint32_t count = 1;
    p = NAME_add(p, 0.0f);
    for (;; count++) {
        const float next = NAME_add(sum, p);
        if (!(next <= threshold)) return count;
        if (!(next > sum)) return NAME_NEVER; /* next is no NaN here, and p not negative */
        int exponent;
        (void)frexpf(next, &exponent);
        float end = ldexpf(1.0f, exponent);
        const int grows_evenly = sum >= 0.5f * end;
        sum = next;
        const float increment = NAME_add(sum, p) - sum;
        if (end > threshold) end = threshold;
        const float room = (end - sum) / increment - 2.0f; /* 2 fewer, as a division rounds */
        if (grows_evenly && increment > 0.0f && room >= 1.0f) {
            const uint32_t times = (uint32_t)room;
            sum += (float)times * increment;
            count += times;
        }
    }
}
"""

UPDATE = """
/* Reads a wanted sample. Returns after how many samples the next one is wanted: 1 for the next sample, NAME_NEVER for
 * none. */
static inline uint32_t NAME_update(NAME_state *state, const float *sample) {
$normalize$calls$wait}
"""

PREDICT = """
/* $meaning */
static inline void NAME_predict(const NAME_state *state, float *outputs) {
    const float *h = state->h[NAME_LAYERS - 1];
    for (int j = 0; j < NAME_OUTPUTS; j++)
        outputs[j] = NAME_dot(NAME_head_weight + j * NAME_HIDDEN, h, NAME_HIDDEN) + NAME_head_bias[j];
$activation}

#endif
"""

ACTIVATIONS = {
    "classes": (
        "The probability of each class.",
        """\
    float largest = outputs[0], sum = 0.0f;
    for (int j = 1; j < NAME_OUTPUTS; j++)
        if (outputs[j] > largest) largest = outputs[j];
    for (int j = 0; j < NAME_OUTPUTS; j++) sum += outputs[j] = expf(outputs[j] - largest);
    for (int j = 0; j < NAME_OUTPUTS; j++) outputs[j] /= sum;
""",
    ),
    "labels": (
        "The probability of each label.",
        "    for (int j = 0; j < NAME_OUTPUTS; j++) outputs[j] = NAME_sigmoid(outputs[j]);\n",
    ),
    "numbers": ("The predicted numbers.", ""),
}


# What differs between the weights that the header can hold
WEIGHTS: Dict[str, Dict[str, str]] = {
    "float32": {
        "also": "",
        "u_type": "const float *u",
        "round_h": "",
        "round_reset": "",
        "u_times_h": "NAME_dot(u + row * NAME_HIDDEN, h, NAME_HIDDEN)",
        "u_times_reset": "NAME_dot(u + row * NAME_HIDDEN, reset, NAME_HIDDEN)",
    },
    "int8": {
        "also": ", fabsf, lrintf",
        "u_type": "const int8_t *u, const float *s",
        "round_h": "    int16_t q[NAME_HIDDEN];\n    float unit = NAME_round(h, q);\n",
        "round_reset": "    unit = NAME_round(reset, q);\n",
        "u_times_h": "s[row] * unit * NAME_dot_int8(u + row * NAME_HIDDEN, q)",
        "u_times_reset": "s[row] * unit * NAME_dot_int8(u + row * NAME_HIDDEN, q)",
    },
}


def make_header(parts: Parts, name: str, weights: str = "float32") -> str:
    """The text of the header, whose identifiers begin with ``name``.

    Args:
        weights: a key of ``WEIGHTS``. With ``int8`` the recurrent weights are rounded to 8-bit integers with a scale
            for each row, and the state is rounded to 16 bits before it is multiplied with them.

    Raises:
        ValueError: ``name`` is no identifier of C, or the threshold is 1 or more.
    """
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(f"name: expected an identifier of C, got {name!r}")
    check_threshold(parts)
    meaning, activation = ACTIVATIONS[parts.predicts]
    values = {
        "inputs": parts.input_size,
        "hidden": parts.hidden_size,
        "layers": parts.num_layers,
        "outputs": parts.output_size,
        "class_count": f"#define NAME_CLASSES {parts.output_size}\n" if parts.predicts == "classes" else "",
        "c_field": "    float c[NAME_LAYERS][NAME_HIDDEN];\n" if parts.has_c else "",
        "start_c": "    memcpy(state->c, NAME_initial_c, sizeof state->c);\n" if parts.has_c else "",
        "threshold": _number(parts.threshold),
        "normalize": "" if parts.mean is None else NORMALIZE,
        "calls": "".join(_calls(parts, weights == "int8")),
        "wait": _wait(parts),
        "meaning": meaning,
        "activation": activation,
        "most": largest_state(parts.hidden_size),
    }
    is_int8 = weights == "int8"
    names = "\nstatic const char *const NAME_classes[NAME_OUTPUTS] = {$class_names};\n" if parts.class_names else ""
    layer = LAYERS[parts.cell]
    for key, value in WEIGHTS[weights].items():
        layer = layer.replace(f"${key}", value)
    head = HEAD.replace("$also", WEIGHTS[weights]["also"])
    sections = [head, names, *_arrays(parts, is_int8), SIGMOID, *([INT8] if is_int8 else []), layer, START]
    sections += [WAIT] if parts.gate_layers else []
    text = "".join([*sections, UPDATE, PREDICT])
    for key, value in values.items():
        text = text.replace(f"${key}", str(value))
    guard = name.upper()
    # In one pass: the name that replaces NAME_ may hold NAME_ itself, and is not to be replaced again
    macro = r"NAME_(?=(H|INPUTS|HIDDEN|LAYERS|OUTPUTS|CLASSES|NEVER)\b)|NAME_"
    text = re.sub(macro, lambda found: f"{guard if found[1] else name}_", text)
    return text.replace("$class_names", ", ".join(map(_string, parts.class_names)))  # last, as names may be anything


NORMALIZE = """\
    float x[NAME_INPUTS];
    for (int i = 0; i < NAME_INPUTS; i++) x[i] = (float)(((double)sample[i] - NAME_mean[i]) / NAME_std[i]);
"""


def _calls(parts: Parts, is_int8: bool) -> Iterator[str]:
    kinds = ("weight_ih", "weight_hh", *(("scale_hh",) if is_int8 else ()), "bias_ih", "bias_hh")
    source = "sample" if parts.mean is None else "x"
    for layer in range(parts.num_layers):
        size = "NAME_INPUTS" if layer == 0 else "NAME_HIDDEN"
        names = ", ".join(f"NAME_{kind}_l{layer}" for kind in kinds)
        state = f"state->h[{layer}]" + (f", state->c[{layer}]" if parts.has_c else "")
        yield f"    NAME_layer({source}, {size}, {names}, {state});\n"
        source = f"state->h[{layer}]"


def _wait(parts: Parts) -> str:
    if not parts.gate_layers:
        return "    return 1;\n"
    lines = ["    float sum = NAME_update_bias[0];\n"]
    for position, layer in enumerate(parts.gate_layers):
        weights = "NAME_update_weight" + (f" + {position} * NAME_HIDDEN" if position else "")
        lines.append(f"    sum += NAME_dot({weights}, state->{'c' if parts.has_c else 'h'}[{layer}], NAME_HIDDEN);\n")
    return "".join([*lines, "    return NAME_wait(NAME_sigmoid(sum));\n"])


def _string(text: str) -> str:
    """A string literal of C: characters other than printable ASCII as octal escapes of UTF-8."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return '"' + "".join(plain) + '"'


def _arrays(parts: Parts, is_int8: bool) -> Iterator[str]:
    for name, array in parts.tensors.items():
        if is_int8 and name.startswith("weight_hh"):
            rows, scales = quantize_rows(array)
            yield _array(name, rows, "int8_t")
            yield _array(name.replace("weight", "scale"), scales, "float")
        else:
            yield _array(name, array, "float")
    for name, array in (("mean", parts.mean), ("std", parts.std)):
        if array is not None:
            yield _array(name, array, "double")


def _array(name: str, array: np.ndarray, kind: str) -> str:
    write = {"float": _number, "double": lambda value: f"{float(value):.17g}", "int8_t": str}[kind]
    numbers = list(map(write, array.ravel()))
    lines = [", ".join(numbers[start : start + LINE]) for start in range(0, len(numbers), LINE)]
    return f"\nstatic const {kind} NAME_{name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + ",\n};\n"


def _number(value: float) -> str:
    """A float32 as a literal of C, from which the compiler reads the same number."""
    text = f"{np.float32(value):.9g}"
    return text + ("f" if any(character in text for character in ".e") else ".0f")
