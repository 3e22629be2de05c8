"""``python -m benchmarks.trained``: trained models are timed beside torch's modules, which do the same work."""

import json

import pytest
import torch

from benchmarks.trained import TorchRecurrence, main
from skiprnn_plugin.modules import SkipGRU, SkipLSTM

from . import command_line
from .tiny_features import write_features


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("module, cell", [(SkipGRU, "gru"), (SkipLSTM, "lstm")])
def test_torch_takes_the_place_of_a_model_that_reads_every_step(module, cell, packed):
    ours = module(3, 5, num_layers=2, gate=False)
    theirs = TorchRecurrence(cell, ours, packed)
    theirs.rnn.load_state_dict(
        {name: value for name, value in ours.state_dict().items() if name.startswith(("w", "b"))}
    )
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if name.startswith("initial_"):
                parameter.zero_()
    x, lengths = torch.randn(4, 7, 3), torch.tensor([7, 2, 5, 1])
    for given in (None, lengths):
        for last_only in (False, True):
            expected, _, updates = ours(x, lengths=given, last_only=last_only)
            output, _, counted = theirs(x, given, last_only=last_only)
            if given is not None and not last_only:  # outputs at padding have no meaning
                mask = updates[..., None].bool()
                expected, output = expected.masked_fill(~mask, 0), output.masked_fill(~mask, 0)
            torch.testing.assert_close(output, expected)
            assert torch.equal(counted, updates)


@pytest.mark.thorough
def test_command(tmp_path, capsys):
    data = write_features(tmp_path / "data")
    for name, options in {"full": ("--arch", "full_lstm"), "skip": ("--arch", "skip_gru", "--update-bias", -2)}.items():
        command_line.train(tmp_path / name, "--data-dir", data, *options, task="feature_classification")
    runs = [str(tmp_path / name) for name in ("full", "skip")]
    output = tmp_path / "times.json"
    command = [*runs, "--split", "test", "--seconds", "0.01", "--sequences", "4", "--output", str(output)]
    assert main(command) == 0
    report, printed = json.loads(output.read_text()), capsys.readouterr().out
    models = ["torch.nn.LSTM", "torch.nn.LSTM, packed", "LSTM", "torch.nn.GRU", "torch.nn.GRU, packed"]
    models.append("Skip GRU, lambda=1e-5")
    assert [line.split(" | ")[0][2:] for line in printed.splitlines() if line.startswith("|")][2:] == models
    entries = {(entry["model"], entry["mode"]): entry for entry in report["measurements"]}
    assert list(entries) == [(name, mode) for mode in ("training", "inference", "one by one") for name in models]
    for (name, mode), entry in entries.items():
        assert entry["sequences"] == 4 and entry["runs"] >= 3 and entry["seconds_per_sequence"] > 0
        assert (entry["fraction_used"] < 1) == name.startswith("Skip")
        cell = "LSTM" if "LSTM" in name else "GRU"
        peers = [entries[f"torch.nn.{cell}{form}", mode]["seconds_per_sequence"] for form in ("", ", packed")]
        assert entry["times_torch"] == pytest.approx(min(peers) / entry["seconds_per_sequence"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run, and two others whose folders' names end with ``-wide`` and ``-both``."""
    run = tmp_path_factory.mktemp("runs") / "run"
    command_line.train(run, task="adding")
    command_line.train(f"{run}-wide", "--hidden-size", 5, "--zoneout", 0.1, task="adding")
    command_line.train(f"{run}-both", "--bidirectional", task="adding")
    return run


@pytest.mark.parametrize(
    "options, message",
    [
        (["no/run"], "no/run: no such file or folder"),
        (["{run}", "{run}/checkpoint_best.pt"], "expected one run of each model, got two of Skip GRU, lambda=1e-5"),
        (
            ["{run}", "{run}-wide"],
            "-wide/checkpoint_last.pt: expected --hidden-size 8, as {run}/checkpoint_last.pt has it",
        ),
        (["{run}-wide", "--set", "engine=indexed"], "-wide/checkpoint_last.pt: engine: 'indexed' has no zoneout"),
        (["{run}-both"], "-both/checkpoint_last.pt: expected a model of one direction, got one of two"),
        (["{run}", "--output", "no/times.json"], "--output no/times.json: the folder no does not exist"),
        (["{run}", "--sequences", "0"], "--sequences: expected at least 1, got 0"),
        (["{run}", "--threads", "0"], "--threads: expected at least 1, got 0"),
    ],
)
def test_errors(runs, capsys, options, message):
    assert main([option.format(run=runs) for option in options]) == 2
    assert message.format(run=runs) in capsys.readouterr().err
