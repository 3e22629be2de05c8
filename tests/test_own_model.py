"""The example of a user's fairseq model that gets a SkipLSTM and the budget, by the commands of its script."""

import json
import re
import shlex
from unittest import mock

import pytest
import torch

from .command_line import ROOT
from .forked import SCRIPTS, run_forked

EXAMPLE = ROOT / "user_dir_examples/own_model"


def read_commands(folder):
    """The commands of run.sh, as words."""
    text = re.sub(r"\\\n", " ", (EXAMPLE / "run.sh").read_text())
    lines = [line for line in text.splitlines() if line.startswith(("python ", "fairseq-"))]
    return [
        [word.replace("$here", str(EXAMPLE)).replace("$folder", str(folder)) for word in shlex.split(line)]
        for line in lines
    ]


def run(words, *options):
    program = [SCRIPTS / words[0]] if words[0].startswith("fairseq-") else []
    process = run_forked(*program, *words[1:], *options, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout + process.stderr


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own model")
    make, *preprocess, _, _ = read_commands(folder)
    run(make, 64)
    for command in preprocess:
        run(command)
    return folder


def test_its_texts(data):
    texts = (data / "valid.text").read_text().splitlines()
    labels = (data / "valid.label").read_text().splitlines()
    assert len(texts) == len(labels) == 500 and set(labels) == {"good", "bad"}
    for text, label in zip(texts, labels):
        words = text.split()
        assert 20 <= len(words) <= 60
        assert [word for word in words if not word.startswith("word")] == 3 * [{"good": "great", "bad": "dull"}[label]]


@pytest.mark.thorough
def test_its_commands(data):
    *_, train, validate = read_commands(data)
    log = run(train, "--max-update", 4, "--log-format", "json")
    trained = json.loads(re.findall(r"\{.*\"valid_loss\".*\}", log)[-1])
    assert float(trained["valid_budget_loss"]) > 0 and 0 < float(trained["valid_update_fraction"]) <= 1
    validated = json.loads(re.findall(r"\{.*\"valid_loss\".*\}", run(validate, "--log-format", "json"))[-1])
    for name in ("loss", "accuracy", "task_loss", "updates"):
        assert validated[f"valid_{name}"] == trained[f"valid_{name}"], name
    weights = torch.load(data / "run/checkpoint_last.pt", weights_only=False)["model"]
    assert weights["lstm.weight_hh_l0"].shape == (256, 64) and weights["lstm.update_weight"].shape == (1, 64)


def test_it_is_the_lstm_that_it_was():
    """With the lines that the comments show in place of the new ones, the model is that of torch."""
    code = (EXAMPLE / "lstm_classifier.py").read_text()
    before, replaced = re.subn(r"# was: (.*)\n.*\n", r"\1\n", code)
    assert replaced == 2 and "nn.LSTM(" in before
    before = before.replace("from skiprnn_plugin import SkipLSTM  # new\n", "")
    before = before.replace('"lstm_classifier"', '"lstm_classifier_before"')
    assert "Skip" not in before
    scope = {"__name__": "before"}
    exec(compile(before, "before", "exec"), scope)
    args, dictionary = mock.Mock(embed_dim=3, hidden_size=4), mock.MagicMock(pad=lambda: 1)
    dictionary.__len__.return_value = 9
    model = scope["LSTMClassifier"](args, dictionary)
    assert type(model.lstm) is torch.nn.LSTM
    model.register_classification_head("head", 2)
    tokens, lengths = torch.tensor([[5, 6, 7], [8, 2, 1]]), torch.tensor([3, 2])
    logits, _ = model(tokens, lengths, classification_head_name="head")
    torch.testing.assert_close(model(tokens[1:, :2], lengths[1:], classification_head_name="head")[0], logits[1:])
