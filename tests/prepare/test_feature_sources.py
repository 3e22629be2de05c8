"""A folder of arrays with a manifest as people write it."""

import numpy as np
import pytest

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.data.manifest import read_manifest
from skiprnn_plugin.prepare import csv_source
from skiprnn_plugin.prepare.feature_sources import read_folder
from skiprnn_plugin.prepare.new_folder import new_folder
from skiprnn_plugin.prepare.write_features import Source, write_features


def write_folder(folder, labels, header="sequence,split,label", more=("",)):
    """A folder with a sequence for each label; ``more`` is what each line of the manifest ends with, in turn."""
    lines = [header]
    for number, label in enumerate(labels):
        np.save(folder / f"{number}.npy", np.full((3, 2), number))
        lines.append(f"{number},{('train', 'train', 'valid')[number % 3]},{label}{more[number % len(more)]}")
    (folder / "manifest.csv").write_text("\n".join(lines))
    return folder


NUMBERS = [f"{number / 10 + 0.05:.2f}" for number in range(8)]


@pytest.mark.parametrize(
    "labels, line",
    [([*NUMBERS, "n/a"], 10), (["nan", "0.5", "1.5", "0.5", "1.5"], 2)],
    ids=["other numbers in train and valid", "each number in both"],
)
def test_a_missing_number_is_not_a_class(tmp_path, labels, line):
    message = f"manifest.csv:{line}: label: expected a number to predict, got '{labels[line - 2]}', as the other labels"
    with pytest.raises(ValueError, match=message):
        read_folder(write_folder(tmp_path, labels))
    labels = np.repeat(["0.5", "1.5", "n/a"], 3)
    assert read_folder(write_folder(tmp_path, labels), regression=False).classes == ["0.5", "1.5", "n/a"]


def test_numbers_with_a_decimal_comma_are_not_classes(tmp_path):
    write_folder(tmp_path, ["1", '"0,5"', '"0,5"'])
    message = "manifest.csv:3: label: expected a number with a decimal point, got '0,5'; --no-regression takes"
    with pytest.raises(ValueError, match=message):
        read_folder(tmp_path)
    assert read_folder(tmp_path, regression=False).classes == ["0,5", "1"]


def test_no_sequences_to_train_on(tmp_path):
    manifest = write_folder(tmp_path, ["up", "down", "up"]) / "manifest.csv"
    manifest.write_text(manifest.read_text().replace("train", "Train"))
    with pytest.raises(ValueError, match="manifest.csv: expected sequences of split train, got only Train, valid"):
        read_folder(tmp_path)


def test_nan_is_not_a_class(tmp_path):
    with pytest.raises(ValueError, match="manifest.csv:3: label: expected a class, got 'nan', a missing value"):
        read_folder(write_folder(tmp_path, np.repeat(["up", "nan", "down"], [1, 2, 3])))
    with pytest.raises(ValueError, match="got 'nan', a missing value; a class needs another name"):
        read_folder(tmp_path, regression=False)


def test_numbers_to_predict_that_are_too_large(tmp_path):
    with pytest.raises(ValueError, match=r"manifest.csv:3: label: expected numbers up to 1e\+150, got '2e200'"):
        read_folder(write_folder(tmp_path, ["0.5", "2e200", "1.5"]))


def test_a_folder_without_a_manifest(tmp_path):
    message = f"{tmp_path}: expected a folder with manifest.tsv or manifest.csv, got one with neither"
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_folder(tmp_path)
    (tmp_path / "anna").mkdir()
    for path in (tmp_path / "anna/walk.csv", tmp_path / "walk.CSV"):
        path.touch()
        with pytest.raises(
            ValueError, match=f"^{message}; .csv files must be joined into one, docs/data.md has a prog"
        ):
            read_folder(tmp_path)
        path.unlink()


@pytest.mark.parametrize("labels", [["1", "2", "n/a"], ["a", "b", "0.5"]], ids=["whole", "names"])
def test_other_labels_are_classes(tmp_path, labels):
    (tmp_path / "classes.txt").write_text("\n".join(labels))
    assert read_folder(write_folder(tmp_path, labels)).classes == labels
    (tmp_path / "classes.txt").unlink()
    assert read_folder(write_folder(tmp_path, np.repeat(labels, 3))).classes == sorted(labels)


def test_tabs_within_quotation_marks(tmp_path):
    """They would be columns of their own in the new manifest."""
    (tmp_path / "dest").mkdir()
    folder = write_folder(tmp_path, ["a", "a", "b", "b"], 'sequence,split,label,"my\tnote"', (',"loud\tat home"', ","))
    write_features(read_folder(folder), tmp_path / "dest", "float32", {})
    items = read_manifest(tmp_path / "dest", ("label",))
    assert [item.fields["my note"] for item in items] == ["loud at home", "", "loud at home", ""]
    assert [item.label for item in items] == ["a", "a", "b", "b"]


@pytest.mark.parametrize("line", [1, 2])
def test_values_that_are_too_long_for_the_csv_module(tmp_path, line):
    header = "sequence,split,label," + ("note" if line == 2 else "x" * 140_000)
    with pytest.raises(
        ValueError, match=rf"manifest.csv:{line}: can't be read \(field larger .*\); manifest.tsv, with"
    ):
        read_folder(write_folder(tmp_path, ["a", "b"], header, ("," + "x" * 140_000,)))


@pytest.mark.parametrize("place", [1, 3])
def test_an_interruption_does_not_lose_what_was_rounded(tmp_path, place):
    """The first sequence has large numbers that differ little, of which float32 loses the difference."""
    arrays = [1.7e9 + np.random.default_rng(0).normal(size=(5, 2)), *np.full((3, 5, 2), 1_699_999_872.0)]
    rows = [{"sequence": f"{n}", "split": ("train", "valid")[n % 2], "label": "ab"[n % 2]} for n in range(4)]
    source = Source(tmp_path, rows, 2, ["a", "b"], arrays.__getitem__)

    def interrupted(position):
        if position == place:
            raise KeyboardInterrupt
        return arrays[position]

    (tmp_path / "dest").mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_features(source._replace(load=interrupted), tmp_path / "dest", "float32", {})
    assert write_features(source, tmp_path / "dest", "float32", {})["rounded"] == [0, 1]
    assert not list((tmp_path / "dest").glob("unfinished*"))


def test_an_error_of_a_source_is_not_one_of_the_destination(tmp_path):
    """And the run can be resumed afterwards."""

    def load(position):
        if position == 1 and fails:
            raise PermissionError(13, "Permission denied", "source/1.npy")
        return np.ones((2, 3)) * position

    rows = [{"sequence": str(number), "split": "train", "label": "ab"[number]} for number in range(2)]
    source = Source(tmp_path / "source", rows, 3, ["a", "b"], load)
    dest, fails = tmp_path / "dest", True
    with pytest.raises(UserError, match="^source/1.npy: can't be read \\(Permission denied\\)$"):
        with new_folder(dest, False, "prepare.json", resume=True) as folder:
            write_features(source, folder, "float32", {})
    assert not dest.exists()
    fails = False
    with new_folder(dest, False, "prepare.json", resume=True) as folder:
        assert (folder / "unfinished.log").read_text() == "2\t\n"
        write_features(source, folder, "float32", {})
    np.testing.assert_array_equal(np.load(dest / "features.npy"), np.repeat([[0.0] * 3, [1.0] * 3], 2, 0))


def test_a_table_in_another_encoding(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes("sequence,label,x\ns,gr\u00fcn,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match="own.csv: expected UTF-8 text, got a byte that is not"):
        csv_source.read_csv(path, csv_source.Columns(), None)
