"""Waiting times of exported models: as many steps as repeated addition skips, exactly."""

import ctypes
import shutil

import numpy as np
import pytest

from skiprnn_plugin.export.c_header import WAIT
from skiprnn_plugin.export.onnx_file import _add_wait
from skiprnn_plugin.export.onnx_graph import Graph, value
from skiprnn_plugin.export.waits import longest_waits
from skiprnn_plugin.ops.clock import NEVER

from ..command_line import run

THRESHOLDS = (0.5, *(pytest.param(threshold, marks=pytest.mark.thorough) for threshold in (0.1, 0.8)))


def add_up(p, threshold):
    """After how many steps the next update comes, by the definition, for every number of ``p``."""
    acc, wait, waits = np.zeros_like(p), np.ones(len(p), np.int64), np.ones(len(p), bool)
    while waits.any():
        v = acc + np.minimum(p, 1 - acc)
        wait[waits & (v == acc) & (v <= np.float32(threshold))] = NEVER
        waits &= (v <= np.float32(threshold)) & (v != acc)
        wait += waits
        acc = v
    return wait.tolist()


def make_probabilities(threshold):
    """Update probabilities of all sizes, and those at which the waiting time changes."""
    drawn = np.exp(np.random.default_rng(0).uniform(np.log(1e-5), 0, 60)).astype(np.float32)
    table = longest_waits(threshold)[np.r_[:40, -1]]
    drawn[::2] = table[-1] * np.linspace(0.2, 1, len(drawn[::2]), dtype=np.float32)  # not in the table
    return np.concatenate([drawn, table, np.nextafter(table, np.float32(1)), np.float32([0, 1, np.nan])])


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_onnx(threshold):
    helper = pytest.importorskip("onnx.helper")
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = Graph()
    _add_wait(graph, threshold)
    inputs, outputs = [value("p", np.float32, ["batch"])], [value("wait", np.int64, ["batch"])]
    graph = helper.make_graph(graph.nodes, "wait", inputs, outputs, graph.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    p = make_probabilities(threshold)
    (wait,) = session.run(None, {"p": p})
    assert wait.tolist() == add_up(p, threshold)


@pytest.mark.parametrize("options", [["-std=c99"], ["-mfpmath=387"]], ids=["c99", "x87"])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_c(threshold, options, tmp_path):
    """An x87 keeps sums in wider registers, as compilers for 32-bit x86 do unless a standard of C is asked for."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler is installed")
    function = WAIT.replace("$threshold", f"{np.float32(threshold):.9g}f").replace("static ", "")
    head = "#include <math.h>\n#include <stdint.h>\n#define NAME_NEVER UINT32_MAX\nuint32_t NAME_wait(float p);\n"
    (tmp_path / "wait.c").write_text(head + function)
    files = ["-o", tmp_path / "wait.so", tmp_path / "wait.c", "-lm"]
    process = run(compiler, *options, "-O2", "-shared", "-fPIC", *files)
    if process.returncode != 0 and "-mfpmath=387" in process.stderr:
        pytest.skip("the C compiler is not for an x87")
    assert process.returncode == 0, process.stderr
    function = ctypes.CDLL(str(tmp_path / "wait.so")).NAME_wait
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_uint32
    p = make_probabilities(threshold)
    expected = [min(wait, 2**32 - 1) for wait in add_up(p, threshold)]
    assert [function(number) for number in p] == expected
