"""Stored features: a folder is read piece by piece, and damaged folders are refused."""

import pickle
import random
import shutil
import tracemalloc

import numpy as np
import pytest
from torch.utils.data import DataLoader

from skiprnn_plugin.data.features import FeatureDataset, FeatureStore, Frames, Statistics, read_statistics
from skiprnn_plugin.data.fit import Fit
from skiprnn_plugin.data.manifest import (
    Annotation,
    check_labels,
    find_labels,
    parse_annotations,
    read_classes,
    read_manifest,
)

from ..tiny_features import LABELS, WIDTH, sequences, write_features
from ..tiny_texts import damaged

AS_THEY_ARE = Frames(Fit(None))


@pytest.fixture(scope="module", params=[False, True], ids=["files", "joint"])
def original(request, tmp_path_factory):
    return write_features(tmp_path_factory.mktemp("features") / "data", joint=request.param)


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original, tmp_path / "data")


def make_dataset(folder, frames=AS_THEY_ARE, split=None):
    items = read_manifest(folder, ("label",))
    positions = [index for index, item in enumerate(items) if split in (None, item.split)]
    check_labels(folder, items, LABELS)
    store = FeatureStore(folder, items)
    store.check(positions)
    targets = [LABELS.index(items[position].label) for position in positions]
    return FeatureDataset(store, frames, positions, targets, key=(1,), fixed=True)


def rewrite(folder, change):
    path = folder / "manifest.tsv"
    path.write_text(change(path.read_text()))


def test_reads_what_is_stored(original):
    dataset = make_dataset(original)
    assert dataset.store.width == WIDTH and len(dataset) == len(sequences())
    for index, (name, split, label, array) in enumerate(sequences()):
        sample = dataset[index]
        assert sample["x"].dtype == np.float32 and LABELS[sample["target"]] == label
        np.testing.assert_array_equal(sample["x"], array)
        assert (dataset.items[index].name, dataset.items[index].split, dataset.size(index)) == (name, split, len(array))
    valid = make_dataset(original, split="valid")
    np.testing.assert_array_equal(valid[0]["x"], sequences()[24][3])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_other_floats(folder, dtype):
    for path in folder.glob("*.npy"):
        np.save(path, np.load(path).astype(dtype))
    dataset = make_dataset(folder)
    for index, (*_, array) in enumerate(sequences()):
        x = dataset[index]["x"]
        assert x.dtype == np.float32 and x.dtype.isnative
        np.testing.assert_array_equal(x, array.astype(dtype).astype(np.float32))


def test_columns_in_any_order_and_others_besides(folder):
    expected = make_dataset(folder).items

    def change(text):
        rows = [line.split("\t") for line in text.splitlines()]
        lines = ["\t".join([rows[0][3], "note", rows[0][1], rows[0][2], rows[0][0]])]
        lines += ["\t".join([label, "of mine", steps, f" {split}", name]) for name, steps, split, label in rows[1:]]
        return "\ufeff" + "\r\n".join([*lines, "", ""])

    rewrite(folder, change)
    items = make_dataset(folder).items
    assert [item[:4] for item in items] == [item[:4] for item in expected]
    assert items[0].fields["note"] == "of mine" and items[0].line == 2


def test_annotations():
    text = "c092 11.90 21.20;c147 0.00 12.60; c001 5 3;"
    expected = (Annotation("c092", 11.9, 21.2), Annotation("c147", 0, 12.6), Annotation("c001", 5, 3))
    assert parse_annotations(text) == expected and parse_annotations("") == ()


def test_classes(folder):
    assert find_labels(read_manifest(folder, ("label",)), "train") == LABELS
    (folder / "classes.txt").write_text("up\ndown\n\nwest\n")
    assert read_classes(folder) == ["up", "down", "west"]
    (folder / "classes.txt").write_text(" up\ndown \r\nwest\u00a0\n")
    assert read_classes(folder) == ["up", "down", "west"]
    (folder / "classes.txt").write_text("up\nup \n")
    with pytest.raises(ValueError, match="classes.txt:2: class 'up' is in line 1 too"):
        read_classes(folder)
    (folder / "classes.txt").write_text("\n")
    with pytest.raises(ValueError, match="classes.txt: expected a class on each line, got none"):
        read_classes(folder)


