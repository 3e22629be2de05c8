"""fairseq's task ``sentence_prediction``, by the commands of its page, for a Skip RNN that reads texts."""

import json
import re

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens

from skiprnn_plugin.cli.check_data import main as check_data
from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.cli.report import main as report
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.models.text import SkipRNNTextModel
from skiprnn_plugin.prepare.binarize import write_items

from .command_line import ROOT
from .test_docs import Folder, commands_of, read_code, read_commands
from .tiny_imdb import FILES, TEXTS, write_archive

PAGE = ROOT / "docs/sentence-prediction.md"
HEAD = "sentence_classification_head"
TINY = {
    "encoder_embed_dim": 8,
    "encoder_hidden_size": 8,
    "batch_size": 2,
    "max_update": 6,
    "num_workers": 0,
    "log_format": "json",
    "gate_init": "authors",  # with which, and this bias, some steps are skipped at once
    "update_bias": 0,
}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """A folder with a few reviews, prepared and learnt by the page's commands, and the last validation of that run."""
    folder = Folder(tmp_path_factory.mktemp("reviews"))
    write_archive(folder.path / "aclImdb_v1.tar.gz", FILES)
    make, train = commands_of(PAGE, "skiprnn-prepare imdb", "fairseq-train data/imdb")
    folder.run(make, bpe="sentencepiece", vocab_size=40, min_count=1, valid_fraction=0.25)
    return folder, validation(folder, train, **TINY, log_file="train.log")


@pytest.fixture
def hub(reviews, monkeypatch):
    monkeypatch.chdir(reviews[0].path)
    return load_hub()


def load_hub(**options):
    return SkipRNNTextModel.from_pretrained("runs/imdb", "checkpoint_last.pt", "data/imdb", **options)


def validation(folder, command, **options):
    """The last validation that a command logs."""
    process = folder.start(command, **options)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(re.findall(r"\{.*\"valid_loss\".*\}", process.stdout + process.stderr)[-1])


def load(folder, name):
    return torch.load(folder.path / "runs" / name / "checkpoint_last.pt")


def test_commands(reviews):
    folder, trained = reviews
    assert trained["valid_num_updates"] == "6" and float(trained["valid_budget_loss"]) > 0
    assert 0 < float(trained["valid_update_fraction"]) < 1
    (validate,) = commands_of(PAGE, "fairseq-validate data/imdb")
    last = {"path": "runs/imdb/checkpoint_last.pt", "valid_subset": "valid", "log_format": "json"}
    validated = validation(folder, validate, **last)
    for name in ("loss", "accuracy", "task_loss", "budget_loss", "updates", "update_fraction", "increment"):
        assert validated[f"valid_{name}"] == trained[f"valid_{name}"], name
    (code,) = (block for block in read_code(PAGE, "python") if "text_from_pretrained" in block)
    label, *read = folder.run_program(code).splitlines()
    assert label in ("neg", "pos") and len(read) == 1


def test_data_are_checked(reviews, monkeypatch, capsys):
    monkeypatch.chdir(reviews[0].path)
    options = "--task sentence_prediction --num-classes 2 --max-positions 200 --criterion sentence_prediction"
    assert check_data(["data/imdb", *options.split()]) == 0
    assert capsys.readouterr().out == "train: 6 sequences\nvalid: 2 sequences\n"


def test_a_run_that_is_resumed(reviews):
    """It goes on as if it had not ended."""
    folder, (train,) = reviews[0], commands_of(PAGE, "fairseq-train data/imdb")
    for updates in (3, 6):
        folder.run(train, **{**TINY, "max_update": updates}, save_dir="runs/resumed")
    torch.testing.assert_close(load(folder, "resumed")["model"], load(folder, "imdb")["model"], rtol=0, atol=0)


def test_hydra(reviews):
    (command,) = commands_of(
        PAGE, "fairseq-hydra-train --config-dir skiprnn_plugin/config --config-name skip_rnn task=sen"
    )
    small = "model.encoder_embed_dim=8 dataset.num_workers=0 dataset.batch_size=2 optimization.max_update=3"
    found = validation(reviews[0], f"{command} {small} hydra.run.dir=runs/hydra")
    assert float(found["valid_budget_loss"]) > 0 and float(found["valid_accuracy"]) in (0, 50, 100)  # of two reviews
    checkpoint = torch.load(reviews[0].path / "runs/hydra/checkpoints/checkpoint_last.pt")
    assert checkpoint["cfg"]["model"]["cell"] == "lstm" and "encoder.rnn.update_weight" in checkpoint["model"]


