"""``python -m benchmarks.stream``: sequences that are read sample by sample, beside other ways to do so."""

import importlib.util
import json

import pytest

from benchmarks import stream
from benchmarks.stream import FEED, MODULE, ONNX, STEP_IN_C, STEP_OF_FORWARD, TORCH, UPDATE, main

TINY = "--hidden-size 8 --streams 130 --units 9 --seconds 0.01 --inputs 2 --fractions 0.25".split()
PEERS = [TORCH] + [ONNX] * all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))


def test_command(tmp_path, capsys):
    output = tmp_path / "times.json"
    assert main([*TINY, "--output", str(output)]) == 0
    printed, entries = capsys.readouterr().out, json.loads(output.read_text())["measurements"]
    assert printed == output.with_suffix(".md").read_text() + "\n"
    one = [UPDATE, f"{UPDATE}, numpy", MODULE, *PEERS, STEP_IN_C, STEP_OF_FORWARD]
    assert [entry["contestant"] for entry in entries] == [*one, FEED, MODULE, *PEERS]
    assert [line.split(" | ")[4] for line in printed.splitlines() if line.startswith("| 1")][: len(one)] == one
    for entry in entries:
        assert entry["seconds"] > 0 and entry["runs"] >= 3
    skipping = [entry for entry in entries if entry["streams"] == 130 and entry["contestant"] in (FEED, MODULE)]
    assert [abs(entry["used"] - 0.25) < 0.05 for entry in skipping] == [True, True]
    for first in (0, len(one)):
        for entry in entries[first : first + 3]:
            assert entry["times_first"] == pytest.approx(entry["seconds"] / entries[first]["seconds"])


def test_a_wrong_output_is_an_error(monkeypatch):
    class Wrong(stream.ModuleAtOneStep):
        def __call__(self, x):
            return super().__call__(x) + 1

    monkeypatch.setattr(stream, "ModuleAtOneStep", Wrong)
    with pytest.raises(RuntimeError, match="^module: expected another output$"):
        main(TINY)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--streams", "0"], "--streams: expected at least 1, got 0"),
        (["--fractions", "2"], "--fractions: expected numbers above 0 and up to 1, got 2.0"),
        (["--output", "no/times.json"], "--output no/times.json: the folder no does not exist"),
    ],
)
def test_errors(capsys, options, message):
    assert main(options) == 2
    assert message in capsys.readouterr().err
