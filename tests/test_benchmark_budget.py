"""``python -m benchmarks.budget``: runs are made once, and the table says how they ended."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.budget import __main__ as command
from benchmarks.budget.data import SETS, recordings, stack
from benchmarks.budget.rules import Target
from benchmarks.budget.table import collapsed
from benchmarks.budget.train import train

from .made_up_recordings import BURST, make_recordings


def test_made_up_recordings_show_their_class():
    rows, labels = make_recordings(12, 30, 40, classes=3, seed=5)
    assert {len(row) for row in rows} <= set(range(30, 41)) and {row.dtype for row in rows} == {np.dtype("float32")}
    smooth = [np.stack([np.convolve(row[:, c], np.ones(BURST), "valid") for c in range(3)]).max(1) for row in rows]
    assert [values.argmax() for values in smooth] == list(labels)
    again = make_recordings(12, 30, 40, classes=3, seed=5)[0]
    assert all(np.array_equal(a, b) for a, b in zip(rows, again, strict=True))


def test_the_loop_in_the_docs_runs():
    page = (Path(__file__).parent.parent / "docs/budget.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    names = {"batches": 3 * [(torch.randn(4, 9, 3), torch.tensor([9, 5, 7, 9]), torch.tensor([0, 1, 1, 0]))]}
    with pytest.warns(UserWarning, match="where 25.0% are wanted"):
        exec(code, names)
    assert names["budget"].state_dict()["_extra_state"]["num_updates"] == 3
    assert names["rnn"].update_bias.grad is not None


def tiny(folder):
    return recordings(folder)._replace(
        train=stack(*make_recordings(6, 20, 30)), test=stack(*make_recordings(9, 20, 30)), updates=2, batch=3
    )


def test_runs_what_the_file_lacks(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(SETS, "recordings", tiny)
    output = tmp_path / "runs.jsonl"

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["budget", "--sets", "recordings", "--output", str(output), *options])
        command.main()
        return [json.loads(line) for line in output.read_text().splitlines()]

    first = run("--values", "0.5", "--rules", "target", "controller", "holding", "fixed", "--seeds", "1")
    assert [row["rule"] for row in first] == ["target", "controller", "holding", "fixed"]
    both = run("--values", "0.5", "--rules", "target", "--seeds", "1", "2")
    assert both[:4] == first and [row["seed"] for row in both[4:]] == [2]
    capsys.readouterr()
    assert run("--table") == both
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + 4 and table[-1].startswith("| recordings | target | 0.5 | gru | authors | 2 | 2 |")


@pytest.mark.parametrize(
    "name,metric,expected",
    [("recordings", 0.35, True), ("recordings", 0.5, False), ("adding", 0.16, True), ("adding", 0.1, False)],
)
def test_collapsed(name, metric, expected):
    assert collapsed({"set": name, "metric": metric}) == expected


@pytest.mark.thorough
def test_reaches_the_target_and_learns_the_task():
    result = train(recordings(None), "gru", Target(0.25), seed=1, gate_init="authors")
    assert result["metric"] > 0.95
    assert result["fraction"] == pytest.approx(0.25, rel=0.25)
