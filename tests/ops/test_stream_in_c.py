"""A program in C that reads a sequence with the library's streams, in memory of its own."""

import shutil
import subprocess

import numpy as np
import pytest
import torch

from skiprnn_plugin.modules import SkipGRU
from skiprnn_plugin.ops.native import library
from skiprnn_plugin.ops.types import flatten_weights

from ..command_line import PLUGIN
from .native_problems import native

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "skiprnn.h"

enum { INPUT = 3, HIDDEN = 5, STEPS = 40, ROWS = 3 * HIDDEN };
static float weight_ih[ROWS * INPUT], weight_hh[ROWS * HIDDEN], bias_ih[ROWS], bias_hh[ROWS];
static float h[HIDDEN], gate_weight[HIDDEN], gate_bias, x[STEPS][INPUT], output[HIDDEN];

static void *aligned(size_t size) { return (void *)(((size_t)malloc(size + 63) + 63) / 64 * 64); }

int main(void) {
    float *const parts[] = {weight_ih, weight_hh, bias_ih, bias_hh, h, gate_weight, &gate_bias, x[0]};
    const size_t sizes[] = {ROWS * INPUT, ROWS * HIDDEN, ROWS, ROWS, HIDDEN, HIDDEN, 1, STEPS * INPUT};
    for (int i = 0; i < 8; i++)
        if (fread(parts[i], sizeof(float), sizes[i], stdin) != sizes[i]) return 1;
    const skiprnn_shape shape = {SKIPRNN_GRU, 1, INPUT, HIDDEN, SKIPRNN_FLOAT32};
    const float *const weights[] = {weight_ih, weight_hh, bias_ih, bias_hh};
    float *packed = aligned(sizeof(float) * skiprnn_packed_size(&shape, SKIPRNN_FORWARD));
    uint64_t known = 0;
    skiprnn_pack(&shape, weights, SKIPRNN_FORWARD, 1, packed, &known);
    const int64_t layers[] = {0};
    const skiprnn_stream_options options = {shape, 1, packed, gate_weight, &gate_bias, 1, layers, 0.5f,
                                            0, SKIPRNN_NEVER, NULL};
    void *memory = aligned(skiprnn_stream_size(&options));
    skiprnn_stream *stream = skiprnn_stream_init(&options, memory);
    if (skiprnn_stream_put(stream, NULL, 1, h, NULL, NULL, NULL, NULL, NULL, NULL)) return 2;
    const int64_t five = 5, before = -1;
    if (skiprnn_stream_put(stream, NULL, 1, h, NULL, NULL, NULL, &five, layers, NULL) != SKIPRNN_TOO_LATE) return 7;
    if (skiprnn_stream_put(stream, NULL, 1, h, NULL, NULL, NULL, NULL, &before, NULL) != SKIPRNN_TOO_LATE) return 8;
    if (skiprnn_stream_feed(stream, NULL, 1, x[0], 0, INPUT, -5, NULL) != SKIPRNN_TOO_LATE) return 9;
    if (skiprnn_stream_update(stream, NULL, -1, x[0]) != SKIPRNN_NO_ROW) return 10;
    if (skiprnn_stream_update(stream, layers, -1, x[0]) != SKIPRNN_NO_ROW) return 11;
    for (int64_t time = 0, wait; (wait = skiprnn_stream_wait(stream, 0)) < STEPS - time; time += wait + 1) {
        if (skiprnn_stream_update(stream, NULL, 1, x[time]) != (wait ? SKIPRNN_TOO_EARLY : SKIPRNN_OK)) return 3;
        if (wait == 0) {
            printf("%d ", (int)time);
            continue;
        }
        if (skiprnn_stream_skip(stream, NULL, 1, NULL, wait + 1) != SKIPRNN_TOO_LATE) return 4;
        if (skiprnn_stream_skip(stream, NULL, 1, NULL, wait)) return 5;
        printf("%d ", (int)(time + wait));
        if (skiprnn_stream_update(stream, NULL, 1, x[time + wait])) return 6;
    }
    skiprnn_stream_output(stream, NULL, 1, output);
    for (int i = 0; i < HIDDEN; i++) printf("%a ", output[i]);
    return 0;
}
"""


@native
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_program_in_c(engine, tmp_path):
    torch.manual_seed(0)
    rnn = SkipGRU(3, 5, update_bias=-1.0).requires_grad_(False)
    x = torch.randn(1, 40, 3)
    output, _, updates = rnn(x, last_only=True)
    (tmp_path / "program.c").write_text(PROGRAM)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{PLUGIN / 'ops/native'}"]
    path = library.load()._name
    subprocess.run(["gcc", *strict, "program.c", path, "-o", "program"], cwd=tmp_path, check=True)
    parts = [*flatten_weights(rnn._weights("")), rnn.initial_h, rnn.update_weight, rnn.update_bias, x]
    given = b"".join(part.numpy().astype(np.float32).tobytes() for part in parts)
    process = subprocess.run([tmp_path / "program"], input=given, capture_output=True, check=True)
    printed = process.stdout.decode().split()
    assert list(map(int, printed[:-5])) == updates[0].nonzero().squeeze(1).tolist()
    assert [float.fromhex(number) for number in printed[-5:]] == output[0].tolist()
