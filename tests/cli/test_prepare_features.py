"""``skiprnn-prepare features`` of one's own folder and of several subjects: what it writes, and what it refuses."""

import json
import random
import re
import shutil

import numpy as np
import pytest

from skiprnn_plugin import __version__
from skiprnn_plugin.cli.prepare import main
from skiprnn_plugin.data.features import FeatureStore, read_statistics
from skiprnn_plugin.data.manifest import read_manifest
from skiprnn_plugin.prepare.feature_sources import list_classes
from skiprnn_plugin.prepare.frame_encoder import read_encoding

from ..command_line import ROOT
from ..forked import run_forked
from ..tiny_features import LABELS, SIZES, WIDTH, sequences, write_features
from ..tiny_texts import damaged

SUBJECTS = ["anna", "bert", "cleo", "dora", "emil"]


@pytest.fixture
def source(tmp_path):
    return write_features(tmp_path / "source")


def subjects_file(path, **changed):
    """Ten recordings of five people."""
    rng = np.random.default_rng(0)
    lengths = np.arange(1, 11)
    arrays = {
        "values": rng.normal(size=(lengths.sum(), WIDTH)),
        "lengths": lengths,
        "labels": np.arange(10) % 2,
        "subject": np.array(SUBJECTS * 2),
        "label_names": np.array(["up", "down"]),
        **changed,
    }
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    return {**arrays}


def read(folder):
    """The items and their arrays."""
    items = read_manifest(folder, ("label",))
    store = FeatureStore(folder, items)
    return items, [np.array(store.view(position)) for position in range(len(items))]


def test_a_folder_of_ones_own(tmp_path, source):
    """Other columns stay; classes and statistics are of the training split."""
    manifest = source / "manifest.tsv"
    header, *lines = manifest.read_text().splitlines()
    manifest.write_text("\n".join([f"note\t{header}", *(f"my {number}\t{line}" for number, line in enumerate(lines))]))
    dest = tmp_path / "dest"
    process = run_forked("-m", "skiprnn_plugin.cli.prepare", "features", source, dest, PYTHONPATH=ROOT)
    assert (process.returncode, process.stderr) == (0, "")
    items, arrays = read(dest)
    for number, (item, array, (name, split, label, expected)) in enumerate(zip(items, arrays, sequences())):
        assert (item.name, item.steps, item.split, item.label) == (name, len(expected), split, label)
        assert item.fields["note"] == f"my {number}" and array.dtype == np.float32
        np.testing.assert_array_equal(array, expected)
    train = np.concatenate([array for _, split, _, array in sequences() if split == "train"]).astype(np.float64)
    mean, std = read_statistics(dest)
    np.testing.assert_allclose(mean, train.mean(0), rtol=1e-12)
    np.testing.assert_allclose(std, train.std(0), rtol=1e-12)
    steps = {split: sum(item.steps for item in items if item.split == split) for split in SIZES}
    assert json.loads((dest / "prepare.json").read_text()) == {
        "source": "source",
        "version": __version__,
        "dtype": "float32",
        "features": WIDTH,
        "splits": {split: {"sequences": size, "steps": steps[split]} for split, size in SIZES.items()},
        "passed_over": {},
    }
    assert (dest / "classes.txt").read_text().split() == LABELS
    names = ["classes.txt", "features.npy", "manifest.tsv", "prepare.json", "statistics.npz"]
    assert sorted(path.name for path in dest.iterdir()) == names
    assert process.stdout == (
        f"{dest}: train 24 sequences ({steps['train']} steps), valid 7 sequences ({steps['valid']} steps), "
        f"test 5 sequences ({steps['test']} steps); 3 features\n"
    )


@pytest.mark.parametrize("stored", ["int16", "one feature"])
def test_whole_numbers_and_one_feature(prints, tmp_path, source, stored):
    """As recorders write them. What reads a folder without preparing it gets the same."""
    for path in source.glob("*.npy"):
        array = np.load(path)
        np.save(path, (100 * array).astype(np.int16) if stored == "int16" else array[:, 0])
    prints(main, "features", source, tmp_path / "dest")
    (items, made), (_, direct) = read(tmp_path / "dest"), read(source)
    for item, array, other in zip(items, made, direct):
        expected = np.load(source / f"{item.name}.npy").astype(np.float32).reshape(len(array), -1)
        np.testing.assert_array_equal(array, expected)
        np.testing.assert_array_equal(other, expected)


