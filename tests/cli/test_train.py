"""``skiprnn-train``: one command from a file of recordings to a model that predicts."""

import numpy as np
import pytest

from skiprnn_plugin import SkipRNNClassifier
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
    label = prints(predict, run, tmp_path / "new.npy").splitlines()[1].split("\t")[0]
    estimator = SkipRNNClassifier.load(run / "checkpoint_best.pt")
    assert estimator.predict(RECORDINGS[:1])[0] == label in LABELS
    assert estimator.max_updates == 3 and estimator.history_[-1]["num_updates"] == 3


@pytest.mark.parametrize("is_prepared", [True, False])
def test_takes_a_folder_with_its_splits(prints, tmp_path, is_prepared):
    folder = write_features(tmp_path / "data")
    if is_prepared:
        prints(prepare, "features", folder, tmp_path / "prepared")
        folder = tmp_path / "prepared"
    printed = prints(main, folder, "--save-dir", tmp_path / "run", "--cell", "lstm", *QUICK)
    assert "| valid | " in printed and "| test | " in printed and "| 7 |" in printed and "| 5 |" in printed
    assert (tmp_path / "run/data").exists() != is_prepared


@pytest.mark.parametrize("place", ["prepare.write_features._load", "prepare.new_folder._check", "training.train"])
def test_an_interrupted_run_is_repeated(prints, source, tmp_path, monkeypatch, place):
    arguments = (source, "--save-dir", tmp_path / "run", *QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(f"skiprnn_plugin.{place}", interrupted)
        assert main(list(map(str, arguments))) == 130
    prints(main, *arguments)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["checkpoint_best.pt", "data", "samples.png"]


def interrupted(*arguments):
    raise KeyboardInterrupt


def test_says_what_it_has_read(capsys, tmp_path):
    """Above all which columns of a table it takes for features."""
    lines = [f"s{n},{n % 2},{step},{n}" for n in range(8) for step in range(2)]
    (tmp_path / "own.csv").write_text("\n".join(["sequence,label,time,x", *lines]))
    assert main([str(tmp_path / "own.csv"), "--save-dir", str(tmp_path / "run"), *map(str, QUICK)]) == 0
    expected = (
        "data: train 4 sequences (8 steps), valid 2 sequences (4 steps), test 2 sequences (4 steps); 2 features ("
    )
    assert f"{expected}time, x)\n" in capsys.readouterr().err


@pytest.mark.parametrize("is_finished", [True, False])
def test_data_of_other_commands_are_not_replaced(prints, fails, source, tmp_path, monkeypatch, is_finished):
    run = tmp_path / "run"
    if is_finished:
        prints(prepare, "features", source, run / "data")
    else:
        monkeypatch.setattr("skiprnn_plugin.prepare.write_features._load", interrupted)
        assert prepare(["features", str(source), str(run / "data")]) == 130
    (name,) = [path.name for path in run.iterdir()]
    held = {path.name: path.read_bytes() for path in (run / name).iterdir()}
    message = fails(main, source, "--save-dir", run, *QUICK)
    assert f"--save-dir: expected a folder that does not exist yet, got {run}, which holds {name}, " in message
    assert {path.name: path.read_bytes() for path in (run / name).iterdir()} == held
    if is_finished:
        prints(main, run / "data", "--save-dir", run, *QUICK)  # they are what to train on
        assert {path.name: path.read_bytes() for path in (run / name).iterdir()} == held


def test_the_seeds_of_the_training_and_of_the_division(prints, source, tmp_path, monkeypatch):
    plans = []

    def remembered(plan, *arguments):
        plans.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr("skiprnn_plugin.training.train", remembered)
    folder = write_features(tmp_path / "folder")
    for number, arguments in enumerate(
        [(folder, "--seed", 7), (source, "--seed", 7), (source, "--split-seed", 7), (source,)]
    ):
        assert main([*map(str, arguments), "--save-dir", str(tmp_path / str(number))]) == 130
    assert [plan.seed for plan in plans] == [7, 7, 1, 1]
    manifests = [(tmp_path / str(number) / "data/manifest.tsv").read_text() for number in (1, 2, 3)]
    assert manifests[0] == manifests[2] != manifests[1]


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
        (("--save-dir", "run", "--learning-rate", "-1"), "--learning-rate: expected a number above 0, got -1"),
        (("--save-dir", "run", "--learning-rate", "nan"), "--learning-rate: expected a finite number, got nan"),
        (("--save-dir", "run", "--seed", "-1"), "--seed: expected an integer from 0 to 4294967295, got -1"),
        (("--save-dir", "run", "--split-seed", "-1"), "--split-seed: expected at least 0, got -1"),
        (("--save-dir", "run", "--label-column", "x"), "--label-column: is only for a .csv or .tsv file, got "),
    ],
)
def test_wrong_options(fails, source, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in fails(main, source, *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.npy", "own.npz"]


def test_wrong_data(fails, tmp_path):
    assert "no.npz: no such file or folder" in fails(main, tmp_path / "no.npz", "--save-dir", tmp_path / "run")
    folder = write_features(tmp_path / "data")
    message = fails(main, folder, "--save-dir", tmp_path / "run", "--split-seed", 3)
    assert "--split-seed: is only for an .npz, .csv or .tsv file, got " in message
    manifest = folder / "manifest.tsv"
    manifest.write_text(manifest.read_text().replace("\tvalid\t", "\tdev\t"))
    message = fails(main, folder, "--save-dir", tmp_path / "run")
    assert "data: expected sequences of split train and of split valid, got only " in message
    assert not (tmp_path / "run").exists()
    lines = [
        f"{path.stem}\t{('train', 'valid')[n % 2]}\tup 0 1;down 0 1\t3" for n, path in enumerate(folder.glob("*.npy"))
    ]
    manifest.write_text("\n".join(["sequence\tsplit\tannotations\tduration", *lines]))
    message = fails(main, folder, "--save-dir", tmp_path / "run")
    assert "data: expected a column 'label' in its manifest, got sequence, split, annotations, duration" in message
    assert not (tmp_path / "run").exists()
