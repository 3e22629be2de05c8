"""``skiprnn-prepare features`` of data as people have them: arrays without subjects, tables, other manifests."""

import json

import numpy as np
import pytest

from skiprnn_plugin.cli.prepare import main
from skiprnn_plugin.data.features import FeatureStore, read_items
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.prepare.splits import Division, divide_classes

from ..command_line import train
from ..tiny_features import LABELS, WIDTH, sequences, write_features

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2, 3]
ARRAYS = [np.random.default_rng(steps).normal(size=(steps, 2)) for steps in LENGTHS]
NAMES = np.array(["run", "sit"] * 6)


def read(folder):
    """The items, their arrays, and their labels by split."""
    items = read_items(folder, ("label",))
    store = FeatureStore(folder, items)
    splits = {split: [item.label for item in items if item.split == split] for split in ("train", "valid", "test")}
    return items, [np.array(store.view(position)) for position in range(len(items))], splits


def padded(value):
    array = np.full((12, 10, 2), value)
    for row, sequence in zip(array, ARRAYS):
        row[: len(sequence)] = sequence
    return array


@pytest.mark.parametrize(
    "save",
    [
        lambda path: np.savez(path, *ARRAYS, labels=NAMES),
        lambda path: np.savez(path, values=np.concatenate(ARRAYS), lengths=LENGTHS, labels=NAMES),
        lambda path: np.savez(path, values=padded(np.nan), lengths=LENGTHS, labels=NAMES),
    ],
    ids=["list", "one-after-the-other", "padded"],
)
def test_arrays_without_subjects(prints, tmp_path, save):
    """Every split gets the same mixture of classes, drawn by the seed."""
    save(tmp_path / "own.npz")
    splits = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        prints(main, "features", tmp_path / "own.npz", tmp_path / name, "--seed", seed)
        items, stored, labels = read(tmp_path / name)
        for array, expected in zip(stored, ARRAYS):
            np.testing.assert_array_equal(array, expected.astype(np.float32))
        assert [item.label for item in items] == NAMES.tolist()
        assert {split: sorted(found) for split, found in labels.items()} == {
            "train": ["run"] * 4 + ["sit"] * 4,
            "valid": ["run", "sit"],
            "test": ["run", "sit"],
        }
        splits.append([item.split for item in items])
    assert splits[0] == splits[1] != splits[2]


def test_whole_numbers_of_one_feature(prints, tmp_path):
    """As of a sensor, in sequences of the same length, or in a list of rows."""
    values = np.random.default_rng(0).integers(-9, 9, (12, 7)).astype(np.int16)
    np.savez(tmp_path / "list.npz", *values, labels=NAMES)
    np.savez(tmp_path / "block.npz", values=values[:, :, None], labels=NAMES)
    np.savez(tmp_path / "rows.npz", values=values, labels=NAMES)
    np.savez(tmp_path / "padded.npz", values=np.pad(values, ((0, 0), (0, 2))), lengths=[7] * 12, labels=NAMES)
    for name in ("list", "block", "rows", "padded"):
        prints(main, "features", tmp_path / f"{name}.npz", tmp_path / name)
        np.testing.assert_array_equal(np.stack(read(tmp_path / name)[1]), values[:, :, None])


def test_sequences_of_one_step(prints, tmp_path):
    """As many steps as sequences: the numbers of a row are features all the same, as there are lengths."""
    values = np.random.default_rng(0).normal(size=(12, 2))
    np.savez(tmp_path / "own.npz", values=values, lengths=[1] * 12, labels=NAMES)
    prints(main, "features", tmp_path / "own.npz", tmp_path / "dest", "--dtype", "float64")
    np.testing.assert_array_equal(np.stack(read(tmp_path / "dest")[1]), values[:, None])