def test_normalises_and_then_pads(original):
    mean, std = np.array([1.0, 2, 3]), np.array([2.0, 0, 1])
    dataset = make_dataset(original, Frames(Fit(12), Statistics(mean, std)))
    for index, (*_, array) in enumerate(sequences()):
        x = dataset[index]["x"]
        assert x.shape == (12, WIDTH) and x.dtype == np.float32 and (x[len(array) :] == 0).all()
        np.testing.assert_allclose(x[: len(array)], (array - mean) / [2, 1, 1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding, steps", [("data", [5, 5]), ("masked", [2, 5])])
def test_batches(tmp_path, padding, steps):
    """With padding as data, padding counts as steps; with masked padding, sequences differ in length."""
    arrays = [np.ones((2, 1), np.float32), np.arange(7, dtype=np.float32)[:, None]]
    np.save(tmp_path / "features.npy", np.concatenate(arrays))
    (tmp_path / "manifest.tsv").write_text("sequence\tsteps\tsplit\tlabel\na\t2\ttrain\tup\nb\t7\ttrain\tdown\n")
    dataset = make_dataset(tmp_path, Frames(Fit(5, "tail", padding=padding)))
    assert dataset.sizes.tolist() == steps
    batch = dataset.collater([dataset[0], dataset[1]])
    assert batch["net_input"]["x"][:, :, 0].tolist() == [[1, 1, 0, 0, 0], [2, 3, 4, 5, 6]]
    assert batch["net_input"].get("lengths", np.array([5, 5])).tolist() == steps and batch["ntokens"] == sum(steps)
    assert batch["target"].tolist() == [1, 0]


def test_statistics(tmp_path):
    np.savez(tmp_path / "statistics.npz", mean=np.float32([1, 2]), std=np.float32([3, 0]))
    mean, std = read_statistics(tmp_path)
    assert (mean.tolist(), std.tolist(), mean.dtype) == ([1, 2], [3, 0], np.float64)


@pytest.mark.parametrize(
    "arrays, message",
    [
        (None, "no such file; skiprnn-prepare features makes it"),
        ({"mean": [0.0]}, "can't be read as arrays mean and std"),
        ({"mean": [0.0], "std": [1.0, 1.0]}, r"expected finite mean and std, .* got \(1,\) and \(2,\)"),
        ({"mean": [0.0], "std": [-1.0]}, "expected finite mean and std, at least 0"),
        ({"mean": [np.nan], "std": [1.0]}, "expected finite mean and std, at least 0"),
        ({"mean": np.array([None]), "std": [1.0]}, "can't be read as arrays mean and std"),
    ],
    ids=str,
)
def test_wrong_statistics(tmp_path, arrays, message):
    if arrays is not None:
        np.savez(tmp_path / "statistics.npz", **arrays)
    with pytest.raises(ValueError, match=f"statistics.npz: {message}"):
        read_statistics(tmp_path)


def test_nothing_is_loaded_before_it_is_needed(tmp_path):
    """Data workers do not load arrays early either, because they get only paths."""
    steps = 200_000
    array = np.lib.format.open_memmap(tmp_path / "features.npy", "w+", np.float32, (10 * steps, 2))
    array[3 * steps] = 7
    del array
    lines = [f"{name}\t{steps}\ttrain\tup" for name in range(10)]
    (tmp_path / "manifest.tsv").write_text("\n".join(["sequence\tsteps\tsplit\tlabel", *lines]))
    tracemalloc.start()
    dataset = make_dataset(tmp_path, Frames(Fit(1)))
    assert isinstance(dataset.store.joint.base, np.memmap) and dataset[3]["x"].tolist() == [[7, 7]]
    assert tracemalloc.get_traced_memory()[1] < steps
    tracemalloc.stop()
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 10_000 and pickle.loads(pickled)[3]["x"].tolist() == [[7, 7]]
    loader = DataLoader(dataset, 5, collate_fn=dataset.collater, num_workers=2)
    batches = [batch["net_input"]["x"][:, 0, 0].tolist() for batch in loader]
    assert batches == [[0, 0, 0, 7, 0], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: "", ":1: expected the names of the columns, got an empty file$"),
        (lambda text: text.splitlines()[0], ": expected a line for each sequence, got none$"),
        (
            lambda text: text.replace("steps", "size", 1),
            ":1: expected a column 'steps', got columns sequence, size, spl",
        ),
        (lambda text: text.replace("label", "class", 1), ":1: expected a column 'label', got columns sequence, steps"),
        (lambda text: text.replace("label", "split", 1), ":1: expected a column 'split', got two of them$"),
        (lambda text: text.replace("\tdown", "", 1), ":2: expected 4 columns, got 3$"),
        (lambda text: text.replace("\tdown", "\t ", 1), ":2: expected a label, got ''$"),
        (
            lambda text: text.replace("\tdown", "\tleft", 1),
            r":2: expected a label of the 2 classes \(down, up\), got 'l",
        ),
        (lambda text: text.replace("\ttrain", "\t", 1), ":2: expected a split, got ''$"),
        (lambda text: text.replace("train1", "train0", 1), ":3: sequence 'train0' is in line 2 too$"),
        (lambda text: text.replace("train1", "../train1", 1), ":3: expected a sequence's name, .* got '../train1'$"),
        (lambda text: text.replace("train1", "/train1", 1), ":3: expected a sequence's name, .* got '/train1'$"),
        (lambda text: text.replace("train1", "a\0b", 1), r":3: expected a sequence's name, .* got 'a\\x00b'$"),
        *[
            (lambda text, bad=bad: text.replace("\n", f"\na\t{bad}\ttrain\tup\n", 1), f":2: steps: .* got '{bad}'$")
            for bad in ("0", "-1", "1.5", "nan", "many", "", "9" * 20)
        ],
    ],
)
def test_wrong_manifests(folder, change, message):
    rewrite(folder, change)
    with pytest.raises(ValueError, match=f"^{folder}/manifest.tsv{message}"):
        make_dataset(folder)


