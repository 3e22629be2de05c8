"""fairseq's own commands for translation, as docs/translation.md has them, with a Skip RNN as the encoder."""

import json
import os
import re
import shlex

import pytest
import torch

from .command_line import ROOT, run_here
from .forked import run_forked
from .models.test_seq2seq import write_embeddings
from .ranks import run_ranks
from .test_docs import Folder, commands_of

PAGE = ROOT / "docs/translation.md"
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


SKIPPING = {"gate_init": "authors", "update_bias": -1}  # at once, unlike with the defaults


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with the page's corpus in 60 sentence pairs, prepared by fairseq."""
    folder = Folder(tmp_path_factory.mktemp("translation"))
    make, preprocess = commands_of(PAGE, "python user_dir_examples/translation/make_data.py", "fairseq-preprocess")
    program, *words = shlex.split(make)[1:]
    process = run_forked(ROOT / program, *words, "--train", 60, "--valid", 9, "--test", 9, cwd=folder.path)
    assert process.returncode == 0, process.stderr
    folder.run(preprocess, workers=1)
    return folder


def read_log(folder, command, **options):
    """What a command logs."""
    process = folder.start(command, **options)
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout + process.stderr


def read_validation(log):
    """The last validation in what a command has logged."""
    return json.loads(re.findall(r"\{.*\"valid_loss\".*\}", log)[-1])


def validation(folder, command, **options):
    return read_validation(read_log(folder, command, **options))


def read_output(text, kind):
    """What the lines of one kind (S: source, T: target, H: score and translation, A: alignment) say, by sentence."""
    return {int(number): rest for number, rest in re.findall(rf"^{kind}-(\d+)\t(.*)$", text, re.MULTILINE)}


def load(folder, name, file="last"):
    return torch.load(folder.path / f"{name}/checkpoint_{file}.pt")


def average(folder, files, output):
    """As fairseq's scripts/average_checkpoints.py, which is not part of its package: the weights are averaged, and the
    rest is the first checkpoint's."""
    states = [torch.load(folder.path / file) for file in files]
    weights = {name: [state["model"][name] for state in states] for name in states[0]["model"]}
    assert any(not torch.equal(*values) for values in weights.values())
    model = {name: sum(value.clone() for value in values).div_(len(values)) for name, values in weights.items()}
    torch.save({**states[0], "model": model}, folder.path / output)


def test_commands(corpus):
    train, validate, generate, interactive = commands_of(
        PAGE, "fairseq-train noisy", "fairseq-validate noisy", "fairseq-generate", "fairseq-interactive"
    )
    train = f"{train} --eval-bleu --eval-bleu-print-samples --save-interval-updates 3"
    log = read_log(corpus, train, **TINY, **SKIPPING)
    trained = read_validation(log)
    assert trained["valid_num_updates"] == "6" and 0 < float(trained["valid_update_fraction"]) < 1
    assert float(trained["valid_budget_loss"]) > 0
    options = {"max_tokens": 200, "log_format": "json", "required_batch_size_multiple": 1, "valid_subset": "valid"}
    validated = validation(corpus, validate, **options)
    for name in ("loss", "nll_loss", "task_loss", "budget_loss", "updates", "update_fraction", "increment", "bleu"):
        assert validated[f"valid_{name}"] == trained[f"valid_{name}"], name

    (plot,) = commands_of(PAGE, "skiprnn-plot tradeoff noisy/run")
    *_, row = corpus.run(plot).splitlines()
    found = [float(cell) for cell in row.split("|")[2:4]]
    assert found == [
        pytest.approx(float(trained[f"valid_{name}"]), rel=1e-3) for name in ("update_fraction", "nll_loss")
    ]

    # one batch; and alone, in the reverse order
    together = corpus.run(f"{generate} --print-alignment", required_batch_size_multiple=1, gen_subset="valid")
    sources = (corpus.path / "noisy/valid.source").read_text().splitlines()
    (corpus.path / "reversed.source").write_text("\n".join(reversed(sources)) + "\n")
    alone = corpus.run(f"{interactive} --print-alignment", input="reversed.source", buffer_size=4, batch_size=1)
    assert list(read_output(alone, "S").values()) == sources[::-1]
    for number, source in enumerate(sources):
        outputs = [read_output(together, kind)[number] for kind in "SHA"]
        source_alone, hypothesis, alignment = [read_output(alone, kind)[8 - number] for kind in "SHA"]
        (score, words), (score_alone, words_alone) = outputs[1].split("\t"), hypothesis.split("\t")
        assert outputs[0] == source_alone == source and words == words_alone and outputs[2] == alignment
        assert float(score) == pytest.approx(float(score_alone), abs=1e-4)
        steps = [int(pair.split("-")[0]) for pair in alignment.split()]
        assert len(steps) >= len(words.split()) > 0 and max(steps) <= len(source.split())

    # the sentence that is shown of those that BLEU was computed from while training
    (*_, shown), (*_, reference) = (re.findall(rf"example {kind}: (.*)", log) for kind in ("hypothesis", "reference"))
    (number,) = (number for number, target in read_output(together, "T").items() if target == reference)
    assert shown == read_output(together, "H")[number].split("\t")[1]

    # an ensemble of a checkpoint and an average of two
    average(corpus, ["noisy/run/checkpoint_1_3.pt", "noisy/run/checkpoint_last.pt"], "noisy/run/average.pt")
    both = "noisy/run/checkpoint_last.pt:noisy/run/average.pt"
    ensemble = corpus.run(generate, path=both, prefix_size=1, required_batch_size_multiple=1)
    found, expected = read_output(ensemble, "H"), read_output(ensemble, "T")
    assert sorted(found) == list(range(9))
    for number, target in expected.items():
        assert found[number].split("\t")[1].split()[0] == target.split()[0]


