"""Exported models with int8 weights compute what they say, and are refused where a format can't hold them."""

import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest
import torch

from skiprnn_plugin.cli.export import main
from skiprnn_plugin.export.c_header import make_header
from skiprnn_plugin.export.parts import Parts
from skiprnn_plugin.export.quantize import largest_state, quantize_rows
from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN
from skiprnn_plugin.ops.native import library as native

from ..cli.conftest import fails  # noqa: F401  (a fixture)
from ..command_line import ROOT, WARNINGS, run, train
from ..int8_oracle import TOLERANCE, read

RNNS = {
    "gru": lambda: SkipGRU(3, 9, update_bias=-0.5),
    "gru_reset_before": lambda: SkipGRU(3, 9, reset_after=False, update_bias=-0.5),
    "lstm": lambda: SkipLSTM(3, 8, 2, gate_layers=[0, 1], update_bias=-0.5),
    "rnn": lambda: SkipRNN(3, 5, update_bias=-0.5),
}


def make_parts(rnn):
    """The parts of a model whose output is the top layer's state."""
    tensors = {name: value.detach().numpy() for name, value in rnn.named_parameters()}
    for name in {"initial_h", "initial_c"} & set(tensors):
        tensors[name] = tensors[name][:, 0]
    tensors["update_weight"] = tensors["update_weight"][0]
    size = rnn.hidden_size
    tensors.update(head_weight=np.eye(size, dtype=np.float32), head_bias=np.zeros(size, np.float32))
    shape = (rnn.cell, rnn.input_size, size, rnn.num_layers, size, tuple(rnn.gate_layers), rnn.threshold)
    return Parts(*shape, tensors, None, None, (), "numbers", False)


PROGRAM = """
#include <stdio.h>
#include "model.h"
int main(void) {
    float sample[MODEL_INPUTS], outputs[MODEL_OUTPUTS];
    model_state state;
    FILE *sensor = fopen("recording.csv", "r");
    unsigned long time = 0, wanted = 0;
    model_start(&state);
    for (; fscanf(sensor, "%f,%f,%f", sample, sample + 1, sample + 2) == 3; time++) {
        if (time != wanted) continue;
        const uint32_t wait = model_update(&state, sample);
        wanted = wait == MODEL_NEVER ? (unsigned long)-1 : time + wait;
        model_predict(&state, outputs);
        printf("%lu", time);
        for (int j = 0; j < MODEL_OUTPUTS; j++) printf(" %.6f", (double)outputs[j]);
        printf("\\n");
    }
    return 0;
}
"""


