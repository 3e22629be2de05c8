"""fairseq's own commands for speech, as docs/speech.md has them, with a Skip RNN that reads the frames."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch

from .command_line import ROOT, run
from .test_docs import Folder, commands_of, read_commands

PAGE = ROOT / "docs/speech.md"
TINY = {
    "encoder_hidden_size": 8,
    "max_update": 6,
    "num_workers": 0,
    "log_format": "json",
    "required_batch_size_multiple": 1,
}
DECODER = {"decoder_embed_dim": 8, "decoder_hidden_size": 8, "decoder_out_embed_dim": 8}
# In place of the package that fairseq's criterion ctc imports
EDITDISTANCE = """
def eval(found, expected):
    row = list(range(len(expected) + 1))
    for index, token in enumerate(found, 1):
        before, row = row, [index]
        for place, other in enumerate(expected, 1):
            row.append(min(before[place] + 1, row[-1] + 1, before[place - 1] + (token != other)))
    return row[-1]
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with the page's corpus in 120 utterances."""
    folder = Folder(tmp_path_factory.mktemp("speech"))
    (folder.path / "user_dir_examples").symlink_to(ROOT / "user_dir_examples", target_is_directory=True)
    (make,) = commands_of(PAGE, "python user_dir_examples/speech")
    process = run(sys.executable, *make.split()[1:], 120, cwd=folder.path)
    assert process.returncode == 0, process.stderr
    (folder.path / "editdistance.py").write_text(EDITDISTANCE)
    return folder


def validation(folder, command, subset="valid", **options):
    """The last validation that a command logs."""
    process = folder.start(command, **options)
    assert process.returncode == 0, process.stderr[-2000:]
    found = json.loads(re.findall(r"\{.*\"" + subset + r"_loss\".*\}", process.stdout + process.stderr)[-1])
    return {name.removeprefix(f"{subset}_"): value for name, value in found.items()}


def read_transcripts(text):
    """By the number of an utterance: the text, and what the command wrote, with its score."""
    found = {}
    for number, rest in re.findall(r"^[TH]-(\d+)\t(.*)$", text, re.MULTILINE):
        found.setdefault(int(number), []).append(rest)
    return found


def load(folder, name):
    return torch.load(folder.path / "runs" / name / "checkpoint_last.pt", weights_only=False)["model"]


def find_commands(start):
    return [command for command in read_commands(PAGE) if command.startswith(start)]


def test_commands(corpus):
    train, validate, generate = commands_of(
        PAGE, "fairseq-train digits", "fairseq-validate digits", "fairseq-generate digits"
    )
    skipping = {"gate_init": "authors", "update_bias": -1}  # at once, unlike with the defaults
    trained = validation(corpus, train, **TINY, **DECODER, **skipping)
    assert trained["num_updates"] == "6" and 0 < float(trained["update_fraction"]) < 1
    assert float(trained["budget_loss"]) > 0
    texts = [line.split("\t")[3] for line in (corpus.path / "digits/valid.tsv").read_text().splitlines()[1:]]
    tokens = sum(len(text.split()) + 1 for text in texts)  # with the end of each
    assert float(trained["accuracy"]) == pytest.approx(100 * float(trained["n_correct"]) / tokens, abs=1e-3)
    same = {"valid_subset": "valid", "log_format": "json", "required_batch_size_multiple": 1}
    validated = validation(corpus, validate, **same)
    for name in ("loss", "nll_loss", "task_loss", "budget_loss", "accuracy", "updates", "update_fraction", "increment"):
        assert validated[name] == trained[name], name
    # in batches and one by one
    batches = read_transcripts(corpus.run(generate, required_batch_size_multiple=1, max_len_b=10))
    paths = [str(corpus.path / f"digits/test/{number}.npy") for number in range(6)]
    (corpus.path / "paths").write_text("\n".join(paths) + "\n")
    interactive = generate.replace("fairseq-generate", "fairseq-interactive").replace(
        "--gen-subset test", "--input paths"
    )
    alone = read_transcripts(corpus.run(interactive, max_len_b=10))
    lines = [line.split("\t") for line in (corpus.path / "digits/test.tsv").read_text().splitlines()[1:]]
    assert {number: found[0] for number, found in batches.items()} == {n: row[3] for n, row in enumerate(lines)}
    for number, (_, hypothesis) in batches.items():
        (score, words), (score_alone, words_alone) = hypothesis.split("\t"), alone[number][0].split("\t")
        assert words == words_alone and float(score) == pytest.approx(float(score_alone), abs=1e-4)