@pytest.mark.thorough
def test_a_run_that_is_resumed(corpus):
    """It goes on as if it had not ended, also where the model draws its updates. The pretrained embeddings of the
    source are frozen."""
    (train,) = commands_of(PAGE, "fairseq-train noisy")
    words = [line.split()[0] for line in (corpus.path / "noisy/data/dict.source.txt").read_text().splitlines()]
    values = write_embeddings(corpus.path / "embeddings.txt", words, 8)
    train = f"{train} --encoder-embed-path embeddings.txt --encoder-freeze-embed"
    options = {**TINY, "arch": "random_skip_lstm_seq2seq"}
    corpus.run(train, **options, save_dir="runs/whole")
    for updates in (3, 6):
        corpus.run(train, **{**options, "max_update": updates, "save_dir": "runs/parts"})
    expected, found = load(corpus, "runs/whole")["model"], load(corpus, "runs/parts")
    torch.testing.assert_close(found["model"], expected, rtol=0, atol=0)
    assert [part["num_updates"] for part in found["optimizer_history"]] == [3, 6]
    torch.testing.assert_close(expected["encoder.embed_tokens.weight"][4:], values, atol=1e-4, rtol=0)


def train_in_parts(folder, command):
    os.chdir(folder)
    for updates in (2, 6):
        run_here("train", [*shlex.split(command)[1:], "--max-update", str(updates)])


@pytest.mark.thorough
def test_two_processes(corpus):
    """They train, and go on after an end, as one process that accumulates as many batches. Embeddings are shared."""
    (train,) = commands_of(PAGE, "fairseq-train noisy")
    options = {**TINY, "arch": "skip_gru_seq2seq", "optimizer": "sgd", "lr": 0.3}  # Adam would enlarge rounding errors
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        train = re.sub(rf" {option} \S+", "", train) + f" {option} {value}"
    train += " --share-decoder-input-output-embed"
    corpus.run(train, update_freq=2, save_dir="runs/one")
    run_ranks(train_in_parts, corpus.path, f"{train} --save-dir runs/two")
    expected, found = load(corpus, "runs/one"), load(corpus, "runs/two")
    torch.testing.assert_close(found["model"], expected["model"], rtol=0, atol=1e-5)
    assert [part["num_updates"] for part in found["optimizer_history"]] == [2, 6]
    assert "decoder.fc_out.weight" not in found["model"]


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
    plain = re.sub(r"--cost\S+ \S+ | --best-checkpoint-metric \S+", "", plain)
    theirs = validation(corpus, plain, **TINY, arch="lstm", save_dir="runs/lstm")
    same = {**TINY, "max_update": 1, "lr": 0, "save_dir": "runs/full"}
    ours = validation(corpus, finetune, **same, arch="full_lstm_seq2seq")
    assert float(ours["valid_nll_loss"]) == pytest.approx(float(theirs["valid_nll_loss"]), abs=2e-3)
    assert float(ours["valid_update_fraction"]) == 1
    trained = validation(corpus, f"{finetune} --fp16", **TINY)
    assert float(trained["valid_loss"]) < 1.1 * float(theirs["valid_loss"])
    assert load(corpus, "runs/from-lstm")["optimizer_history"][-1]["optimizer_name"] == "FP16Optimizer"


@pytest.mark.parametrize("options", ["", "--encoder-bidirectional --encoder-embed-dim 8"], ids=["alone", "of lstm"])
def test_another_architecture_is_told(corpus, options):
    """Also where the command has options of fairseq's models, which this architecture does not know."""
    options += " --cpu --max-tokens 200 --criterion with_budget --base-criterion cross_entropy"
    process = corpus.start(f"fairseq-train noisy/data --user-dir skiprnn_plugin --arch skip_gru {options}")
    last = process.stderr.strip().splitlines()[-1]
    assert process.returncode == 1 and last.startswith("ValueError: --arch: expected skip_gru_seq2seq, got skip_gru, ")
