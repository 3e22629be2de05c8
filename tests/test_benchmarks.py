"""``python -m benchmarks.run``: right results are timed, wrong ones are not, and bad options are one error."""

import json
import sys
from functools import partial

import pytest
import torch

from benchmarks.checks import expect, find_fault
from benchmarks.contestants import CannotRun, prepare
from benchmarks.problem import Spec, build
from benchmarks.run import main
from benchmarks.shapes import CELLS, MIXED, MODES, SHAPES, SUITES
from benchmarks.timing import time_interleaved
from skiprnn_plugin.ops import ENGINES
from skiprnn_plugin.ops.engines import Engine

from .command_line import ROOT, run
from .selection import quick_in

TINY = ["--quick", "--shapes", "tiny-b8", "--cells", "gru", "--seconds", "0.01", "--threads", "1"]

TIMED = [name for name, engine in ENGINES.items() if "cpu" not in engine.emulated_devices]  # by default


def spec(name="tiny-b8", cell="gru", fraction=0.5, **changes):
    return Spec(name, SHAPES[name]._replace(**changes), cell, fraction, torch.float32, "cpu")


def measure(folder, *options):
    """Run the command in this process, without memory. Returns its exit code and its report."""
    output = folder / "result.json"
    code = main([*TINY, "--no-memory", "--output", str(output), *options])
    return code, json.loads(output.read_text())


def left_out(report, mode, dtype="float32"):
    """The names of the contestants that could not run in this mode."""
    notes = [note.split(", ", 3) for note in report["left_out"]]
    return {name for name, its_mode, _, reason in notes if its_mode == mode and reason.startswith(f"{dtype}: ")}


def by_contestant(report):
    assert len(report["measurements"]) == len({entry["contestant"] for entry in report["measurements"]})
    return {entry["contestant"]: entry for entry in report["measurements"]}