@pytest.mark.thorough
def test_ctc(corpus):
    """The errors that validation counts are those of what is generated; training goes on from an encoder."""
    train, validate, generate = (
        next(command for command in find_commands(start) if "ctc" in command)
        for start in ("fairseq-train digits", "fairseq-validate digits", "fairseq-generate digits")
    )
    trained = validation(corpus, train, **TINY)
    assert float(trained["loss"]) > 0 and 0 < float(trained["update_fraction"]) <= 1
    found = validation(corpus, validate, "test", log_format="json", required_batch_size_multiple=1)
    transcripts = read_transcripts(corpus.run(generate, required_batch_size_multiple=1))
    space = {}
    exec(EDITDISTANCE, space)
    errors = sum(space["eval"](found.split("\t")[1].split(), text.split()) for text, found in transcripts.values())
    words = sum(len(text.split()) for text, _ in transcripts.values())
    assert float(found["wer"]) == pytest.approx(100 * errors / words, abs=1e-2)
    (command,) = commands_of(PAGE, "fairseq-train digits")
    options = {"load_pretrained_encoder_from": "runs/digits-ctc/checkpoint_last.pt", "save_dir": "runs/from-ctc"}
    command = command.replace("--encoder-bidirectional ", "")  # as the CTC model reads in one direction
    corpus.run(command, **{**TINY, **DECODER, **options, "max_update": 1, "lr": 0})
    weights, expected = (load(corpus, name) for name in ("from-ctc", "digits-ctc"))
    for name in expected:
        if name.startswith("encoder."):
            assert torch.equal(weights[name], expected[name]), name


def test_another_architecture_is_told(corpus):
    """Also where the command has options that the architecture does not know."""
    (train,) = commands_of(PAGE, "fairseq-train digits")
    for arch, fitting in (("skip_gru_seq2seq", "skip_gru_s2t"), ("full_lstm", "full_lstm_s2t")):
        process = corpus.start(train, arch=arch)
        last = process.stderr.strip().splitlines()[-1]
        assert process.returncode == 1 and last.startswith(f"ValueError: --arch: expected {fitting}, got {arch}, ")


@pytest.mark.thorough
def test_hydra(corpus):
    (command,) = [found for found in find_commands("fairseq-hydra-train") if "speech_to_text" in found]
    small = "model.encoder_embed_dim=8 model.decoder_embed_dim=8 model.decoder_out_embed_dim=8 dataset.num_workers=0"
    small += " dataset.required_batch_size_multiple=1 optimization.max_update=3 hydra.run.dir=runs/hydra"
    assert float(validation(corpus, f"{command} {small}")["budget_loss"]) > 0
    checkpoint = torch.load(corpus.path / "runs/hydra/checkpoints/checkpoint_last.pt", weights_only=False)
    assert checkpoint["cfg"]["model"]["stack_frames"] == 3


@pytest.mark.thorough
def test_language_tags(corpus):
    """Those of fairseq's task, with the option of the base criterion that they need."""
    (train, generate) = commands_of(PAGE, "fairseq-train digits", "fairseq-generate digits")
    folder = corpus.path / "tagged"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        head, *rows = (corpus.path / f"digits/{split}.tsv").read_text().splitlines()
        tagged = [f"{row}\t{'de' if index % 2 else 'en'}" for index, row in enumerate(rows)]
        (folder / f"{split}.tsv").write_text("\n".join([f"{head}\ttgt_lang", *tagged]) + "\n")
    words = (corpus.path / "digits/dict.txt").read_text()
    (folder / "dict.txt").write_text(f"{words}<lang:de> 1\n<lang:en> 1\n")
    config = (corpus.path / "digits/config.yaml").read_text()
    (folder / "config.yaml").write_text(f"{config}prepend_tgt_lang_tag: true\n")
    train = train.replace("digits", "tagged")
    process = corpus.start(train, **TINY, **DECODER)
    assert process.returncode == 1 and "ValueError: --ignore-prefix-size: expected 1" in process.stderr
    corpus.run(train, **TINY, **DECODER, ignore_prefix_size=1)
    generate = generate.replace("digits", "tagged")
    found = read_transcripts(corpus.run(generate, required_batch_size_multiple=1, prefix_size=1, max_len_b=10))
    assert len(found) == 6 and not any("<lang" in hypothesis for _, hypothesis in found.values())


@pytest.mark.thorough
def test_example(corpus):
    """run.sh ends with three lines of numbers."""
    arguments = [ROOT / "user_dir_examples/speech/run.sh", corpus.path / "runs/example", 40, 2]
    process = run("bash", *arguments, cwd=ROOT, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert process.returncode == 0, process.stderr[-2000:]
    last = process.stdout.strip().splitlines()[-3:]
    assert re.fullmatch(r"full_lstm_s2t: accuracy [\d.]+, update_fraction 1", last[0])
    assert re.fullmatch(r"skip_lstm_s2t: accuracy [\d.]+, update_fraction [\d.]+", last[1])
    assert re.fullmatch(r"skip_gru_s2t: accuracy [\d.]+, update_fraction [\d.]+", last[2])