@pytest.fixture
def program(tmp_path):
    """A function that writes a header and a program that reads ``recording.csv``, and compiles them."""

    def compile_program(rnn, x):
        compiler = shutil.which("cc") or pytest.skip("no C compiler is installed")
        (tmp_path / "model.h").write_text(make_header(make_parts(rnn), "model", "int8"))
        (tmp_path / "main.c").write_text(PROGRAM)
        (tmp_path / "recording.csv").write_text("".join(",".join(map(repr, step)) + "\n" for step in x.tolist()))
        command = [
            compiler,
            "-std=c99",
            "-pedantic",
            *WARNINGS,
            "-O1",
            "-o",
            tmp_path / "main",
            tmp_path / "main.c",
            "-lm",
        ]
        process = subprocess.run(command, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        return tmp_path

    return compile_program


@pytest.mark.parametrize("name", RNNS)
def test_header(name, program):
    torch.manual_seed(3)
    rnn, x = RNNS[name](), torch.randn(60, 3)
    torch.nn.init.normal_(rnn.update_weight)
    torch.nn.init.normal_(rnn.initial_h, std=2)  # a state larger than 1, which the first updates read
    folder = program(rnn, x)
    lines = np.array([line.split() for line in run(folder / "main", cwd=folder).stdout.splitlines()], float)
    expected, updates = read(rnn, x)
    used = np.nonzero(updates)[0]
    assert 5 < len(used) < 55 and lines[:, 0].tolist() == used.tolist()
    np.testing.assert_allclose(lines[:, 1:], expected[used], atol=TOLERANCE)
    with torch.no_grad():
        in_float32 = rnn(x[None, used], schedule=torch.ones(1, len(used)))[0][0]
    assert (expected[used] - in_float32).abs().max() > 4 * TOLERANCE


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", RNNS)
def test_numbers_that_are_not_finite(name, bad, program):
    """What is not finite stays in the state, in the header as in the engine int8."""
    if native.missing():
        pytest.skip(native.missing())
    torch.manual_seed(5)
    rnn, x = RNNS[name]().eval(), torch.randn(40, 3)
    used = int(np.nonzero(read(rnn, x)[1])[0][2])
    x[used, 1] = bad
    folder = program(rnn, x)
    lines = np.array([line.split() for line in run(folder / "main", cwd=folder).stdout.splitlines()], float)
    with torch.no_grad():
        expected, _, updates = rnn.quantized()(x[None])
    steps = np.nonzero(updates[0].numpy())[0]
    assert lines[:, 0].tolist() == steps.tolist()
    np.testing.assert_allclose(lines[:, 1:], expected[0, steps], atol=TOLERANCE)
    if np.isnan(bad):
        assert np.isnan(lines[-1, 1:]).all() and not np.isnan(lines[:2]).any()


def test_simulated_microcontroller_prints_the_same(program):
    """The same program on a simulated Cortex-M4F, with the options of examples/microcontroller."""
    text = (ROOT / "examples/microcontroller/README.md").read_text().replace("\\\n", "")
    *_, compile_it, simulate = (shlex.split(line) for line in re.findall(r"^    (\w.*)", text, re.MULTILINE))
    for tool in (compile_it[0], simulate[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    torch.manual_seed(4)
    folder = program(RNNS["lstm"](), torch.randn(40, 3))
    (folder / "examples").symlink_to(ROOT / "examples")
    compile_it[compile_it.index("examples/microcontroller/main.c")] = "main.c"
    process = run(*compile_it, cwd=folder)
    assert process.returncode == 0, process.stderr
    printed = run(*simulate, cwd=folder).stdout
    assert printed == run(folder / "main", cwd=folder).stdout and len(printed.splitlines()) > 3


def test_rows_of_any_size():
    weight = [[1, -2, 0.5], [0, 0, 0], [1e-45, 0, 0], [1e-37, 0, 0], [3e38, -1e30, 0], [1e-30, 5e-31, -1e-30]]
    weight = np.array(weight, np.float32)
    rows, scales = quantize_rows(weight)
    assert rows.tolist() == [[64, -127, 32], [0, 0, 0], [0, 0, 0], [0, 0, 0], [127, 0, 0], [127, 64, -127]]
    np.testing.assert_allclose(rows * scales[:, None].astype(float), weight, rtol=0, atol=scales.max() / 2)
    assert scales[1] == scales[2] == scales[3] == 0 and scales.dtype == np.float32


@pytest.mark.parametrize("hidden_size", [1, 516, 517, 4096])
def test_no_sum_overflows(hidden_size):
    most = largest_state(hidden_size)
    assert most * 127 * hidden_size < 2**31 and (most == 32767 or (most + 1) * 127 * hidden_size >= 2**31)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    save_dir = tmp_path_factory.mktemp("adding")
    train(save_dir, "--max-update", 1)
    return save_dir / "checkpoint_last.pt"


@pytest.mark.thorough
def test_command(checkpoint, tmp_path):
    for weights in ("float32", "int8"):
        assert main([str(checkpoint), str(tmp_path / f"{weights}.h"), "--name", "model", "--weights", weights]) == 0
    assert main([str(checkpoint), str(tmp_path / "model.h")]) == 0
    text = {file.stem: file.read_text() for file in tmp_path.iterdir()}
    assert text["model"] == text["float32"] and "int8" not in text["model"]
    assert re.search(r"int8_t model_weight_hh_l0\[\d+\] = {", text["int8"]) and "model_scale_hh_l0" in text["int8"]


@pytest.mark.parametrize(
    "output, reason",
    [
        ("model.safetensors", "the file holds the weights as trained; libskiprnn rounds them itself"),
        ("model.onnx", "ONNX has no product of int8 weights and an int16 state"),
        ("model.pt2", "torch has no product of int8 weights and an int16 state"),
    ],
)
def test_formats_without_int8(checkpoint, tmp_path, fails, output, reason):  # noqa: F811
    message = fails(main, checkpoint, tmp_path / output, "--weights", "int8")
    assert f"--weights: expected float32, or an OUT that ends in .h, got '{output}'; {reason}" in message
    assert list(tmp_path.iterdir()) == []