@pytest.mark.thorough
def test_command(tmp_path):
    """The command runs in a process in which fairseq can't be imported."""
    (tmp_path / "fairseq.py").write_text("raise ImportError('not wanted')")
    output = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.run", *TINY, "--fractions", MIXED, "--output", output]
    process = run(*command, cwd=ROOT, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert process.returncode == 0, process.stderr
    report = json.loads(output.read_text())
    assert process.stdout == output.with_suffix(".md").read_text()
    assert {"processor", "cores", "memory", "device"} <= set(report["machine"])
    assert report["versions"]["torch"] == torch.__version__
    assert report["commit"] is not None and report["options"]["seconds"] == 0.01
    seen = set()
    for entry in report["measurements"]:
        seen.add((entry["mode"], entry["contestant"]))
        assert entry["fraction"] == MIXED
        assert 0 < entry["fraction_of_rows_min"] < entry["fraction_ran"] < entry["fraction_of_rows_max"] <= 1
        assert entry["fault"] is None and entry["runs"] >= 3
        assert 0 < entry["seconds_min"] <= entry["seconds_median"]
        assert entry["us_per_step_median"] == pytest.approx(entry["seconds_median"] / 20 * 1e6)
        assert (entry["shape"], entry["steps"], entry["batch"], entry["threads"]) == ("tiny-b8", 20, 8, 1)
        assert (entry["peak_memory"] is None) == (entry["mode"] == "inference")
        assert entry["ratio"] > 0 and entry["kind"] == ("engine" if entry["contestant"] in ENGINES else "peer")
    for mode in ("inference", "training"):
        absent = left_out(report, mode)
        assert absent <= {"onnxruntime", "native", "triton"}
        assert {name for run_mode, name in seen if run_mode == mode} == {*TIMED, "torch", "onnxruntime"} - absent
    peak = {e["contestant"]: e["peak_memory"] for e in report["measurements"] if e["mode"] == "training"}
    assert max(peak.values()) > 0


def test_ratio_is_to_the_fastest_peer(tmp_path):
    _, report = measure(tmp_path, "--fractions", "0.5", "--mode", "training", "--peers", "torch", "torch-packed")
    entries = by_contestant(report)
    best = min(entries[name]["seconds_median"] for name in ("torch", "torch-packed"))
    for entry in entries.values():
        assert entry["ratio"] == pytest.approx(entry["seconds_median"] / best)


@pytest.mark.thorough
def test_gpu_suite_on_a_cpu(tmp_path):
    code, report = measure(tmp_path, "--suite", "gpu", "--device", "cpu", "--fractions", "0.5")
    assert code == 0, report
    for dtype, absent in (
        ("float32", left_out(report, "training")),
        ("bfloat16", left_out(report, "training", "bfloat16")),
    ):
        assert absent <= {"native", "triton"}
        found = {e["contestant"] for e in report["measurements"] if e["dtype"] == dtype and e["mode"] == "training"}
        assert found == {*TIMED, "torch", "torch-packed"} - absent


class Scaled(torch.autograd.Function):
    """The identity with a gradient that is too large by a factor of 1.01."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 1.01 * gradient


def break_down(*results):
    raise FloatingPointError("no luck")


WRONG = {
    "output": (lambda output, state, updates: (output * 1.001, state, updates), "output: off by"),
    "NaN": (lambda output, state, updates: (output * torch.nan, state, updates), "output: off by"),
    "updates": (lambda output, state, updates: (output, state, 1 - updates), "updates:"),
    "gradient": (lambda output, state, updates: (Scaled.apply(output), state, updates), "gradient of"),
    "exception": (break_down, "FloatingPointError: no luck"),
}


@pytest.mark.parametrize(
    "kind, dtype", quick_in(2, [*((kind, "float32") for kind in WRONG), ("updates", "bfloat16"), ("NaN", "bfloat16")])
)
def test_wrong_engine_gets_no_speed(tmp_path, monkeypatch, capsys, kind, dtype):
    spoil, message = WRONG[kind]
    right = ENGINES["reference"].scan
    monkeypatch.setitem(ENGINES, "wrong", Engine(lambda *args, **options: spoil(*right(*args, **options))))
    code, report = measure(tmp_path, "--fractions", "0.5", "--mode", "training", "--dtypes", dtype, "--peers")
    entries = by_contestant(report)
    assert code == 1
    assert entries["wrong"]["fault"].startswith(message)
    assert entries["wrong"]["runs"] == 0
    assert all(entries["wrong"][name] is None for name in entries["wrong"] if name.startswith(("seconds", "us_per")))
    assert entries["reference"]["fault"] is None and entries["reference"]["runs"] >= 3
    assert "wrong: " + entries["wrong"]["fault"] in capsys.readouterr().out


def test_engine_that_cannot_is_left_out(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise ValueError("engine: 'other' runs on another device")

    monkeypatch.setitem(ENGINES, "other", Engine(refuse))
    code, report = measure(tmp_path, "--fractions", "1", "--mode", "inference")
    assert code == 0
    assert "other" not in by_contestant(report)
    assert "other, inference, gru, float32: engine: 'other' runs on another device" in report["left_out"]


def test_time_limit(tmp_path):
    code, report = measure(tmp_path, "--fractions", "0.5", "--time-limit", "1e-9")
    assert (code, report["measurements"]) == (0, [])
    assert report["left_out"] == ["tiny-b8 gru 0.5 float32: the time was over"]


@pytest.mark.parametrize("every_step", [False, True], ids=["last", "every step"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("peer", ["torch", "torch-packed", "onnxruntime"])
def test_peers_compute_the_same_with_all_updates(peer, cell, every_step):
    if peer == "onnxruntime":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    problem = build(spec(cell=cell, every_step=every_step))
    mode = "inference" if peer == "onnxruntime" else "training"
    if peer != "onnxruntime" and cell == "gru_reset_before":
        with pytest.raises(CannotRun, match="resets before"):
            prepare(peer, problem, mode, 1)
        return
    contestant, expected = prepare(peer, problem, mode, 1), expect(problem, True)
    assert find_fault(contestant, expected) is None
    # the peer updates at every step, so it differs from a model that updates at half of them
    assert find_fault(contestant, expected._replace(full=expected.gated)) is not None


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.2, MIXED])
def test_calibrated_gate(cell, fraction):
    problem = build(spec(cell=cell, fraction=fraction, steps=60))
    used = problem.model(problem.x)[2].mean(1)
    if fraction == MIXED:
        assert used.max() > 0.6 and used.min() < 0.1, used
    else:
        assert used.mean().item() == pytest.approx(fraction, abs=0.05)


class Recorded:
    """A contestant that records its calls."""

    def __init__(self, name, calls):
        self.run, self.refresh = partial(calls.append, name), partial(calls.append, "refresh")


def test_rounds_interleave():
    calls = []
    times = time_interleaved({name: Recorded(name, calls) for name in "ab"}, 0.05, "cpu")
    assert set(calls[::2]) == {"refresh"}
    calls = calls[1::2]
    turns = [name for name, before in zip(calls, [None, *calls]) if name != before]
    assert turns == ["a", "b"] * (len(turns) // 2) and len(turns) >= 6
    assert {name: len(seconds) for name, seconds in times.items()} == {name: calls.count(name) for name in "ab"}


@pytest.mark.parametrize("name", ["indexed", "torch"])
@pytest.mark.parametrize("mode", MODES)
def test_weights_change_between_training_steps(name, mode):
    contestant = prepare(name, build(spec()), mode, 1)
    before = {name: parameter.detach().clone() for name, parameter in contestant.parameters.items()}
    for changes in (mode == "training", False):  # the second call restores the values
        contestant.refresh()
        for name, parameter in contestant.parameters.items():
            assert torch.equal(parameter, before[name]) != (changes and parameter.dim() == 2), name
            torch.testing.assert_close(parameter.detach(), before[name], rtol=1e-6, atol=0)


BAD = {
    "--suite tpu": ("--suite", "tpu"),
    "--shapes adding-b2": ("--shapes", "'adding-b2'"),
    "--cells rnn": ("--cells", "'rnn'"),
    "--fractions 0": ("--fractions", "'0'"),
    "--fractions half": ("--fractions", "'half'"),
    "--mode both": ("--mode", "'both'"),
    "--dtypes int8": ("--dtypes", "'int8'"),
    "--threads 0": ("--threads", "'0'"),
    "--threads 100000": ("--threads", "'100000'"),
    "--engines fast": ("--engines", "reference"),
    "--peers keras": ("--peers", "torch-packed"),
    "--seconds nan": ("--seconds", "'nan'"),
    "--time-limit -1": ("--time-limit", "-1"),
    "--output nowhere/x.json": ("--output", "nowhere/x.json"),
    "--output x.txt": ("--output", "x.txt"),
    "--shapes tiny-b1 --fractions mixed": ("--fractions", "tiny-b1"),
}


@pytest.mark.parametrize("options", BAD)
def test_bad_option_is_one_error(options, capsys):
    with pytest.raises(SystemExit) as stop:
        main(options.split())
    captured = capsys.readouterr()
    assert stop.value.code == 2 and captured.out == ""
    *_, line = captured.err.splitlines()
    assert all(part in line for part in BAD[options]), line


def test_suites_name_what_there_is():
    for suite in SUITES.values():
        assert {*suite.shapes, *suite.quick[0]} <= set(SHAPES) and set(suite.cells) <= set(CELLS)