def test_half_precision(prints, fails, tmp_path, source):
    prints(main, "features", source, tmp_path / "dest", "--dtype", "float16")
    for array, (*_, expected) in zip(read(tmp_path / "dest")[1], sequences()):
        assert array.dtype == np.float16
        np.testing.assert_array_equal(array, expected.astype(np.float16))
    np.save(source / "train3.npy", np.load(source / "train3.npy") + 1e5)
    message = fails(main, "features", source, tmp_path / "other", "--dtype", "float16")
    assert "sequence 'train3': expected finite numbers in the range of float16, got " in message
    prints(main, "features", source, tmp_path / "other")


def test_what_it_has_made_is_a_source(prints, tmp_path, source):
    prints(main, "features", source, tmp_path / "one")
    (tmp_path / "one/classes.txt").write_text("up\nnone\ndown\n")
    prints(main, "features", tmp_path / "one", tmp_path / "two")
    for name in ("features.npy", "manifest.tsv", "classes.txt", "statistics.npz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("labels", ["0", "0.5"], ids=["whole numbers", "numbers"])
def test_what_it_has_made_of_a_table_is_a_source(prints, tmp_path, labels):
    """A model of the second folder finds the columns of a table by their names, as one of the first does."""
    lines = [f"s{number},{number}{labels[1:]},{number},{step}" for number in range(10) for step in range(3)]
    (tmp_path / "table.csv").write_text("\n".join(["who,label,y,x", *lines]))
    prints(main, "features", tmp_path / "table.csv", tmp_path / "one", "--sequence-column", "who", "--regression")
    prints(main, "features", tmp_path / "one", tmp_path / "two", "--dtype", "float64")
    one, two = (json.loads((tmp_path / name / "prepare.json").read_text()) for name in ("one", "two"))
    assert two["feature_names"] == one["feature_names"] == ["y", "x"]
    assert two["sequence_column"] == one["sequence_column"] == "who"
    assert two["labels"] == one["labels"] == "numbers" and two["dtype"] == "float64"
    assert not (tmp_path / "two/classes.txt").exists()


def test_what_was_made_of_videos_is_a_source(prints, tmp_path, source):
    """The second folder says how to encode videos, as the first does."""
    encoding = {"frame_rate": 25.0, "encoder": "resnet50", "weights": "w.pth", "weights_crc32": 7}
    prints(main, "features", source, tmp_path / "one")
    record = json.loads((tmp_path / "one/prepare.json").read_text())
    (tmp_path / "one/prepare.json").write_text(json.dumps({**record, **encoding}))
    prints(main, "features", tmp_path / "one", tmp_path / "two", "--dtype", "float16")
    assert read_encoding(tmp_path / "two") == read_encoding(tmp_path / "one")._replace(dtype=np.dtype("float16"))


def test_statistics_where_the_mean_is_large(prints, tmp_path, source):
    for path in source.glob("*.npy"):
        np.save(path, np.load(path).astype(np.float64) + [0, 1e6, 0])
    prints(main, "features", source, tmp_path / "dest")
    items, arrays = read(tmp_path / "dest")
    train = np.concatenate([array for item, array in zip(items, arrays) if item.split == "train"]).astype(np.float64)
    np.testing.assert_allclose(read_statistics(tmp_path / "dest").std, train.std(0), rtol=1e-9)


def test_subjects_are_held_out(prints, tmp_path):
    arrays = subjects_file(tmp_path / "watch.npz")
    named = ("--held-out-subjects", "bert", "emil", "--valid-subjects", "anna")
    output = prints(main, "features", tmp_path / "watch.npz", tmp_path / "dest", *named)
    items, stored = read(tmp_path / "dest")
    starts = np.cumsum([0, *arrays["lengths"]])
    splits = dict(zip(SUBJECTS, ("valid", "test", "train", "train", "test")))
    for number, (item, array) in enumerate(zip(items, stored)):
        subject = SUBJECTS[number % 5]
        assert (item.name, item.fields["subject"], item.split) == (str(number), subject, splits[subject])
        assert item.label == ("up", "down")[number % 2]
        expected = arrays["values"][starts[number] : starts[number + 1]]
        np.testing.assert_array_equal(array, expected.astype(np.float32))
    assert "valid 2 sequences (7 steps)" in output and "test 4 sequences (24 steps)" in output
    assert (tmp_path / "dest/classes.txt").read_text() == "up\ndown\n"


@pytest.mark.parametrize(
    "words",
    [
        ("values", "lengths", "labels", "subject", "label_names"),
        ("manifest.tsv", "manifest.csv", "sequence", "split", "train", "valid", "test"),
    ],
)
def test_help_says_what_a_source_holds(capsys, words):
    with pytest.raises(SystemExit):
        main(["features", "--help"])
    assert set(words) <= set(re.findall(r"[\w.]+", capsys.readouterr().out))


@pytest.mark.parametrize("order", ["C", "F"])
def test_subjects_are_drawn_by_the_seed(prints, tmp_path, order):
    """In whatever order numpy has stored the values, and with labels and subjects that are numbers."""
    values = np.asarray(np.arange(110.0).reshape(55, 2), order=order)
    numbers = {"subject": np.arange(10) % 5 + 7, "labels": np.repeat([9, 10], 5), "label_names": None}
    subjects_file(tmp_path / "watch.npz", values=values, **numbers)
    made = []
    for name, seed in (("a", 1), ("b", 1), ("c", 3)):
        prints(main, "features", tmp_path / "watch.npz", tmp_path / name, "--seed", seed, "--held-out-fraction", 0.4)
        items, stored = read(tmp_path / name)
        np.testing.assert_array_equal(np.concatenate(stored), values)
        made.append([item.split for item in items])
    assert made[0] == made[1] != made[2]
    assert [made[0].count(split) for split in ("train", "valid", "test")] == [4, 2, 4]
    assert made[0][:5] == made[0][5:]
    assert (tmp_path / "a/classes.txt").read_text().split() == ["9", "10"]


@pytest.mark.parametrize(
    "changed",
    [
        {"label_names": np.array(["up ", "\u00a0down"])},
        {"label_names": None, "labels": np.array(["up", "down "] * 5)},
        {"label_names": None, "labels": np.array(["up", "down", " up", "down", "up"] * 2)},
        {"subject": np.array([*SUBJECTS, *(f"{subject} " for subject in SUBJECTS)])},
    ],
    ids=["label names", "labels", "labels with and without", "subjects"],
)
def test_spaces_around_names_do_not_count(prints, tmp_path, changed):
    """As in manifests. A subject with and without spaces is the same, so that it is in one split only."""
    subjects_file(tmp_path / "watch.npz", **changed)
    prints(main, "features", tmp_path / "watch.npz", tmp_path / "dest")
    items = read_manifest(tmp_path / "dest", ("label",))
    classes = list_classes(tmp_path / "dest", items)
    assert sorted(classes) == ["down", "up"] and {item.label for item in items} == {"down", "up"}
    subjects = {(item.fields["subject"], item.split) for item in items}
    assert sorted(subject for subject, _ in subjects) == SUBJECTS


@pytest.mark.parametrize("character", "\t\n\r\x0b\x85\u2028\ufeff\ud800")
@pytest.mark.parametrize("array", ["label_names", "labels", "subject"])
def test_names_that_the_manifest_can_not_hold(fails, tmp_path, array, character):
    names = np.array([f"a{character}b", "c", "d", "e", "f"])
    changed = {"label_names": names[:2]} if array == "label_names" else {array: np.tile(names, 2)}
    if array == "labels":
        changed["label_names"] = None
    subjects_file(tmp_path / "watch.npz", **changed)
    message = f"watch.npz: {array}: expected a name without tabs and line breaks, got {f'a{character}b'!r}"
    assert message in fails(main, "features", tmp_path / "watch.npz", tmp_path / "dest")
    assert [path.name for path in tmp_path.iterdir()] == ["watch.npz"]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"label_names": np.array(["up", "up "])}, "label_names: expected each name once, got 'up' 2 times"),
        ({"label_names": np.array(["up", " "])}, "label_names: expected a name, got ' '"),
        ({"label_names": None, "labels": np.array(["up", ""] * 5)}, "labels: expected a name, got ''"),
        (
            {"label_names": np.array(["up"]), "labels": np.zeros(10, int)},
            "expected at least two classes, got \\['up'\\]",
        ),
        ({"label_names": None, "labels": np.zeros(10, int)}, "expected at least two classes, got \\['0'\\]"),
        (
            {"values": None},
            "expected an array values, or a list of arrays (np.savez), got lengths, labels, subject, label_names",
        ),
        ({"subject": None, "labels": None}, "expected an array labels, got values, lengths, label_names"),
        (
            {"values": np.zeros((55, 2), bool)},
            r"values: expected numbers \[sum of steps, D\], \[N, T, D\] or \[N, T\], got bool (55, 2)",
        ),
        (
            {"label_names": None, "labels": np.arange(10) % 2 + 2.0**53},
            "labels: expected whole numbers or names in one row, got float64 (10,); from 9.0072e+15 on floats can't "
            "tell whole numbers apart, so give integers or names, or --regression to predict numbers",
        ),
        (
            {"subject": np.arange(10) // 2 + 2.0**53},
            "(10,); from 9.0072e+15 on floats can't tell whole numbers apart, so give integers or names",
        ),
        ({"lengths": None}, r"expected an array lengths beside values \[steps, features\], got none"),
        (
            {"values": np.zeros((10, 9, 1))},
            "lengths: expected 10, of at most 9 steps, as values (10, 9, 1) has, got 10, of at most 10",
        ),
        ({"values": np.zeros((54, 2))}, "expected as many values as lengths add up to, 55, got 54"),
        ({"values": np.zeros((56, 2))}, "expected as many values as lengths add up to, 55, got 56"),
        (
            {"values": np.full((55, 2), np.nan)},
            "sequence '0': expected finite numbers in the range of float32, got nan",
        ),
        ({"lengths": np.ones(10)}, "lengths: expected whole numbers in one row, got float64 (10,)"),
        ({"lengths": np.zeros(10, int)}, "lengths: expected at least 1, got 0"),
        ({"labels": np.zeros(9, int)}, "labels: expected one for each of the 10 sequences, got 9"),
        ({"labels": np.arange(10)}, "labels: expected numbers of 0 to 1, as there are label_names"),
        ({"labels": np.arange(10) % 2 - 1}, "labels: expected numbers of 0 to 1, as there are label_names"),
        ({"subject": np.zeros((10, 1), int)}, "subject: expected whole numbers or names in one row, got int64 (10, 1)"),
        ({"subject": np.zeros(10, int)}, "expected subjects for each split, got none of 1 for "),
        ({"subject": np.array([None] * 10)}, "subject: holds pickled objects, which are never loaded; names"),
        ({"values": np.array([None] * 10)}, "values: holds pickled objects, which are never loaded; a list"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_wrong_arrays(fails, tmp_path, changed, message):
    subjects_file(tmp_path / "watch.npz", **changed)
    assert message.replace("\\", "") in fails(main, "features", tmp_path / "watch.npz", tmp_path / "dest")
    assert [path.name for path in tmp_path.iterdir()] == ["watch.npz"]


def test_damaged_files(capsys, tmp_path):
    """Give one clear error and nothing is written, or are read as what they were."""
    arrays, rng, made = subjects_file(tmp_path / "watch.npz"), random.Random(1), 0
    original = (tmp_path / "watch.npz").read_bytes()
    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "watch.npz").write_bytes(damaged(original, rng))
        code = main(["features", str(folder / "watch.npz"), str(folder / "dest")])
        error = capsys.readouterr().err
        if code == 0:
            made += 1
            stored = np.concatenate(read(folder / "dest")[1])
            np.testing.assert_array_equal(stored, arrays["values"].astype(np.float32))
        else:
            assert code == 2 and error.count("\n") == 1 and f"error: {folder}/watch.npz: " in error, error
            assert [path.name for path in folder.iterdir()] == ["watch.npz"]
    assert 0 < made < 60


@pytest.mark.parametrize(
    "options, message",
    [
        (
            ("--held-out-subjects", "fritz"),
            "--held-out-subjects: expected some of anna, bert, cleo, dora, emil, each once",
        ),
        (
            ("--held-out-subjects", "anna", "--valid-subjects", "anna"),
            "error: --valid-subjects: expected some of anna,",
        ),
        (("--held-out-subjects", *SUBJECTS), "expected subjects for each split, got none of 5 for train"),
        (("--valid-fraction", "0.01"), "expected subjects for each split, got none of 5 for valid"),
        (("--valid-fraction", "1"), "--valid-fraction: expected a fraction between 0 and 1, got 1.0"),
        (("--held-out-fraction", "nan"), "--held-out-fraction: expected a fraction between 0 and 1, got nan"),
        (("--seed", "-1"), "--seed: expected an integer of at least 0, got -1"),
        (("--classes", "c.txt"), "--annotations, --classes: expected both, of Charades"),
        (("--classes", "c.txt", "--seed", "1"), "--seed: is only for an .npz, .csv or .tsv file, got "),
    ],
    ids=str,
)
def test_wrong_options(fails, tmp_path, options, message):
    subjects_file(tmp_path / "watch.npz")
    assert message in fails(main, "features", tmp_path / "watch.npz", tmp_path / "dest", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["watch.npz"]


def test_wrong_folders(fails, tmp_path, source):
    dest = tmp_path / "dest"
    assert f"{tmp_path}/no: no such file or folder" in fails(main, "features", tmp_path / "no", dest)
    assert "--seed: is only for an .npz, .csv or .tsv file, got" in fails(main, "features", source, dest, "--seed", 1)
    array = np.load(source / "valid0.npy")
    np.save(source / "valid0.npy", array * np.nan)
    assert "sequence 'valid0': expected finite numbers" in fails(main, "features", source, dest)
    np.save(source / "valid0.npy", array.astype(bool))
    assert f"{source}/valid0.npy: expected integers, float16, float32" in fails(main, "features", source, dest)
    np.save(source / "valid0.npy", array)
    manifest = source / "manifest.tsv"
    text = manifest.read_text()
    for changed, message in (
        (text.replace("label", "class", 1), "manifest.tsv:1: expected a column 'label' or 'annotations', got neither"),
        (text.replace("\ttest\tup", "\ttest\tleft"), "expected a label of the 2 classes (down, up), got 'left'"),
        (text.replace("\tdown", "\tup"), "source: expected at least two classes, got ['up']"),
        (
            text.replace("\tdown", "\tdo\vwn"),
            "manifest.tsv:2: expected a label without tabs and line breaks, got 'do\\x0b",
        ),
        (
            text.replace("\ttrain\t", "\tdev\t"),
            "manifest.tsv: expected sequences of split train, got only dev, test, valid",
        ),
    ):
        manifest.write_text(changed)
        assert message in fails(main, "features", source, dest)
    (source / "classes.txt").write_text("down \n\tup\n")
    assert "expected sequences of split 'train', got none" in fails(main, "features", source, dest)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_replaces_only_when_told(prints, fails, tmp_path, source):
    prints(main, "features", source, tmp_path / "dest")
    assert "dest: already exists; --overwrite replaces it" in fails(main, "features", source, tmp_path / "dest")
    prints(main, "features", source, tmp_path / "dest", "--overwrite", "--dtype", "float16")
    assert read(tmp_path / "dest")[1][0].dtype == np.float16
    shutil.rmtree(source)
    assert "no such file or folder" in fails(main, "features", source, tmp_path / "dest", "--overwrite")
    assert len(list((tmp_path / "dest").iterdir())) == 5