@pytest.mark.parametrize("dtype", [bool, np.float32])
def test_labels_and_subjects_that_are_whole_numbers(prints, tmp_path, dtype):
    numbers = np.arange(12) % 2
    subjects = np.repeat([3, 7, 9], 4).astype(np.float64)
    np.savez(tmp_path / "own.npz", *ARRAYS, labels=numbers.astype(dtype), subject=subjects)
    prints(main, "features", tmp_path / "own.npz", tmp_path / "dest", "--held-out-subjects", 7, "--valid-subjects", 3)
    items = read(tmp_path / "dest")[0]
    assert [item.label for item in items] == list(map(str, numbers))
    assert [item.split for item in items] == ["valid"] * 4 + ["test"] * 4 + ["train"] * 4


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"arr_0": ARRAYS[0], "arr_2": ARRAYS[2]}, "expected arrays arr_0 to arr_1, got no arr_1"),
        ({"arr_0": ARRAYS[0], "arr_1": np.ones((3, 4))}, "arr_1: expected 2 features, as arr_0 has, got 4"),
        ({"arr_0": np.array(ARRAYS[:2], object)}, "arr_0: holds pickled objects, which are never loaded"),
        ({"arr_0": np.ones((3, 2, 2))}, "arr_0: expected numbers [T, D], got float64 (3, 2, 2)"),
        ({"arr_0": ARRAYS[0]}, "labels: expected one for each of the 1 sequences, got 12"),
        (
            {"arr_0": ARRAYS[0], "labels": np.array(["up"], object)},
            "labels: holds pickled objects, which are never loaded; names go in as labels=numpy.array(names, dtype=str",
        ),
        (
            {"arr_0": ARRAYS[0], "labels": np.array([0.5, np.nan])},
            "labels: expected finite numbers to predict, [N] or [N, outputs], got float64 (2,) with NaN or infinity",
        ),
        (
            {"arr_0": ARRAYS[0], "arr_1": ARRAYS[0], "labels": np.array([1, np.nan])},
            "labels[1]: expected a whole number or a name, got nan, a missing value",
        ),
        (
            {"arr_0": ARRAYS[0], "arr_1": ARRAYS[0], "labels": np.array(["up", np.nan])},
            "labels[1]: expected a whole number or a name, got nan, a missing value",
        ),
        (
            {"arr_0": ARRAYS[0], "labels": np.array([[1, 2]])},
            "in one row, got int64 (1, 2); --regression predicts several numbers",
        ),
    ],
    ids=[
        "gap",
        "width",
        "objects",
        "3-D",
        "number of labels",
        "objects as labels",
        "fraction",
        "nan",
        "nan as text",
        "outputs",
    ],
)
def test_wrong_lists(fails, tmp_path, arrays, message):
    np.savez(tmp_path / "own.npz", **{"labels": NAMES, **arrays})
    assert message in fails(main, "features", tmp_path / "own.npz", tmp_path / "dest")
    assert [path.name for path in tmp_path.iterdir()] == ["own.npz"]


def test_too_few_sequences_and_subjects_that_are_missing(fails, tmp_path):
    np.savez(tmp_path / "own.npz", *ARRAYS[:2], labels=NAMES[:2])
    dest = tmp_path / "dest"
    message = fails(main, "features", tmp_path / "own.npz", dest)
    assert "own.npz: expected sequences for each split, got none of 2 for " in message
    message = fails(main, "features", tmp_path / "own.npz", dest, "--valid-subjects", "anna")
    assert "error: --valid-subjects: the sequences have no subjects, got anna" in message
    (tmp_path / "empty.npz").write_bytes(b"")
    assert "empty.npz: can't be read as a .npz file (" in fails(main, "features", tmp_path / "empty.npz", dest)
    np.save(tmp_path / "one.npy", ARRAYS[0])
    message = fails(main, "features", tmp_path / "one.npy", dest)
    assert "one.npy: expected a folder, or a file .npz, .csv, .tsv" in message
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    message = fails(main, "features", tmp_path / "one.npz", dest)
    assert "one.npz: can't be read as a .npz file (it holds a single array)" in message


