"""fairseq's own commands for translation, as docs/pipelines.md has them, with a Skip RNN as the encoder."""

import json
import re

import pytest
import torch

from .command_line import ROOT
from .test_docs import Folder, commands_of, read_code

PAGE = ROOT / "docs/pipelines.md"
TINY = {
    "encoder_embed_dim": 8,
    "encoder_hidden_size": 8,
    "decoder_embed_dim": 8,
    "decoder_hidden_size": 8,
    "decoder_out_embed_dim": 8,
    "max_tokens": 200,
    "max_update": 6,
    "num_workers": 0,
    "log_format": "json",
    "required_batch_size_multiple": 1,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with the page's corpus in 60 sentence pairs, prepared by fairseq."""
    folder = Folder(tmp_path_factory.mktemp("translation"))
    (code,) = [code for code in read_code(PAGE, "python") if "noisy" in code]
    folder.run_program(code.replace("8000", "60").replace("200", "9"))
    (preprocess,) = commands_of(PAGE, "fairseq-preprocess")
    folder.run(preprocess, workers=1)
    return folder


def validation(folder, command, **options):
    """The last validation that a command logs."""
    process = folder.start(command, **options)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(re.findall(r"\{.*\"valid_loss\".*\}", process.stdout + process.stderr)[-1])


def read_translations(text):
    """By the number of a sentence: its source, translation and score."""
    found = {}
    for number, rest in re.findall(r"^[SH]-(\d+)\t(.*)$", text, re.MULTILINE):
        found.setdefault(int(number), []).append(rest)
    return found


def load(folder, name):
    return torch.load(folder.path / "runs" / name / "checkpoint_last.pt")


def test_commands(corpus):
    train, validate, generate, interactive = commands_of(
        PAGE, "fairseq-train noisy", "fairseq-validate noisy", "fairseq-generate", "fairseq-interactive"
    )
    trained = validation(corpus, f"{train} --eval-bleu", **TINY)
    assert trained["valid_num_updates"] == "6" and 0 < float(trained["valid_update_fraction"]) <= 1
    assert float(trained["valid_bleu"]) >= 0 and float(trained["valid_budget_loss"]) > 0
    validated = validation(corpus, validate, max_tokens=200, log_format="json", required_batch_size_multiple=1)
    for name in ("loss", "nll_loss", "task_loss", "budget_loss", "updates", "update_fraction", "increment"):
        assert validated[f"valid_{name}"] == trained[f"valid_{name}"], name
    # in batches and one by one
    batches = read_translations(corpus.run(f"{generate} --print-alignment", required_batch_size_multiple=1))
    alone = read_translations(corpus.run(interactive))
    sources = (corpus.path / "noisy/test.source").read_text().splitlines()
    assert [alone[number][0] for number in range(9)] == sources == [batches[number][0] for number in range(9)]
    for number, (_, hypothesis) in batches.items():
        score, words = hypothesis.split("\t")
        score_alone, words_alone = alone[number][1].split("\t")
        assert words == words_alone and float(score) == pytest.approx(float(score_alone), abs=1e-4)
    both = ":".join(str(corpus.path / f"runs/noisy/checkpoint_{name}.pt") for name in ("best", "last"))
    ensemble = read_translations(corpus.run(generate, path=both, prefix_size=1, required_batch_size_multiple=1))
    assert sorted(ensemble) == list(range(9))


@pytest.mark.parametrize("arch", ["random_skip_lstm_seq2seq", "skip_gru_seq2seq"])
def test_a_run_that_is_resumed(corpus, arch):
    """It goes on as if it had not ended."""
    (train,) = commands_of(PAGE, "fairseq-train noisy")
    options = {**TINY, "arch": arch}
    corpus.run(train, **options, save_dir=f"runs/{arch}")
    corpus.run(train, **{**options, "max_update": 3}, save_dir=f"runs/{arch}-resumed")
    corpus.run(train, **options, save_dir=f"runs/{arch}-resumed")
    torch.testing.assert_close(load(corpus, f"{arch}-resumed")["model"], load(corpus, arch)["model"], rtol=0, atol=0)


def test_hydra(corpus):
    (command,) = commands_of(PAGE, "fairseq-hydra-train")
    small = "model.encoder_embed_dim=8 model.decoder_embed_dim=8 model.decoder_out_embed_dim=8 dataset.num_workers=0"
    found = validation(corpus, f"{command} {small} optimization.max_update=3 hydra.run.dir=runs/hydra")
    assert float(found["valid_budget_loss"]) > 0
    checkpoint = torch.load(corpus.path / "runs/hydra/checkpoints/checkpoint_last.pt")
    assert checkpoint["cfg"]["model"]["cell"] == "lstm" and "encoder.rnn.update_weight" in checkpoint["model"]


SAME = "--user-dir skiprnn_plugin --task translation --arch skip_lstm_seq2seq"


def test_from_a_model_of_fairseq(corpus):
    """The same loss as full_lstm_seq2seq; and it goes on as a Skip LSTM, in half precision too."""
    train, finetune = commands_of(PAGE, "fairseq-train noisy", f"fairseq-train noisy/data {SAME} --finetune")
    plain = re.sub(r"--criterion.*--label", "--criterion label_smoothed_cross_entropy --label", train)
    plain = re.sub(r"--cost\S+ \S+ ", "", plain)
    theirs = validation(corpus, plain, **TINY, arch="lstm", save_dir="runs/lstm")
    same = {**TINY, "max_update": 1, "lr": 0, "save_dir": "runs/full"}
    ours = validation(corpus, finetune, **same, arch="full_lstm_seq2seq")
    assert float(ours["valid_loss"]) == pytest.approx(float(theirs["valid_loss"]), abs=2e-3)
    assert float(ours["valid_update_fraction"]) == 1
    trained = validation(corpus, f"{finetune} --fp16", **TINY)
    assert float(trained["valid_loss"]) < 1.1 * float(theirs["valid_loss"])
    assert load(corpus, "from-lstm")["optimizer_history"][-1]["optimizer_name"] == "FP16Optimizer"


@pytest.mark.parametrize("options", ["", "--encoder-bidirectional --encoder-embed-dim 8"], ids=["alone", "of lstm"])
def test_another_architecture_is_told(corpus, options):
    """Also where the command has options of fairseq's models, which this architecture does not know."""
    options += " --cpu --max-tokens 200 --criterion with_budget --base-criterion cross_entropy"
    process = corpus.start(f"fairseq-train noisy/data --user-dir skiprnn_plugin --arch skip_gru {options}")
    last = process.stderr.strip().splitlines()[-1]
    assert process.returncode == 1 and last.startswith("ValueError: --arch: expected skip_gru_seq2seq, got skip_gru, ")
