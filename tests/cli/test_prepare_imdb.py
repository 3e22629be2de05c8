"""``skiprnn-prepare imdb``: what it writes, that fairseq reads it, what it refuses, and interruptions."""

import json
import os
import signal
import sys

import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from skiprnn_plugin import __version__
from skiprnn_plugin.cli.prepare import main
from skiprnn_plugin.prepare import imdb
from skiprnn_plugin.prepare.tokenize_text import load_tokenizer

from ..command_line import ROOT
from ..forked import run_forked
from ..tiny_imdb import FILES, OTHER_FILES, write_archive, write_folder

QUARTER = ("--valid-fraction", 0.25, "--min-count", 2)
PIECES = ("--bpe", "sentencepiece", "--vocab-size", 40)


@pytest.fixture
def source(tmp_path):
    return write_archive(tmp_path / "reviews.tar.gz", {**OTHER_FILES, **FILES})


def contents(folder):
    """Every file's content, by name, without the name of the source."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    record = json.loads(found["prepare.json"])
    record.pop("source")
    return {**found, "prepare.json": record}


def lines(folder, split, name="input0"):
    """A split's items as text, with the end of sentence."""
    dictionary = Dictionary.load(str(folder / name / "dict.txt"))
    items = data_utils.load_indexed_dataset(str(folder / name / split), dictionary)
    return [dictionary.string(item, include_eos=True) for item in items]


def test_what_it_writes(tmp_path, source):
    command = ("-m", "skiprnn_plugin.cli.prepare", "imdb", source, tmp_path / "data", *QUARTER)
    process = run_forked(*command, PYTHONPATH=ROOT)
    assert (process.returncode, process.stderr) == (0, "")
    data = tmp_path / "data"
    assert json.loads((data / "prepare.json").read_text()) == {
        "source": source.name,
        "version": __version__,
        "bpe": "none",
        "combining_marks": True,
        "vocab_size": None,
        "min_count": 2,
        "valid_fraction": 0.25,
        "seed": 1,
        "vocabulary": 9,
        "splits": {
            "train": {"reviews": 6, "tokens": 32, "unknown": 6},
            "valid": {"reviews": 2, "tokens": 13, "unknown": 4},
            "test": {"reviews": 8, "tokens": 45, "unknown": 10},
        },
    }
    assert lines(data, "test", "label") == 4 * ["neg </s>"] + 4 * ["pos </s>"]
    assert lines(data, "valid", "label") == ["neg </s>", "pos </s>"]
    assert lines(data, "valid") == ["bad bad bad ! <unk> <unk> <unk> it . </s>", "good <unk> good film </s>"]
    assert lines(data, "train") == [
        "a bad film . </s>",
        "not a good film </s>",
        "<unk> <unk> <unk> it was bad . . . </s>",
        "a good film ! </s>",
        "<unk> <unk> it <unk> good . </s>",
        "it was not bad ! </s>",
    ]
    counts = [". 5", "a 3", "bad 3", "film 3", "good 3", "it 3", "! 2", "not 2", "was 2"]  # of training alone
    assert (data / "input0" / "dict.txt").read_text().splitlines() == counts
    assert (data / "label" / "dict.txt").read_text() == "neg 3\npos 3\n"
    assert process.stdout == (
        f"{data}: train 6 reviews (18.75% of tokens unknown), valid 2 reviews (30.77% of tokens unknown), "
        "test 8 reviews (22.22% of tokens unknown); 9 tokens in the vocabulary\n"
    )


@pytest.mark.parametrize("options", [(), PIECES], ids=["words", "pieces"])
def test_folder_and_archive_in_any_order_give_the_same(prints, tmp_path, source, options):
    sources = [
        source,
        write_archive(tmp_path / "backwards.tar.gz", dict(reversed(FILES.items()))),
        write_folder(tmp_path / "aclImdb", {**FILES, **OTHER_FILES}),
    ]
    made = []
    for path in sources:
        prints(main, "imdb", path, tmp_path / f"data of {path.name}", *QUARTER, *options)
        made.append(contents(tmp_path / f"data of {path.name}"))
    assert made[0] == made[1] == made[2] and len(made[0]) == (15 if options == () else 16)


