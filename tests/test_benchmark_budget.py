"""``python -m benchmarks.budget``: runs are made once, and the table says how they ended."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.budget import __main__ as command
from benchmarks.budget.data import CHANCE, LAMBDAS, SETS, recordings, stack
from benchmarks.budget.rules import L1, L2, Target
from benchmarks.budget.table import collapsed, print_tables
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
    torch.manual_seed(0)  # the model that the page makes: an untrained gate can meet the target by chance
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
    assert {row["rule"]: row["ramp"] for row in both} == {
        "target": 1,
        "controller": None,
        "holding": None,
        "fixed": None,
    }
    longer = run("--values", "0.5", "--rules", "target", "--seeds", "1", "--ramp", "9")
    assert longer[:5] == both and [row["ramp"] for row in longer[5:]] == [9]
    monkeypatch.setitem(LAMBDAS, "recordings", (1e-3, 1e-2))
    values = [(row["rule"], row["value"]) for row in run("--rules", "target", "fixed", "--seeds", "3")[6:]]
    assert values == [("target", 0.5), ("target", 0.25), ("target", 0.1), ("fixed", 1e-3), ("fixed", 1e-2)]
    longer = run("--table")
    capsys.readouterr()
    assert run("--table", "--plot", str(tmp_path / "picture.png")) == longer
    table = capsys.readouterr().out
    costs = run("--values", "0.5", "--rules", "l1", "l2", "--costs", "1e-3", "1e-2", "--seeds", "1")[len(longer) :]
    assert [(row["rule"], row["cost_per_sample"]) for row in costs] == [
        ("l1", 1e-3),
        ("l1", 1e-2),
        ("l2", 1e-3),
        ("l2", 1e-2),
    ]
    assert "| l2 0.5, lambda 0.01 | 2 | 1 |" in capsys.readouterr().out
    assert "| target 0.5, ramp 1 | 2 | 3 |" in table and "| lambda 0.5 | 2 | 1 |" in table
    assert (tmp_path / "picture.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize("rule,expected", [(L1, 0.1 * (4 + 1) / 2), (L2, 0.1 * (16 + 1) / 2)])
def test_a_distance_from_the_wanted_number_costs(rule, expected):
    """A quarter of a mean length of 20 steps is 5 updates."""
    cost = rule(0.25, 0.1, 20.0).cost(torch.tensor([9.0, 4.0]), torch.tensor([30, 10]))
    assert float(cost) == pytest.approx(expected)


def a_run(rule, value, seed, metric, used, **options):
    kind = {"set": "mnist", "rule": rule, "value": value, "ramp": None, "cell": "gru", "gate_init": "authors"}
    result = {"seed": seed, "metric": metric, "fraction": used, "trail": [used] * 5}
    return {**kind, "updates": 9, "cost_per_sample": None, **result, **options}


@pytest.mark.parametrize("options,sign", [({}, 1), ({"set": "adding"}, -1)], ids=["accuracy", "error"])
def test_targets_are_compared_with_the_best_lambda_that_uses_no_more(options, sign, capsys):
    """By hand: lambda 3 uses too much, 2 and 1 do not, 4 belongs to other runs."""
    rows = [a_run("target", 0.25, seed, *run, ramp=2) for seed, run in ((1, (0.5, 0.2)), (2, (0.6, 0.3)))]
    rows += [a_run("fixed", 3, seed, 0.55 + sign * 0.4, 0.31) for seed in (1, 2)]
    rows += [a_run("fixed", 2, seed, 0.55 + sign * (0.1 + 0.02 * seed), 0.29) for seed in (1, 2)]
    rows += [a_run("fixed", 1, 1, 0.55 - sign * 0.2, 0.05), a_run("fixed", 4, 1, 0.55 + sign * 0.4, 0.1, cell="lstm")]
    print_tables([{**row, **options} for row in rows])
    line = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert line[1:6] == ["target 0.25, ramp 2", "9", "0.550 ± 0.050", "0.25 (0.20 to 0.30)", "2"]
    assert line[6:8] == [f"{0.55 + sign * 0.13:.3f} ± 0.010", "0.29 (0.29 to 0.29)"]
    assert line[8] == "-0.130 ± 0.051 |"


@pytest.mark.parametrize(
    "name,metric,expected",
    [("recordings", 0.35, True), ("recordings", 0.5, False), ("adding", 0.16, True), ("adding", 0.1, False)],
)
def test_collapsed(name, metric, expected):
    assert collapsed({"set": name, "metric": metric}) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("name,target,gain", [("recordings", 0.25, 0.9), ("frequency", 0.1, 0.6), ("adding", 0.5, 0.9)])
def test_reaches_the_target_and_learns_the_task(name, target, gain):
    """``gain`` is a part of the way from chance to a perfect metric."""
    data = SETS[name](None)
    result = train(data, "gru", Target(target, data.updates // 5), seed=1, gate_init="authors")
    print(result)
    best = 0 if name == "adding" else 1
    assert (result["metric"] - CHANCE[name]) / (best - CHANCE[name]) > gain
    assert result["fraction"] == pytest.approx(target, rel=0.2)
