"""``python -m benchmarks.translation``: fairseq's beam search with encoders that differ in their updates alone."""

import json

import pytest
import torch

from benchmarks import translation
from benchmarks.translation import THEIRS, main

TINY = "--batch-size 3 --beam 2 --target-words 4 --hidden-size 8 --seconds 0.01 --steps".split()


def test_command(tmp_path, capsys):
    output = tmp_path / "times.json"
    assert main([*TINY, "40", "60", "--fractions", "1", "0.25", "--output", str(output)]) == 0
    printed, entries = capsys.readouterr().out, json.loads(output.read_text())["measurements"]
    assert printed == output.with_suffix(".md").read_text() + "\n"
    names = [THEIRS, "LSTM", "Skip LSTM, 100%", "Skip LSTM, 25%"]
    assert [(entry["steps"], entry["model"]) for entry in entries] == [(n, name) for n in (40, 60) for name in names]
    assert [line.split(" | ")[1] for line in printed.splitlines() if line.startswith("|")][2:] == names * 2
    for entry in entries:
        skips = entry["model"] == names[-1]
        assert abs(entry["updates"] - (0.25 if skips else 1)) < 0.05
        # the outputs of both directions change, each at its own updates
        assert entry["updates"] < entry["entries"] <= 2 * entry["updates"] + 0.05 if skips else entry["entries"] == 1
        assert entry["encoder_seconds"] > 0 and entry["decoder_seconds"] > 0 and entry["runs"] >= 3
    times = {entry["model"]: entry["seconds"] for entry in entries if entry["steps"] == 60}
    for entry in entries[4:]:
        assert entry["times_fairseq"] == pytest.approx(times[THEIRS] / entry["seconds"])


def test_other_translations_are_an_error(monkeypatch):
    """As of a model that updates at every step but has other weights."""
    build = translation.build_models

    def build_others(*arguments):
        models = build(*arguments)
        torch.nn.init.normal_(models["LSTM"].decoder.fc_out.bias, std=9.0)
        return models

    monkeypatch.setattr(translation, "build_models", build_others)
    with pytest.raises(RuntimeError, match=f"^LSTM: expected the translations of {THEIRS}, got others$"):
        main([*TINY, "5"])


@pytest.mark.parametrize(
    "options, message",
    [
        (["--steps", "9", "1"], "--steps: expected at least 2, got 1"),
        (["--target-words", "0"], "--target-words: expected at least 1, got 0"),
        (["--fractions", "0"], "--fractions: expected numbers above 0 and up to 1, got 0.0"),
        (["--output", "no/times.json"], "--output no/times.json: the folder no does not exist"),
    ],
)
def test_errors(capsys, options, message):
    assert main(options) == 2
    assert message in capsys.readouterr().err