@pytest.mark.parametrize("options", [(), PIECES], ids=["words", "pieces"])
def test_sentence_prediction_and_the_tokenizer_read_it(prints, tmp_path, source, options):
    data = tmp_path / "data"
    prints(main, "imdb", source, data, *QUARTER, *options)
    cfg = SentencePredictionConfig(
        data=str(data), num_classes=2, no_shuffle=True, regression_target=False, classification_head_name="", seed=1
    )
    task = SentencePredictionTask.setup_task(cfg)
    for split, labels in (("train", 3 * [0] + 3 * [1]), ("valid", [0, 1]), ("test", 4 * [0] + 4 * [1])):
        task.load_dataset(split)
        assert [task.dataset(split)[index]["target"].tolist() for index in range(len(labels))] == [[x] for x in labels]
    tokenize = load_tokenizer(data)
    test = [text.decode() for name, text in FILES.items() if name.startswith("test")]
    for index, text in enumerate(test):
        ids = task.source_dictionary.encode_line(text, line_tokenizer=tokenize, add_if_not_exist=False)
        assert ids.tolist() == task.dataset("test")[index]["net_input.src_tokens"].tolist()


def test_validation_is_drawn_by_the_seed(prints, tmp_path, source):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        prints(main, "imdb", source, tmp_path / name, *QUARTER, "--seed", seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert lines(tmp_path / "a", "valid") != lines(tmp_path / "c", "valid")
    assert lines(tmp_path / "a", "test", "label") == lines(tmp_path / "c", "test", "label")


@pytest.mark.parametrize(
    "options, reason",
    [
        (("--min-count", 0), "--min-count: expected an integer of at least 1, got 0"),
        (("--min-count", 99), "--min-count: expected a count that some token of the training reviews has, got 99"),
        (("--seed", -1), "--seed: expected an integer of at least 0, got -1"),
        (("--valid-fraction", 1), "--valid-fraction: expected a fraction between 0 and 1, got 1.0"),
        (("--valid-fraction", "nan"), "--valid-fraction: expected a fraction between 0 and 1, got nan"),
        (("--valid-fraction", 0.1), "--valid-fraction: expected some of the 4 training reviews in neg"),
        (("--vocab-size", 100), "--vocab-size: needs --bpe sentencepiece"),
        (("--vocab-size", 0, "--bpe", "sentencepiece"), "--vocab-size: expected an integer of at least 1, got 0"),
        (
            ("--vocab-size", 8000, "--bpe", "sentencepiece"),
            "--vocab-size: expected a size that a model of this text can have, got 8000 (",
        ),
    ],
)
def test_names_the_option(fails, tmp_path, source, options, reason):
    assert f": error: {reason}" in fails(main, "imdb", source, tmp_path / "not/there", *QUARTER, *options)
    assert os.listdir(tmp_path) == [source.name]


def test_without_sentencepiece(fails, tmp_path, source, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    message = fails(main, "imdb", source, tmp_path / "data", "--bpe", "sentencepiece")
    assert "--bpe sentencepiece: " in message and "pip install 'skiprnn-plugin[text]'" in message


def test_a_review_without_words(fails, tmp_path):
    folder = write_folder(tmp_path / "aclImdb", {**FILES, "test/pos/9_10.txt": b"- <br /> -"})
    assert "test/pos/9_10.txt: expected words, got none" in fails(main, "imdb", folder, tmp_path / "data", *QUARTER)
    assert os.listdir(tmp_path) == [folder.name]


@pytest.mark.parametrize("writes", range(1, 7))
def test_an_interruption_leaves_nothing(capsys, tmp_path, source, monkeypatch, writes):
    """Ctrl-C in the midst of writing one of the six files."""
    left, write_items = [writes], imdb.write_items

    def interrupted(prefix, dictionary, items):
        write_items(prefix, dictionary, items)
        left[0] -= 1
        if not left[0]:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(imdb, "write_items", lambda *arguments: interrupted(*arguments) or (1, 0))
    assert main(["imdb", str(source), str(tmp_path / "data"), *map(str, QUARTER)]) == 130
    assert capsys.readouterr() == ("", "skiprnn-prepare: interrupted\n")
    assert os.listdir(tmp_path) == [source.name]


def test_a_killed_run_is_made_good_by_the_next(prints, tmp_path, source):
    code = """
import os, signal, sys
from skiprnn_plugin.prepare import imdb
from skiprnn_plugin import __version__
from skiprnn_plugin.cli.prepare import main
write_items = imdb.write_items
def killed(prefix, dictionary, items):
    if prefix.name == "valid": os.kill(os.getpid(), signal.SIGKILL)
    return write_items(prefix, dictionary, items)
imdb.write_items = killed
main(sys.argv[1:])
"""
    arguments = ("imdb", source, tmp_path / "data", *QUARTER)
    process = run_forked("-c", code, *arguments, PYTHONPATH=ROOT)
    assert process.returncode == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == [".data.lock", ".data.partial", source.name]
    prints(main, *arguments)
    assert sorted(os.listdir(tmp_path)) == ["data", source.name]
