"""``python -m benchmarks.skip_limits``: what limits of skips cost."""

import json

import pytest
import torch

from benchmarks import skip_limits
from benchmarks.skip_limits import main

TINY = "--sizes tiny --fractions 0.4 --engines indexed reference --seconds 0.01".split()


def test_command(tmp_path, capsys):
    output = tmp_path / "times.json"
    assert main([*TINY, "--output", str(output)]) == 0
    printed, entries = capsys.readouterr().out, json.loads(output.read_text())["measurements"]
    assert printed == output.with_suffix(".md").read_text() + "\n"
    assert [entry["engine"] for entry in entries] == ["indexed", "reference"]
    for entry in entries:
        assert 0.2 < entry["updates"] < 0.6 and min(entry["runs"]) >= 3 and entry["seconds"] > 0
        assert entry["times_as_long"] == pytest.approx(entry["seconds_with_limits"] / entry["seconds"])


def test_the_limits_are_those_of_the_gate():
    updates = torch.tensor([[1, 0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1, 0]])
    assert skip_limits.find_limits(updates) == (1, 3)


def test_other_results_with_limits_are_an_error(monkeypatch):
    monkeypatch.setattr(skip_limits, "find_limits", lambda updates: (0, 0))
    with pytest.raises(RuntimeError, match="^indexed: expected the same results with the limits"):
        main(TINY)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--fractions", "2"], "--fractions: expected numbers above 0 and up to 1, got 2.0"),
        (["--output", "no/times.json"], "--output no/times.json: the folder no does not exist"),
    ],
)
def test_errors(capsys, options, message):
    assert main(options) == 2
    assert message in capsys.readouterr().err
