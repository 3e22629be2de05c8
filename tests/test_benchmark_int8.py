"""``python -m benchmarks.int8``: int8 weights beside float32."""

import importlib.util
import json

import numpy as np
import pytest

from benchmarks import int8
from benchmarks.int8 import FLOAT32, INT8, ONNX, ONNX_INT8, main
from skiprnn_plugin.cli.prepare import main as prepare
from skiprnn_plugin.ops.native import library

from .command_line import train
from .made_up_recordings import make_recordings

pytestmark = pytest.mark.skipif(library.missing() is not None, reason=str(library.missing()))
HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))


def run(tmp_path, capsys, *options):
    """Run the command; returns the measurements of its report."""
    output = tmp_path / "report.json"
    assert main([*map(str, options), "--output", str(output)]) == 0
    assert capsys.readouterr().out == output.with_suffix(".md").read_text() + "\n"
    return json.loads(output.read_text())["measurements"]


def test_times(tmp_path, capsys):
    entries = run(tmp_path, capsys, *"--hidden-sizes 8 17 --seconds 0.01 --inputs 2".split())
    assert [(entry["cell"], entry["hidden"]) for entry in entries] == [(c, h) for c in ("gru", "lstm") for h in (8, 17)]
    for entry in entries:
        assert entry[INT8] > 0 and entry["times_as_fast"] == pytest.approx(entry[FLOAT32] / entry[INT8])


def test_trained_models(tmp_path, capsys):
    recordings, labels = make_recordings(24, 30, 60)
    np.savez(tmp_path / "made-up.npz", *recordings, labels=labels)
    assert prepare(["features", str(tmp_path / "made-up.npz"), str(tmp_path / "data")]) == 0
    options = ["--data-dir", tmp_path / "data", "--normalize", "--arch", "skip_gru", "--update-bias", -1]
    train(tmp_path / "run", *options, "--max-update", 2, task="feature_classification")
    capsys.readouterr()
    entries = run(tmp_path, capsys, tmp_path / "run", "--split", "valid")
    assert [entry["weights"] for entry in entries] == [FLOAT32, INT8, *[ONNX, ONNX_INT8] * HAS_ONNX]
    expected, *others = entries
    assert 0 < expected["used"] < 1 and expected["decided_otherwise"] == 0
    for entry in others[:2]:
        assert abs(entry["used"] - expected["used"]) < 0.05 and entry["sequences"] == expected["sequences"]
    if HAS_ONNX:
        assert others[1]["accuracy"] == expected["accuracy"] and others[1]["decided_otherwise"] == 0


def test_a_wrong_output_is_an_error(monkeypatch):
    monkeypatch.setattr(int8.SkipGRU, "quantized", lambda self: int8.SkipGRU(self.input_size, self.hidden_size).eval())
    with pytest.raises(RuntimeError, match="^int8: expected almost the output of float32$"):
        main("--hidden-sizes 8 --seconds 0.01 --cells gru".split())


@pytest.mark.parametrize("option", ["--hidden-sizes", "--cells"])
def test_an_option_without_a_value_is_an_error(capsys, option):
    with pytest.raises(SystemExit):
        main([option])
    assert f"argument {option}: expected at least one argument" in capsys.readouterr().err


def test_errors(capsys):
    assert main(["--hidden-sizes", "0"]) == 2
    assert "--hidden-sizes: expected at least 1, got 0" in capsys.readouterr().err
