"""The example ``translation``: its corpus is what it says, and its script does what docs/translation.md shows."""

import os
import re
import shlex
import sys

import pytest

from .command_line import ROOT, run
from .forked import SCRIPTS, run_forked
from .test_docs import commands_of, read_commands

EXAMPLE = ROOT / "user_dir_examples/translation"


def make_data(folder, *options):
    process = run_forked(EXAMPLE / "make_data.py", folder, *options)
    assert process.returncode == 0, process.stderr


def read_pairs(folder, split):
    source, target = ((folder / f"{split}.{side}").read_text().splitlines() for side in ("source", "target"))
    return list(zip(source, target, strict=True))


def test_corpus(tmp_path):
    options = ["--train", 50, "--words", 7, "--noise-words", 3, "--most-noise", 3, "--shortest", 2, "--longest", 4]
    for folder, seed in ((tmp_path / "one", 1), (tmp_path / "again", 1), (tmp_path / "other", 2)):
        make_data(folder, *options, "--valid", 4, "--test", 5, "--seed", seed)
    pairs = read_pairs(tmp_path / "one", "train")
    assert len(pairs) == 50 and [len(read_pairs(tmp_path / "one", split)) for split in ("valid", "test")] == [4, 5]
    assert pairs == read_pairs(tmp_path / "again", "train") != read_pairs(tmp_path / "other", "train")
    for source, target in pairs:
        words = re.findall(r"(w\d+)_(\d)((?: n[0-2])*)(?: |$)", source)
        assert " ".join(f"{word}_{count}{noise}" for word, count, noise in words) == source
        assert all(len(noise.split()) == int(count) for _, count, noise in words)
        assert [word for word, _, _ in words][::-1] == target.split() and 2 <= len(words) <= 4
    assert set(" ".join(target for _, target in pairs).split()) == {f"w{word}" for word in range(7)}


@pytest.mark.parametrize("option, expected", [("--words 0", 1), ("--most-noise -1", 0), ("--longest 1", 2)])
def test_bad_options(tmp_path, option, expected):
    name, value = option.split()
    process = run_forked(EXAMPLE / "make_data.py", tmp_path / "no", name, value)
    assert process.returncode == 2 and not (tmp_path / "no").exists()
    assert process.stderr.endswith(f"error: {name}: expected at least {expected}, got {value}\n")


def run_script(*arguments):
    """The example's script, with fairseq's commands on the PATH."""
    return run("bash", EXAMPLE / "run.sh", *arguments, PATH=f"{SCRIPTS}:{os.environ['PATH']}", PYTHONPATH=str(ROOT))


@pytest.mark.thorough
def test_script(tmp_path):
    """With a user's texts in the folder, and options that win."""
    make_data(tmp_path, "--train", 60, "--valid", 9, "--test", 9)
    sizes = "--encoder-hidden-size 8 --decoder-hidden-size 8 --encoder-embed-dim 8 --decoder-embed-dim 8".split()
    options = [*sizes, "--decoder-out-embed-dim", 8, "--max-update", 2, "--num-workers", 0]
    process = run_script(tmp_path, *options)
    assert process.returncode == 0, process.stderr[-2000:]
    *_, translations, bleu, updates = process.stdout.splitlines()
    assert translations == f"Translations: {tmp_path}/run/translations.txt"
    assert re.match(r"BLEU4? = \d+\.\d+", bleu)
    assert 0 < float(updates.removeprefix("Updated steps of the source: ")) <= 1
    found = re.findall(r"^S-\d+\t(.*)$", (tmp_path / "run/translations.txt").read_text(), re.MULTILINE)
    assert sorted(found) == sorted(source for source, _ in read_pairs(tmp_path, "test"))


def test_script_without_a_folder():
    process = run_script()
    assert process.returncode == 2
    assert process.stderr == "error: FOLDER: expected a folder for the texts and the run, got nothing\n"


@pytest.mark.parametrize("start", ["fairseq-preprocess", "fairseq-train"])
def test_script_has_the_commands_of_the_page(start):
    """The folder and the plugin are variables of the script, which has some further options."""
    (command,) = commands_of(ROOT / "docs/translation.md", f"{start} {'noisy' if 'train' in start else '--source'}")
    script = re.sub(r" *\\\n *", " ", (EXAMPLE / "run.sh").read_text())
    (line,) = re.findall(rf"^ *({start} .*)$", script, re.MULTILINE)
    line = line.replace('"$folder', "noisy").replace('"$plugin', "skiprnn_plugin").replace('"', "")
    assert line.startswith(command), (line, command)


@pytest.mark.parametrize("program", ["preprocessing", "training", "generation"])
def test_commands_for_another_corpus(program, monkeypatch):
    """fairseq knows their options. They are not run, as they need a corpus."""
    from fairseq import options

    name = {"preprocessing": "fairseq-preprocess", "training": "fairseq-train data/", "generation": "fairseq-generate"}
    (command,) = (found for found in read_commands(EXAMPLE / "README.md") if found.startswith(name[program]))
    words = shlex.split(command)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", words)
    parser = getattr(options, f"get_{program}_parser")()
    if program == "preprocessing":
        assert parser.parse_args(words[1:]).source_lang == "de"
        return
    args = options.parse_args_and_arch(parser, words[1:])
    assert args.task == "translation"
    if program == "training":
        assert (args.arch, args.cost_warmup_updates, args.encoder_hidden_size) == ("skip_lstm_seq2seq", 4000, None)