@pytest.mark.parametrize("text", ["c1", "c1 2", "c1 a b", "c1 0 inf", "c1 0 1 2"])
def test_wrong_annotations(tmp_path, text):
    header = "sequence\tsteps\tsplit\tannotations\tduration\n"
    (tmp_path / "manifest.tsv").write_text(f"{header}a\t1\ttrain\tc0 0 1;{text}\t3\n")
    with pytest.raises(ValueError, match=f"manifest.tsv:2: annotations: expected a class, start .* got '{text}'$"):
        read_manifest(tmp_path, ("annotations", "duration"))
    (tmp_path / "manifest.tsv").write_text(f"{header}a\t1\ttrain\t\t0\n")
    with pytest.raises(ValueError, match="manifest.tsv:2: duration: expected seconds, more than 0, got '0'$"):
        read_manifest(tmp_path, ("annotations", "duration"))


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros((4, 2, 3), np.float32), r"expected an array of steps and features, \[T, D\], got shape \(4, 2, 3\)"),
        (np.float32(4), r"expected an array of steps and features, \[T, D\], got shape \(\)"),
        (np.zeros((4, 0), np.float32), r"expected an array of steps and features, \[T, D\], got shape \(4, 0\)"),
        (np.zeros((4, 3), bool), "expected integers, float16, float32 or float64, got bool"),
        (np.zeros((4, 3), complex), "expected integers, float16, float32 or float64, got complex128"),
        (np.array([["a"]], dtype=object), "can't be read as a numpy array"),
        (b"", "can't be read as a numpy array"),
        (b"\x93NUMPY", "can't be read as a numpy array"),
        (None, "no such file"),
    ],
    ids=str,
)
@pytest.mark.parametrize("joint", [False, True], ids=["files", "joint"])
def test_wrong_arrays(tmp_path, joint, array, message):
    folder = write_features(tmp_path / "data")
    path = folder / ("features.npy" if joint else "train0.npy")
    if array is None:
        path = folder / "train0.npy"
        path.unlink()
    elif isinstance(array, bytes):
        path.write_bytes(array)
    else:
        np.save(path, array, allow_pickle=True)
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        make_dataset(folder)


def test_arrays_that_do_not_fit(folder):
    path = folder / ("features.npy" if (folder / "features.npy").exists() else "valid0.npy")
    array = np.load(path)
    for other in (array[:-1], np.concatenate([array, array[:1]])):
        np.save(path, other)
        with pytest.raises(ValueError, match=f"^{path}: expected .*manifest.tsv"):
            make_dataset(folder)
    np.save(path, array)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"^{path}: can't be read as a numpy array"):
        make_dataset(folder)


def test_another_width(tmp_path):
    folder = write_features(tmp_path / "data")
    np.save(folder / "valid0.npy", np.load(folder / "valid0.npy")[:, :2])
    with pytest.raises(ValueError, match=r"valid0.npy: expected shape \(\d, 3\) \(line 26 of .* got \(\d, 2\)"):
        make_dataset(folder)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite(folder, bad):
    """The error comes when the sequence is read."""
    path = folder / ("features.npy" if (folder / "features.npy").exists() else "train0.npy")
    array = np.load(path).astype(np.float64)
    array[0, 1] = bad
    np.save(path, array)
    dataset = make_dataset(folder)
    dataset[1]
    message = (
        rf"^{path}: sequence 'train0' \(line 2 of manifest.tsv\): expected finite .* got .*\(step 0 of \d, feature 1, "
    )
    with pytest.raises(ValueError, match=message):
        dataset[0]


def test_damaged_folders(original, tmp_path):
    """A damaged folder is read as what its files say, or raises one error that names the file."""
    rng, read = random.Random(1), 0
    expected = {name: (label, array.shape) for name, _, label, array in sequences()}
    for number in range(100):
        folder = shutil.copytree(original, tmp_path / str(number))
        path = folder / "manifest.tsv" if rng.random() < 0.5 else rng.choice(sorted(folder.glob("*.npy")))
        path.write_bytes(damaged(path.read_bytes(), rng))
        try:
            dataset = make_dataset(folder)
            samples = [dataset[index] for index in range(len(dataset))]
        except ValueError as error:
            assert str(error).startswith(str(folder)) and "\n" not in str(error), error
            continue
        read += 1
        for item, sample in zip(dataset.items, samples):
            assert np.isfinite(sample["x"]).all() and sample["x"].shape == (item.steps, WIDTH)
            if path.suffix == ".npy":
                assert (item.label, sample["x"].shape) == expected[item.name]
    assert 0 < read < 100
