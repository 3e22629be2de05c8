"""``skiprnn-train``: one command from a file of recordings to a model that predicts."""

import numpy as np
import pytest

from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.cli.prepare import main as prepare
from skiprnn_plugin.cli.train import main

from ..tiny_features import write_features

RECORDINGS = [np.random.default_rng(number).normal(number % 2, 1, (20 + number, 2)) for number in range(20)]
LABELS = np.array(["low", "high"] * 10)
QUICK = ("--max-updates", 3, "--hidden-size", 6)


@pytest.fixture
def source(tmp_path):
    np.savez(tmp_path / "own.npz", *RECORDINGS, labels=LABELS)
    np.save(tmp_path / "new.npy", RECORDINGS[0])
    return tmp_path / "own.npz"


def test_trains_and_says_how_to_predict(prints, source, tmp_path):
    run = tmp_path / "run"
    printed = prints(main, source, "--save-dir", run, *QUICK)
    head, _, valid, test = [line.split(" | ") for line in printed.splitlines()[:4]]
    assert head == ["| split", "accuracy", "samples used", "samples used per recording", "recordings |"]
    for name, line in (("| valid", valid), ("| test", test)):
        assert line[0] == name and 0 <= float(line[1]) <= 1 and line[2].endswith("%") and line[4] == "4 |"
    assert sorted(path.name for path in run.iterdir()) == ["checkpoint_best.pt", "data", "samples.png"]
    assert f"{run}/samples.png: " in printed
    assert f"    skiprnn-predict {run} RECORDING.npy" in printed.splitlines()
    assert prints(predict, run, tmp_path / "new.npy").splitlines()[1].split("\t")[0] in LABELS


@pytest.mark.parametrize("is_prepared", [True, False])
def test_takes_a_folder_with_its_splits(prints, tmp_path, is_prepared):
    folder = write_features(tmp_path / "data")
    if is_prepared:
        prints(prepare, "features", folder, tmp_path / "prepared")
        folder = tmp_path / "prepared"
    printed = prints(main, folder, "--save-dir", tmp_path / "run", "--cell", "lstm", *QUICK)
    assert "| valid | " in printed and "| test | " in printed and "| 7 |" in printed and "| 5 |" in printed
    assert (tmp_path / "run/data").exists() != is_prepared


def test_an_interrupted_run_is_repeated(prints, source, tmp_path):
    prints(main, source, "--save-dir", tmp_path / "run", *QUICK)
    for name in ("checkpoint_best.pt", "samples.png"):
        (tmp_path / "run" / name).unlink()
    prints(main, source, "--save-dir", tmp_path / "run", *QUICK)
    assert (tmp_path / "run/checkpoint_best.pt").is_file()


@pytest.mark.parametrize(
    "options, message",
    [
        (("--save-dir", "own.npz"), "--save-dir: expected a folder that does not exist yet, got own.npz"),
        (("--save-dir", "run", "--max-updates", "0"), "--max-updates: expected "),
        (
            ("--save-dir", "run", "--target-fraction", "2"),
            "--target-fraction: expected a fraction between 0 and 1, got",
        ),
        (("--save-dir", "run", "--valid-fraction", "2"), "--valid-fraction: expected a number between 0 and 1, got 2"),
        (("--save-dir", "run", "--label-column", "x"), "--label-column: is only for a .csv file, got "),
    ],
)
def test_wrong_options(fails, source, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in fails(main, source, *options)


def test_wrong_data(fails, tmp_path):
    assert "no.npz: no such file or folder" in fails(main, tmp_path / "no.npz", "--save-dir", tmp_path / "run")
    folder = write_features(tmp_path / "data")
    manifest = folder / "manifest.tsv"
    manifest.write_text(manifest.read_text().replace("\tvalid\t", "\tdev\t"))
    message = fails(main, folder, "--save-dir", tmp_path / "run")
    assert "data: expected sequences of split train and of split valid, got only " in message
    assert not (tmp_path / "run").exists()