@pytest.mark.thorough
def test_other_data(reviews):
    """Texts and labels that fairseq prepares: three classes, learnt in half precision from the trained model."""
    folder = reviews[0]
    for split, labels in (("train", "abcabcab"), ("valid", "abc")):
        (folder.path / f"{split}.text").write_text("".join(f"good film {label}\n" for label in labels))
        (folder.path / f"{split}.label").write_text("".join(f"{label}\n" for label in labels))
    texts, labels = [command for command in read_commands(PAGE) if command.startswith("fairseq-preprocess --only-so")]
    folder.run(texts, srcdict="data/imdb/input0/dict.txt")
    folder.run(labels)
    (finetune,) = commands_of(PAGE, "fairseq-train data/mine")
    found = validation(folder, f"{finetune} --fp16", **TINY, required_batch_size_multiple=1)
    assert float(found["valid_accuracy"]) in (0, 33.3, 66.7, 100) and float(found["valid_updates"]) > 1
    trained, before = load(folder, "mine-text")["model"], load(folder, "imdb")["model"]
    assert trained[f"classification_heads.{HEAD}.weight"].shape == (3, 8)
    changes = trained["encoder.rnn.weight_hh_l0"].float() - before["encoder.rnn.weight_hh_l0"]
    assert 0 < changes.abs().max() < 6 * 2e-3  # as much as Adam changes in 6 updates


def test_regression_of_pairs(reviews, monkeypatch):
    """In the trained model's words; the hub encodes a pair as in the data."""
    folder, (train,) = reviews[0], commands_of(PAGE, "fairseq-train data/imdb")
    words = Dictionary.load(str(folder.path / "data/imdb/input0/dict.txt"))
    pairs = folder.path / "data/pairs"
    for name, text in (("input0", words[5]), ("input1", words[6])):
        (pairs / name).mkdir(parents=True)
        words.save(str(pairs / name / "dict.txt"))
        for split in ("train", "valid"):
            write_items(pairs / name / split, words, [[text] * count for count in range(1, 4)])
    (pairs / "label").mkdir()
    for split in ("train", "valid"):
        (pairs / f"label/{split}.label").write_text("0.1\n0.2\n0.3\n")
    options = {**TINY, "num_classes": 1, "save_dir": "runs/pairs", "separator_token": 2, "init_token": 0}
    train = train.replace("data/imdb", "data/pairs") + " --regression-target"
    found = validation(folder, train, **options)
    assert "valid_accuracy" not in found and float(found["valid_loss"]) > 0
    monkeypatch.chdir(folder.path)
    hub = SkipRNNTextModel.from_pretrained("runs/pairs")
    hub.task.load_dataset("valid")
    stored = sorted([hub.task.dataset("valid")[index]["net_input.src_tokens"].tolist() for index in range(3)], key=len)
    pair = hub.encode(f"{words[5]} {words[5]}", f"{words[6]} {words[6]}")
    assert pair.tolist() == stored[1] == [0, 5, 5, 2, 2, 6, 6, 2]
    assert hub.predict(HEAD, pair, return_logits=True).shape == (1, 1) and hub.class_names == []
    first, second = f"{words[5]} {words[5]}", f"{words[6]} {words[6]}"
    assert hub.decode(pair) == [first, second] and hub.decode(pair[:3]) == first
    assert hub.decode(torch.tensor([0, 5, 0, 5, 2])) == f"{words[5]} <s> {words[5]}"  # only what was added is left out


def test_hub_encodes_as_the_data(hub):
    """As the stored reviews, by the tokenizer of the prepared folder or fairseq's; cropped as in training."""
    hub.task.load_dataset("test")
    stored = [hub.task.dataset("test")[index]["net_input.src_tokens"] for index in range(8)]
    for split in (hub, load_hub(bpe="sentencepiece")):
        for text in TEXTS["neg"]:
            if "<br" not in text:
                tokens = split.encode(text)
                assert any(torch.equal(tokens, other) for other in stored)
                assert split.decode(tokens) == text
    long = hub.encode("good " * 300)
    pieces = hub.encode("good good")[:2]
    assert long.tolist() == pieces.tolist() * 100  # up to the last token, without an end of the sentence
    hub.task.cfg.shorten_method = "none"
    assert len(hub.encode("good " * 300)) > 300