def write_table(path, delimiter=",", decimal=".", header=("sequence", "label", "x", "y"), more=lambda number: ()):
    """A line for each step, those of two sequences interleaved."""
    lines = [delimiter.join(header)]
    for pair in range(0, 12, 2):
        for step in range(10):
            for number in (pair, pair + 1):
                if step < LENGTHS[number]:
                    numbers = [f"{value:.4f}".replace(".", decimal) for value in ARRAYS[number][step]]
                    lines.append(delimiter.join([f"s{number}", NAMES[number], *more(number), *numbers]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")


@pytest.mark.parametrize(
    "numbers, is_refused",
    [
        (["998", "999", "1,000", "-1,001"], True),
        (["998", "0,5", "1,000"], False),
        (["998", "1000", "1,001"], False),
        (["3,301", "3,000", "99"], False),
    ],
)
def test_separated_thousands_are_no_decimals(prints, fails, tmp_path, numbers, is_refused):
    """In a column; that another column has whole numbers says nothing."""
    rows = [f"{label}{place}\t{label}\t{number}\t500" for label in "ab" for place in range(6) for number in numbers]
    (tmp_path / "own.tsv").write_text("\n".join(["sequence\tlabel\tx\tcount", *rows]))
    arguments = ("features", tmp_path / "own.tsv", tmp_path / "dest")
    if is_refused:
        message = "own.tsv: line 4: expected decimal commas, got '1,000' beside '998' in one column"
        assert message in fails(main, *arguments)
    else:
        prints(main, *arguments)


@pytest.mark.parametrize("delimiter, decimal", [(",", "."), (";", "."), (";", ","), ("\t", ",")], ids=repr)
def test_tables(prints, tmp_path, delimiter, decimal):
    source = tmp_path / ("own.tsv" if delimiter == "\t" else "own.csv")
    write_table(source, delimiter, decimal)
    prints(main, "features", source, tmp_path / "dest")
    items, stored, labels = read(tmp_path / "dest")
    assert {item.name: item.label for item in items} == {f"s{i}": name for i, name in enumerate(NAMES)}
    for item, array in zip(items, stored):
        np.testing.assert_allclose(array, ARRAYS[int(item.name[1:])], atol=1e-4)
    assert {split: len(found) for split, found in labels.items()} == {"train": 8, "valid": 2, "test": 2}


def test_names_in_quotation_marks_may_hold_what_separates_columns(prints, fails, tmp_path):
    lines = [f"s{n}, {n % 2}, {n}, {step}" for n in range(8) for step in range(2)]
    (tmp_path / "own.csv").write_text("\n".join(['sequence, label, "x, of\nall", "a;b;c;d;e"', *lines]))
    prints(main, "features", tmp_path / "own.csv", tmp_path / "data")
    assert json.loads((tmp_path / "data/prepare.json").read_text())["feature_names"] == ["x, of\nall", "a;b;c;d;e"]
    with open(tmp_path / "own.csv", "a") as file:
        file.write("\ns9,0,up,1\n")
    message = fails(main, "features", tmp_path / "own.csv", tmp_path / "no")
    assert "own.csv:19: column 'x, of\\nall': expected a number, got 'up'" in message


def test_tables_with_other_columns(prints, tmp_path):
    """Subjects, or splits, decide; other names and columns that are no features are told by options."""
    names = ("id", "activity", "subject", "time", "x", "y")
    write_table(tmp_path / "own.csv", header=names, more=lambda number: (str(number % 5), "12:00"))
    options = ("--sequence-column", "id", "--label-column", "activity", "--ignore-columns", "time")
    chosen = ("--held-out-subjects", 3, "--valid-subjects", 1)
    prints(main, "features", tmp_path / "own.csv", tmp_path / "dest", *options, *chosen)
    items, stored, _ = read(tmp_path / "dest")
    expected = {"3": "test", "1": "valid"}
    assert all(item.split == expected.get(item.fields["subject"], "train") for item in items)
    assert stored[0].shape[1] == 2
    splits = ("train", "train", "valid")
    header = ("sequence", "label", "split", "x", "y")
    write_table(tmp_path / "own.csv", header=header, more=lambda number: (splits[number % 3],))
    prints(main, "features", tmp_path / "own.csv", tmp_path / "other")
    assert all(item.split == splits[int(item.name[1:]) % 3] for item in read(tmp_path / "other")[0])


@pytest.mark.parametrize(
    "text, options, message",
    [
        (
            "sequence,x\na,1",
            (),
            "own.csv:1: expected a column 'label', got columns sequence, x; --label-column names another",
        ),
        (
            "id,label,x\na,up,1",
            (),
            "expected a column 'sequence', got columns id, label, x; --sequence-column names another",
        ),
        ("sequence,label\na,up", (), "own.csv:1: expected columns of features, got only sequence, label"),
        ("sequence,label,x", (), "own.csv: expected a line for each step, got none"),
        ("", (), "own.csv:1: expected the names of the columns, got an empty line"),
        ("\nsequence,label,x\na,up,1", (), "own.csv:1: expected the names of the columns, got an empty line"),
        ("sequence,label,x\na,up,1,5", (), "own.csv:2: expected 3 columns, as the header has, got 4"),
        ("sequence,label,x\na,up,1_0", (), "own.csv:2: column 'x': expected a number, got '1_0'"),
        ("sequence;label;x\na;up;1.000,5", (), "own.csv:2: column 'x': expected a number, got '1.000,5'"),
        (
            "sequence;label;x;y\na;up;1;2\na;up;999.5;1,234",
            (),
            "own.csv:3: column 'y': expected a decimal '.', as in line 3, got '1,234'",
        ),
        (
            "sequence\tlabel\tx\na\tup\t1,5\na\tup\t1.5",
            (),
            "own.csv:3: column 'x': expected a decimal ',', as in line 2, got '1.5'",
        ),
        ("sequence,label,x\na,up,", (), "own.csv:2: column 'x': expected a number, got ''"),
        (
            "sequence,label,x\na,up,1\na,down,1",
            (),
            "own.csv:3: sequence 'a': expected label 'up', as in line 2, got 'down'",
        ),
        *(
            (
                f"sequence,label,{column},x\na,up,{first},1\na,up,{second},1",
                (),
                f"own.csv:3: sequence 'a': expected {column} '{first}', as in line 2, got '{second}'",
            )
            for column, first, second in (("split", "train", "valid"), ("subject", "anna", "bert"))
        ),
        ("sequence;label;x\na;0,5;1\nb;0.5;1", (), "own.csv: label: expected decimal points or decimal commas, got"),
        ("sequence,label,x\n../a,up,1", (), "own.csv:2: expected a sequence's name"),
        ("sequence,label,x\na,up,1", (), "own.csv: expected sequences for each split, got none of 1 for "),
        ("sequence,label,x", ("--ignore-columns", "time"), "own.csv:1: expected a column 'time', got columns"),
        ("sequence,label,x", ("--seed", -1), "--seed: expected an integer of at least 0, got -1"),
        (
            ",sequence,label,x\n0,a,up,1",
            (),
            "own.csv:1: expected a name for each column, got none for column 1 (the numbers of a table's rows, "
            'perhaps); --ignore-columns "" leaves it out',
        ),
        ("sequence,label,x,x", (), "own.csv:1: expected a column 'x', got 2 of them; --ignore-columns x leaves them"),
        ("label,sequence,label,x", (), "own.csv:1: expected a column 'label', got 2 of them"),
        (
            "sequence,label,split,x\na,up,train,1",
            ("--valid-fraction", 0.5),
            "error: --valid-fraction: expected no column 'split' in ",
        ),
        (
            "sequence,label,x",
            ("--ignore-columns", "label"),
            "--ignore-columns: expected columns besides the sequence's and the label's, got 'label'",
        ),
        *(
            (
                f"sequence,label,subject,x\n{first},1\n{second},1",
                (),
                f"own.csv:3: expected each {what} written in one way, got '1.0' and '1'",
            )
            for what, first, second in (
                ("sequence", "1,up,anna", "1.0,up,anna"),
                ("label", "a,1,anna", "b,1.0,anna"),
                ("subject", "a,up,1", "b,up,1.0"),
            )
        ),
        (
            "sequence,label,x\na,0.5,1\nb,0.50,1",
            ("--no-regression",),
            "own.csv:3: expected each label written in one way, got '0.50' and '0.5'",
        ),
        ("sequence,label,x\na,up,1\nb,NaN,1", (), "own.csv:3: label: expected a class, got 'NaN', a missing value"),
        (
            "sequence,label,split,x\na,up,train,1e200\nb,up,valid,1\nc,down,train,1",
            ("--dtype", "float64"),
            "sequence 'a': expected finite numbers up to 1e+150, got 1e+200",
        ),
        ("sequence,label,x\n1_0,up,1\n10,up,1\n1e1,down,1", (), "own.csv: expected sequences for each split, got none"),
    ],
)
def test_wrong_tables(fails, tmp_path, text, options, message):
    (tmp_path / "own.csv").write_text(text)
    assert message in fails(main, "features", tmp_path / "own.csv", tmp_path / "dest", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["own.csv"]


@pytest.mark.parametrize("column", ["sequence", "subject"])
def test_names_with_a_point_are_not_numbers(prints, tmp_path, column):
    """As of a subject and a trial."""
    names = ["1.1", "1.10", "2.1", "2.10", "10.1", "1.100"]
    lines = [f"{name},{name if column == 'subject' else n % 3},{n % 2},{n}" for n, name in enumerate(names)]
    (tmp_path / "own.csv").write_text("\n".join(["sequence,subject,label,x", *lines]))
    prints(main, "features", tmp_path / "own.csv", tmp_path / "dest", "--seed", 3)
    assert [item.fields[column] for item in read(tmp_path / "dest")[0]] == names


def test_a_column_of_splits_decides_unless_it_is_left_out(prints, capsys, tmp_path):
    """The record has the options that decided, and subjects in several splits are reported."""
    header = ("sequence", "label", "split", "subject", "x", "y")
    splits = ("train", "train", "valid")
    write_table(tmp_path / "own.csv", header=header, more=lambda number: (splits[number % 3], str(number % 5)))
    options = [str(tmp_path / "own.csv"), str(tmp_path / "given")]
    assert main(["features", *options]) == 0
    message = "own.csv: warning: 4 of 5 subjects are in several splits, such as '0' in train and valid\n"
    assert capsys.readouterr().err.endswith(message)
    prints(main, "features", tmp_path / "own.csv", tmp_path / "drawn", "--ignore-columns", "split", "--seed", 5)
    records = [json.loads((tmp_path / name / "prepare.json").read_text()) for name in ("given", "drawn")]
    assert [list(record["splits"]) for record in records] == [["train", "valid"], ["train", "valid", "test"]]
    assert "seed" not in records[0] and records[1]["seed"] == 5
    items = read(tmp_path / "drawn")[0]
    assert len({(item.fields["subject"], item.split) for item in items}) == 5
    ignored = ("--ignore-columns", "split", "subject", "--seed", 1)
    prints(main, "features", tmp_path / "own.csv", tmp_path / "neither", *ignored)
    items = read(tmp_path / "neither")[0]
    assert "subject" not in items[0].fields and [item.split for item in items].count("test") == 2


def test_the_numbers_of_rows_can_be_left_out(prints, tmp_path):
    """As tables have them that pandas has written; what is a feature is told."""
    write_table(tmp_path / "own.csv", header=("sequence", "label", "", "x", "y"), more=lambda number: ("7",))
    text = prints(main, "features", tmp_path / "own.csv", tmp_path / "dest", "--ignore-columns", "")
    assert text.endswith("; 2 features (x, y)\n") and read(tmp_path / "dest")[1][0].shape[1] == 2
    assert json.loads((tmp_path / "dest/prepare.json").read_text())["feature_names"] == ["x", "y"]


@pytest.mark.parametrize(
    "sizes, fractions",
    [
        ((10, 2), {"valid": 0.8}),
        ((3, 3), {"test": 0.4, "valid": 0.5}),
        ((5, 4), {"test": 0.9, "valid": 0.05}),
        ((2, 1), {"test": 0.8, "valid": 0.8}),
    ],
)
def test_every_class_is_in_every_split_that_it_suffices_for(sizes, fractions):
    labels = np.repeat([0, 1], sizes)
    splits = np.array(divide_classes(labels.tolist(), fractions, 0))
    for label, size in enumerate(sizes):
        found = set(splits[labels == label])
        assert "train" in found and (found == {"train", *fractions} or size <= len(fractions))


@pytest.mark.parametrize("subjects", [None, list("abcdefghij")], ids=["sequences", "subjects"])
def test_fractions_are_rounded_to_the_nearest_number(subjects):
    splits = Division(None, None, 0.28, 0.22, 0)(["up"] * 10, subjects)
    assert [splits.count(split) for split in ("test", "valid", "train")] == [3, 2, 5]


def test_many_classes_are_divided_in_the_time_of_few():
    """No class looks through the sequences of all others, which would take seconds."""

    class Counted(int):
        compared = 0
        __hash__ = int.__hash__

        def __eq__(self, other):
            Counted.compared += 1
            return int(self) == int(other)

    labels = [Counted(number // 3) for number in range(600)]
    splits = divide_classes(labels, {"test": 0.2, "valid": 0.2}, 0)
    assert all({*splits[start : start + 3]} == {"train", "test", "valid"} for start in range(0, 600, 3))
    assert Counted.compared < 10 * len(labels)


def test_a_class_that_train_lacks_is_refused(fails, tmp_path):
    """Where subjects decide, or a column."""
    np.savez(tmp_path / "own.npz", *ARRAYS, labels=NAMES, subject=np.array(["a", "b", "a", "c"] * 3))
    dest, chosen = tmp_path / "dest", ("--held-out-subjects", "b", "--valid-subjects", "c")
    message = "expected sequences of every class in split train, got class 'sit' only in "
    assert f"own.npz: {message}test" in fails(main, "features", tmp_path / "own.npz", dest, *chosen)
    header = ("sequence", "label", "split", "x", "y")
    write_table(tmp_path / "own.csv", header=header, more=lambda number: (("train", "valid")[number % 2],))
    assert f"own.csv: {message}valid" in fails(main, "features", tmp_path / "own.csv", dest)
    assert not dest.exists()


def test_options_of_tables_are_for_tables(fails, tmp_path):
    np.savez(tmp_path / "own.npz", *ARRAYS, labels=NAMES)
    message = fails(main, "features", tmp_path / "own.npz", tmp_path / "dest", "--label-column", "x")
    assert "--label-column: is only for a .csv or .tsv file, got " in message


@pytest.mark.parametrize("changed", ["values", "width", "nothing"])
def test_an_interrupted_run_of_a_file_that_has_changed(prints, tmp_path, monkeypatch, changed):
    """It starts again from the first sequence, where the names, labels and lengths are those of before."""
    np.savez(tmp_path / "own.npz", *ARRAYS, labels=NAMES)
    arguments = ("features", tmp_path / "own.npz", tmp_path / "dest")
    read_before = []

    def interrupted(array, dtype):
        if len(read_before) == 4:
            raise KeyboardInterrupt
        read_before.append(array)
        return array.astype(dtype)

    with monkeypatch.context() as patch:
        patch.setattr("skiprnn_plugin.prepare.write_features.as_finite", interrupted)
        assert main(list(map(str, arguments))) == 130 and not (tmp_path / "dest").exists()
    arrays = {"values": [-array for array in ARRAYS], "width": [array[:, :1] for array in ARRAYS], "nothing": ARRAYS}
    if changed != "nothing":
        np.savez(tmp_path / "own.npz", *arrays[changed], labels=NAMES)
    read_after = []
    monkeypatch.setattr(
        "skiprnn_plugin.prepare.write_features.as_finite",
        lambda array, dtype: read_after.append(array) or array.astype(dtype),
    )
    prints(main, *arguments)
    assert len(read_after) == (8 if changed == "nothing" else 12)
    for array, expected in zip(read(tmp_path / "dest")[1], arrays[changed]):
        np.testing.assert_array_equal(array, expected.astype(np.float32))


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_other_manifests(prints, fails, tmp_path, delimiter):
    """A manifest.csv, without the steps, and with the files' whole names; for training too."""
    folder = write_features(tmp_path / "own")
    (folder / "manifest.tsv").unlink()
    lines = [("split", "label", "sequence"), *((split, label, f"{name}.npy") for name, split, label, _ in sequences())]
    text = "\n".join(delimiter.join(f'"{value}"' for value in line) for line in lines)
    (folder / "manifest.csv").write_text(text, encoding="utf-8-sig")
    prints(main, "features", folder, tmp_path / "dest")
    items, stored, _ = read(tmp_path / "dest")
    for item, array, (name, split, label, expected) in zip(items, stored, sequences()):
        assert (item.name, item.steps, item.split, item.label) == (name, len(expected), split, label)
        np.testing.assert_array_equal(array, expected)
    if delimiter == ",":
        train(tmp_path / "run", "--data-dir", folder, "--max-update", 1, task="feature_classification")
        hub = from_pretrained(tmp_path / "run")
        assert hub.class_names == LABELS and hub.task.input_size == WIDTH
    (folder / "manifest.tsv").write_text(text)
    message = f"{folder}: expected manifest.tsv or manifest.csv, got both"
    assert message in fails(main, "features", folder, tmp_path / "other")


def test_one_file_of_all_sequences_needs_the_steps(fails, tmp_path):
    folder = write_features(tmp_path / "own")
    np.save(folder / "features.npy", np.concatenate([array for *_, array in sequences()]))
    rows = [line.split("\t") for line in (folder / "manifest.tsv").read_text().splitlines()]
    place = rows[0].index("steps")
    (folder / "manifest.tsv").write_text("\n".join("\t".join(row[:place] + row[place + 1 :]) for row in rows))
    message = fails(main, "features", folder, tmp_path / "dest")
    assert "manifest.tsv:1: expected a column 'steps', got columns" in message


@pytest.mark.parametrize("dtype, is_rough", [("float32", True), ("float64", False)])
def test_says_which_features_the_dtype_rounds(prints, tmp_path, dtype, is_rough):
    """Such as Unix times; others are small, or have no fractions."""
    lines = [f"{n},{n % 2},{1.7e9 + n},{n / 7},{1e6 + n}" for n in range(20)]
    (tmp_path / "own.csv").write_text("\n".join(["sequence,label,time,x,count", *lines]))
    printed = prints(main, "features", tmp_path / "own.csv", tmp_path / "dest", "--dtype", dtype)
    warning = (
        "; float32 rounds features time by more than 1% of their standard deviation: give a wider --dtype, such as "
    )
    assert (warning in printed) == is_rough
