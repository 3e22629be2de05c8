"""Labelled texts are read from fairseq's files and brought to a length; damaged files are refused."""

import random
import shutil

import numpy as np
import pytest
from fairseq.data import Dictionary

from skiprnn_plugin.data.fit import Fit
from skiprnn_plugin.data.text import TextDataset, find_classes, load_dictionary, load_items, load_labels
from skiprnn_plugin.prepare.binarize import write_items

from ..forked import run_forked
from ..tiny_texts import SIZES, damaged, labels, texts, write_texts

# The warning is about objects whose constructor in fairseq failed
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PAD = 1


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts") / "data")


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "data")


def read(folder, split, fit):
    """All texts of a split, as words, and their classes."""
    dictionary, label_dictionary = (load_dictionary(folder / name / "dict.txt") for name in ("input0", "label"))
    items = load_items(folder / "input0" / split, dictionary)
    classes = load_labels(folder / "label" / split, label_dictionary)
    dataset = TextDataset(items, classes, fit, key=(1,), fixed=True)
    samples = [dataset[index] for index in range(len(dataset))]
    assert [len(sample["x"]) for sample in samples] == dataset.sizes.tolist()
    assert all(sample["x"].dtype == np.int64 for sample in samples)
    return [[dictionary[word] for word in sample["x"]] for sample in samples], [s["target"] for s in samples]


def test_texts_and_labels_are_what_was_written(original):
    for split, size in SIZES.items():
        words, classes = read(original, split, Fit(13, "head", "left", "masked", PAD))
        assert words == texts(split)
        assert classes == [i % 2 for i in range(size)]


def test_a_folder_of_fairseq_preprocess(tmp_path):
    """fairseq-preprocess fills the label dictionary up to 8 symbols; still there are 2 classes, not 8 or 4."""
    calls = []
    for name, items in (("input0", texts), ("label", lambda split: [[label] for label in labels(split)])):
        for split in SIZES:
            (tmp_path / f"{split}.{name}").write_text("".join(" ".join(words) + "\n" for words in items(split)))
        prefs = [word for split in SIZES for word in (f"--{split}pref", str(tmp_path / f"{split}.{name}"))]
        calls.append(["--only-source", *prefs, "--destdir", str(tmp_path / name)])
    code = f"""
from fairseq import options
from fairseq_cli.preprocess import main
for arguments in {calls}:
    main(options.get_preprocessing_parser().parse_args(arguments))
"""
    process = run_forked("-c", code)
    assert process.returncode == 0, process.stderr[-2000:]
    dictionary = load_dictionary(tmp_path / "label/dict.txt")
    assert len(dictionary) == 8 and [dictionary[symbol] for symbol in find_classes(dictionary)] == ["neg", "pos"]
    words, classes = read(tmp_path, "valid", Fit(13, "head", "left", "masked", PAD))
    assert words == texts("valid") and classes == [i % 2 for i in range(36)]


def bigger_dictionary(folder):
    dictionary = Dictionary.load(str(folder / "input0/dict.txt"))
    write_items(folder / "input0/valid", dictionary, texts("valid"))
    (folder / "input0/dict.txt").write_text("a 1\n")


def two_labels(folder):
    write_items(folder / "label/valid", load_dictionary(folder / "label/dict.txt"), [["neg"], ["neg", "pos"]])


def unknown_label(folder):
    write_items(folder / "label/valid", load_dictionary(folder / "label/dict.txt"), [["neg"], ["neutral"]])


def no_items(folder):
    write_items(folder / "none", load_dictionary(folder / "input0/dict.txt"), [])
    shutil.move(folder / "none.idx", folder / "input0/valid.idx")


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda f: (f / "input0/dict.txt").write_text(""), "input0/dict.txt: expected a word and its count on each"),
        (lambda f: (f / "input0/dict.txt").write_text("a b\n"), "input0/dict.txt: can't be read as a fairseq dictio"),
        (lambda f: (f / "input0/dict.txt").write_bytes(b"\xff 1\n"), "input0/dict.txt: can't be read as a fairseq"),
        (lambda f: (f / "input0/valid.bin").unlink(), "input0/valid.bin: no such file"),
        (lambda f: (f / "label/valid.idx").unlink(), "label/valid.idx: no such file"),
        (
            lambda f: (f / "input0/valid.bin").write_bytes(b""),
            "input0/valid: can't be read as fairseq's binarized data",
        ),
        (lambda f: (f / "input0/valid.idx").write_bytes(b"x" * 60), "input0/valid: can't be read as fairseq's bina"),
        (
            bigger_dictionary,
            r"input0/valid: can't be read .*token ids of its dictionary, from 0 to 4, got \d+",
        ),
        (no_items, "input0/valid: expected at least one item, got none"),
        (two_labels, r"label/valid: expected one label for each text, got \['neg', 'pos'\] for text 1"),
        (unknown_label, r"label/valid: expected one label for each text, got \['<unk>'\] for text 1"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_errors_name_the_file(folder, damage, message):
    damage(folder)
    with pytest.raises(ValueError, match=message) as caught:
        read(folder, "valid", Fit(13, "head", "left", "data", PAD))
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(100))
def test_damaged_files(folder, seed):
    """A damaged file gives texts that can be trained on, or one error that names the file."""
    rng = random.Random(seed)
    path = folder / rng.choice(["input0", "label"]) / rng.choice(["dict.txt", "valid.bin", "valid.idx"])
    path.write_bytes(damaged(path.read_bytes(), rng))
    try:
        words, classes = read(folder, "valid", Fit(13, "head", "left", "data", PAD))
    except ValueError as error:
        assert str(folder) in str(error) and "\n" not in str(error)
    else:
        assert all(len(text) == 13 for text in words) and len(classes) > 0