def test_hub_predicts(hub):
    texts = [hub.encode(text) for text in TEXTS["pos"]]
    tokens = collate_tokens(texts, pad_idx=1)
    scores, used, features = hub.predict(HEAD, tokens), hub.used_tokens(tokens), hub.extract_features(tokens)
    assert scores.shape == (4, 2) and used.dtype == torch.bool and features.shape == (4, tokens.shape[1], 8)
    torch.testing.assert_close(scores.exp().sum(1), torch.ones(4))
    for row, text in enumerate(texts):
        torch.testing.assert_close(hub.predict(HEAD, text)[0], scores[row])
        logits = hub.model.classification_heads[HEAD](features[row, len(text) - 1])
        torch.testing.assert_close(hub.predict(HEAD, text, return_logits=True)[0], logits)
        assert torch.equal(hub.used_tokens(text)[0], used[row, : len(text)]) and not used[row, len(text) :].any()
    hub.register_classification_head("topic", 4)
    assert hub.predict("topic", texts[0]).shape == (1, 4)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda hub: hub.predict("other", torch.tensor([5])), f"head: expected one of {HEAD}, got 'other'"),
        (lambda hub: hub.predict(HEAD, torch.tensor([5000])), "tokens: expected token ids from 0 to .*, got 5000"),
        (lambda hub: hub.predict(HEAD, torch.rand(3)), r"tokens: expected token ids .*got torch.float32 \(3,\)"),
        (lambda hub: hub.encode(["a"]), "text: expected a text"),
        (lambda hub: hub.decode(torch.zeros(2, 2)), r"tokens: .*got shape \(2, 2\)"),
        (lambda hub: load_hub(bpe="none"), "bpe: expected one of .*'none'"),
        (
            lambda hub: SkipRNNTextModel.from_pretrained(
                "runs/imdb", bpe="sentencepiece", sentencepiece_model="x.model"
            ),
            "bpe: sentencepiece with {'sentencepiece_model': 'x.model'} can't be used",
        ),
        (lambda hub: load_hub(nothing=1), "nothing: none of the checkpoint's opt"),
        (lambda hub: from_pretrained("runs/imdb").predict(["a"]), "SequenceTask, .*SkipRNNTextModel.from_pretrained"),
    ],
)
def test_what_a_hub_refuses(hub, call, message):
    with pytest.raises(ValueError, match=message):
        call(hub)


def test_other_commands_take_the_checkpoint_or_the_log(reviews, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(reviews[0].path)
    assert report(["train.log", "runs/imdb", "--json"]) == 0
    runs = [run for group in json.loads(capsys.readouterr().out) for run in group["runs"]]
    accuracy = float(reviews[1]["valid_accuracy"])
    assert [run["metrics"]["accuracy"] for run in runs] == [pytest.approx(accuracy, rel=1e-5)] * 2
    assert [run["options"]["shorten_method"] for run in runs] == ["truncate"] * 2
    assert plot(["tradeoff", "runs/imdb", "--output", str(tmp_path / "t.png")]) == 0
    fraction = float(reviews[1]["valid_update_fraction"])
    assert f"| {fraction:.4g} | {reviews[1]['valid_accuracy']} |" in capsys.readouterr().out
    assert predict(["runs/imdb", "--text", "a good film"]) == 2
    assert "expected a model of a SequenceTask, " in capsys.readouterr().err


@pytest.mark.parametrize(
    "task,expected",
    [
        (
            "sentence_prediction --num-classes 2 --pooler-dropout 0.1",
            "--arch: expected skip_lstm_text, got skip_lstm, ",
        ),
        ("masked_lm", "--task: expected one that a Skip RNN goes with, got MaskedLMTask for skip_lstm: it restores "),
    ],
)
def test_what_does_not_fit_ends_in_a_line(reviews, task, expected):
    """Also where the command has options of fairseq's models."""
    process = reviews[0].start(
        f"fairseq-train data/imdb --user-dir skiprnn_plugin --task {task} --arch skip_lstm --cpu"
    )
    last = process.stderr.strip().splitlines()[-1]
    assert process.returncode == 1 and last.startswith(f"ValueError: {expected}")
