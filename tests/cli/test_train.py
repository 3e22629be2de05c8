"""``skiprnn-train``: one command from a file of recordings to a model that predicts."""

import errno
import fcntl
import inspect
import os
import shlex
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import numpy as np
import pytest

from skiprnn_plugin import SkipRNNClassifier, SkipRNNRegressor
from skiprnn_plugin.cli import train
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.cli.prepare import main as prepare
from skiprnn_plugin.cli.report import main as report
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
    printed = prints(main, source, "--save-dir", run, "--seed", 2, *QUICK)  # whose accuracies differ
    head, _, valid, test = [line.split(" | ") for line in printed.splitlines()[:4]]
    assert head == ["| split", "accuracy", "samples used", "samples used per recording", "recordings |"]
    for name, line in (("| valid", valid), ("| test", test)):
        assert line[0] == name and line[2].endswith("%") and line[4] == "4 |"
    assert sorted(path.name for path in run.iterdir()) == ["checkpoint_best.pt", "data", "samples.png"]
    assert f"{run}/samples.png: " in printed
    assert f"    skiprnn-predict {run} RECORDING.npy" in printed.splitlines()
    label = prints(predict, run, tmp_path / "new.npy").splitlines()[1].split("\t")[0]
    estimator = SkipRNNClassifier.load(run)
    assert estimator.predict(RECORDINGS[:1])[0] == label in LABELS
    assert estimator.max_updates == 3 and estimator.history_[-1]["num_updates"] == 3
    splits = [line.split("\t")[2] for line in (run / "data/manifest.tsv").read_text().splitlines()[1:]]
    for name, line in (("valid", valid), ("test", test)):
        places = [place for place, split in enumerate(splits) if split == name]
        assert line[1] == f"{estimator.score([RECORDINGS[place] for place in places], LABELS[places]):.3f}"


def test_options_have_the_defaults_of_the_estimators(monkeypatch):
    """The command does not import these before it trains, as that is slow, and states their defaults itself."""
    monkeypatch.setattr(train, "run_command", lambda program, run, args: args)
    args, parameters = main(["own.npz", "--save-dir", "run"]), inspect.signature(SkipRNNClassifier).parameters
    assert {name: getattr(args, name) for name in train.PARAMS} == {
        name: parameters[name].default for name in train.PARAMS
    }


def test_the_command_to_predict_can_be_copied(prints, source, tmp_path):
    printed = prints(main, source, "--save-dir", tmp_path / "run a", *QUICK)
    (command,) = [line for line in printed.splitlines() if "skiprnn-predict" in line]
    assert shlex.split(command) == ["skiprnn-predict", f"{tmp_path}/run a", "RECORDING.npy"]


@pytest.mark.parametrize(
    "place, error, reason",
    [
        ("plot.figures.load_matplotlib", ImportError("No module named 'matplotlib'"), "needs matplotlib (No module"),
        ("plot.figures.load_matplotlib", AttributeError("_ARRAY_API not found"), "AttributeError: _ARRAY_API not"),
        ("train.samples.run", OSError(errno.ENOSPC, "No space left on device"), "OSError: [Errno 28] No space left"),
    ],
)
def test_without_a_picture(capsys, source, tmp_path, monkeypatch, place, error, reason):
    """The model and the table do not need it."""

    def fail(*arguments):
        raise error

    monkeypatch.setattr(f"skiprnn_plugin.cli.{place}", fail)
    run = tmp_path / "run"
    assert main([*map(str, (source, "--save-dir", run, *QUICK))]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("| split | accuracy |") and "samples.png" not in printed.out
    warning = printed.err.splitlines()[-1]
    assert warning.startswith(f"skiprnn-train: warning: {run}/samples.png is not drawn: {reason}")
    assert sorted(path.name for path in run.iterdir()) == ["checkpoint_best.pt", "data"]


def test_whole_numbers_as_labels(prints, tmp_path):
    """The estimator that loads the model knows them as numbers."""
    labels = np.arange(20) % 2 * 10 + 1
    np.savez(tmp_path / "own.npz", *RECORDINGS, labels=labels)
    prints(main, tmp_path / "own.npz", "--save-dir", tmp_path / "run", *QUICK)
    estimator = SkipRNNClassifier.load(tmp_path / "run/checkpoint_best.pt")
    assert estimator.classes_.tolist() == [1, 11]
    assert estimator.score(RECORDINGS, labels) == np.mean(estimator.predict(RECORDINGS) == labels) > 0


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


@pytest.mark.parametrize(
    "left", [".data.lock", ".data.12345.part", ".checkpoint_best.pt.0123abcd.part", ".checkpoint_best.pt.12345.part"]
)
def test_a_killed_run_is_repeated(prints, fails, source, tmp_path, left):
    """Killed while it wrote the data or the checkpoint."""
    run = tmp_path / "run"
    (run / ".data.partial").mkdir(parents=True)
    if left == ".data.12345.part":
        (run / left).mkdir()
    else:
        (run / left).write_text("half")
    (run / "own.part").touch()
    message = f"{run}, which holds own.part, not from an interrupted skiprnn-train"
    assert message in fails(main, source, "--save-dir", run, *QUICK)
    assert sorted(os.listdir(run)) == sorted([".data.partial", left, "own.part"])
    (run / "own.part").unlink()
    prints(main, source, "--save-dir", run, *QUICK)
    assert sorted(os.listdir(run)) == ["checkpoint_best.pt", "data", "samples.png"]


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
    printed = capsys.readouterr()
    assert f"{expected}time, x)\n" in printed.err
    assert printed.out.endswith(f"    skiprnn-predict {tmp_path / 'run'} RECORDING.csv\n")


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
        (
            ("--save-dir", "run", "--valid-fraction", "2"),
            "--valid-fraction: expected a fraction between 0 and 1, got 2",
        ),
        (("--save-dir", "run", "--learning-rate", "-1"), "--learning-rate: expected a number above 0, got -1"),
        (("--save-dir", "run", "--learning-rate", "nan"), "--learning-rate: expected a finite number, got nan"),
        (("--save-dir", "run", "--seed", "-1"), "--seed: expected an integer from 0 to 4294967295, got -1"),
        (("--save-dir", "run", "--split-seed", "-1"), "--split-seed: expected an integer of at least 0, got -1"),
        (("--save-dir", "run", "--label-column", "x"), "--label-column: is only for a .csv or .tsv file, got "),
    ],
)
def test_wrong_options(fails, source, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert message in fails(main, source, *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.npy", "own.npz"]


def test_another_process_trains_in_the_folder(fails, prints, source, tmp_path):
    """It would replace the data, and the model in the end."""
    run = tmp_path / "run"
    run.mkdir()
    descriptor = os.open(run, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert f"--save-dir: expected a folder of this run alone, another skiprnn-train writes to {run}" in fails(
        main, source, "--save-dir", run, *QUICK
    )
    os.close(descriptor)
    np.savez(tmp_path / "wrong.npz", np.zeros((3, 2)), labels=[1, 2])
    fails(main, tmp_path / "wrong.npz", "--save-dir", run)
    assert not list(run.iterdir())  # the user's own folder stays, even if it is empty
    prints(main, source, "--save-dir", run, *QUICK)


@pytest.mark.thorough
def test_sigterm_leaves_no_temporary_files(source, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "skiprnn_plugin.cli.train", source, "--save-dir", tmp_path / "run"]
    environment = {**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([*map(str, command)], env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not list(temporary.glob("*/*.pt")):
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 143
    assert not list(temporary.iterdir()) and [path.name for path in (tmp_path / "run").iterdir()] == ["data"]


def test_a_full_temporary_folder(capsys, source, tmp_path, monkeypatch):
    def save(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("skiprnn_plugin.training.Trainer.save_checkpoint", save)
    assert main([*map(str, (source, "--save-dir", tmp_path / "run", *QUICK))]) == 2
    expected = (
        f"the temporary folder {tempfile.gettempdir()} can't be used (No space left on device); TMPDIR names another"
    )
    assert capsys.readouterr().err.splitlines()[-1] == f"skiprnn-train: error: {expected}"


def test_a_checkpoint_that_cannot_be_written(capsys, source, tmp_path, monkeypatch):
    run = tmp_path / "run"

    def train(*arguments):
        (run / "checkpoint_best.pt").mkdir()
        return SimpleNamespace(checkpoint=b"")

    monkeypatch.setattr("skiprnn_plugin.training.train", train)
    assert main([*map(str, (source, "--save-dir", run, *QUICK))]) == 2
    message = capsys.readouterr().err
    assert message.endswith(f"error: --save-dir: {run}/checkpoint_best.pt can't be written (Is a directory)\n")


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


NUMBERS = np.round(np.random.default_rng(0).normal(size=20), 3)


def write_numbers(folder, kind, labels=NUMBERS):
    """The recordings, labelled with numbers, as users have them."""
    if kind == "npz":
        np.savez(folder / "own.npz", *RECORDINGS, labels=NUMBERS)
        return folder / "own.npz"
    if kind == "csv":  # as in tables with decimal commas
        lines = [f"r{n};{label};{x};{x * n}" for n, label in enumerate(NUMBERS) for x in range(5)]
        (folder / "own.csv").write_text("\n".join(["sequence;label;x;y", *lines]).replace(".", ","))
        return folder / "own.csv"
    own = folder / "own"
    own.mkdir()
    lines = ["sequence,split,label"]
    for number, (recording, label) in enumerate(zip(RECORDINGS, labels)):
        np.save(own / f"{number}.npy", recording)
        lines.append(f"{number},{('train', 'train', 'valid', 'test')[number % 4]},{label}")
    (own / "manifest.csv").write_text("\n".join(lines))
    return own


@pytest.mark.parametrize("kind", ["npz", "csv", "folder", "prepared"])
def test_labels_with_fractions_are_numbers_to_predict(capsys, tmp_path, kind):
    source, run = write_numbers(tmp_path, kind), tmp_path / "run"
    if kind == "prepared":
        assert prepare(["features", str(source), str(tmp_path / "prepared")]) == 0
        source = tmp_path / "prepared"
    assert main([*map(str, (source, "--save-dir", run, *QUICK))]) == 0
    captured = capsys.readouterr()
    assert "; labels are numbers to predict (with --no-regression they are classes)\n" in captured.out + captured.err
    table = captured.out[captured.out.index("| split") :].splitlines()
    head, valid = (line.strip("| ").split(" | ") for line in (table[0], table[2]))
    assert head[:3] == ["split", "root mean square error", "deviation of labels"] and valid[0] == "valid"
    manifest = ((source if kind == "prepared" else run / "data") / "manifest.tsv").read_text().splitlines()
    labels = [float(line.split("\t")[3]) for line in manifest if "\tvalid\t" in line]
    assert set(labels) < set(NUMBERS) and float(valid[2]) == pytest.approx(np.std(labels), rel=1e-3)
    estimator = SkipRNNRegressor.load(run / "checkpoint_best.pt")
    if kind != "csv":
        validated = [recording for recording, label in zip(RECORDINGS, NUMBERS) if label in labels]
        expected = [label for label in NUMBERS if label in labels]
        error = np.sqrt(np.mean((estimator.predict(validated) - expected) ** 2))
        assert float(valid[1]) == pytest.approx(error, rel=1e-3)


def test_regression_or_not(prints, fails, source, tmp_path):
    np.savez(tmp_path / "counts.npz", *RECORDINGS, labels=np.arange(20) % 5)
    prints(main, tmp_path / "counts.npz", "--save-dir", tmp_path / "run", "--regression", *QUICK)
    assert SkipRNNRegressor.load(tmp_path / "run/checkpoint_best.pt").predict(RECORDINGS).shape == (20,)
    prints(main, tmp_path / "run/data", "--save-dir", tmp_path / "again", *QUICK)  # a folder that remembers
    assert SkipRNNRegressor.load(tmp_path / "again/checkpoint_best.pt").max_updates == 3
    message = fails(main, source, "--save-dir", tmp_path / "no", "--regression", *QUICK)
    assert "labels: expected finite numbers to predict, [N] or [N, outputs], got <U4 (20,)" in message
    np.savez(tmp_path / "numbers.npz", *RECORDINGS, labels=NUMBERS)
    message = fails(main, tmp_path / "numbers.npz", "--save-dir", tmp_path / "no", "--no-regression", *QUICK)
    assert "labels: expected whole numbers or names in one row, got float64 (20,)" in message
    (tmp_path / "own.csv").write_text("sequence,label,x\n" + "".join(f"{n},{n % 2}.5,{n}\n" for n in range(20)))
    prints(main, tmp_path / "own.csv", "--save-dir", tmp_path / "classes", "--no-regression", *QUICK)
    assert SkipRNNClassifier.load(tmp_path / "classes/checkpoint_best.pt").classes_.tolist() == ["0.5", "1.5"]
    lines = "".join(f"{n},{n}.5,{n}\n" for n in range(19))
    (tmp_path / "own.csv").write_text(f"sequence,label,x\n{lines}19,up,3\n")
    message = fails(main, tmp_path / "own.csv", "--save-dir", tmp_path / "no", "--regression", *QUICK)
    assert "own.csv:21: label: expected a number to predict, got 'up'" in message
    assert not (tmp_path / "no").exists()


def test_what_is_good_enough(fails, prints, source, tmp_path):
    """The thriftiest checkpoint is kept, and an accuracy is at most 1."""
    run = tmp_path / "run"
    options = ("--max-updates", 8, "--learning-rate", 0.3, "--hidden-size", 6)  # the samples used vary at once
    printed = prints(main, source, "--save-dir", run, "--good-enough", 0, *options)
    estimator = SkipRNNClassifier.load(run / "checkpoint_best.pt")
    assert estimator.good_enough == 0
    thriftiest = min(estimator.history_, key=lambda stage: stage["update_fraction"])
    assert thriftiest["accuracy"] < max(stage["accuracy"] for stage in estimator.history_)
    valid = printed.splitlines()[2].split(" | ")
    assert valid[1:3] == [f"{thriftiest['accuracy']:.3f}", f"{thriftiest['update_fraction']:.1%}"]
    message = fails(main, source, "--save-dir", tmp_path / "no", "--good-enough", 95, *QUICK)
    assert "--good-enough: expected an accuracy, a number from 0 to 1, got 95" in message
    assert not (tmp_path / "no").exists()


def test_times_keep_their_precision(prints, tmp_path):
    """Unix times, which float32 rounds to two minutes."""
    recordings = [1.7e9 + recording for recording in RECORDINGS]
    np.savez(tmp_path / "own.npz", *recordings, labels=LABELS)
    prints(main, tmp_path / "own.npz", "--save-dir", tmp_path / "run", *QUICK)
    task = SkipRNNClassifier.load(tmp_path / "run/checkpoint_best.pt").hub_.task
    mean, std = task.facts.statistics
    np.testing.assert_allclose(task.encode(recordings[0]), (recordings[0] - mean) / std, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(std, np.concatenate(RECORDINGS).std(0), rtol=0.2)
    task.load_dataset("valid")
    item = task.dataset("valid")[0]["x"]
    assert len(np.unique(item[:, 0])) == len(item)


@pytest.mark.parametrize("option, value", [("--target-fraction", 0.01), ("--good-enough", 1e-9)])
def test_says_what_was_not_reached(capsys, tmp_path, option, value):
    source = write_numbers(tmp_path, "folder")
    assert main([*map(str, (source, "--save-dir", tmp_path / "run", option, value, *QUICK))]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(lines) == 1 and lines[0].startswith(f"skiprnn-train: warning: {option}: ")


def test_the_error_of_each_output(prints, tmp_path):
    """Which can have different units."""
    labels = np.stack([1000 * NUMBERS, NUMBERS**2], 1)
    source = write_numbers(tmp_path, "folder", [" ".join(map(str, row)) for row in labels])
    printed = prints(main, source, "--save-dir", tmp_path / "run", *QUICK)
    errors, deviations = printed.splitlines()[3].split(" | ")[1:3]  # of split test
    estimator = SkipRNNRegressor.load(tmp_path / "run/checkpoint_best.pt")
    squares = (estimator.predict(RECORDINGS[3::4]) - labels[3::4]) ** 2
    assert [float(word) for word in errors.split()] == pytest.approx(np.sqrt(squares.mean(0)), rel=1e-3)
    assert [float(word) for word in deviations.split()] == pytest.approx(labels[3::4].std(0), rel=1e-3)


def test_a_bad_number_in_a_split_that_is_not_trained_on(capsys, tmp_path):
    """The folder has its own statistics.npz; without it, the number would be found while they are computed."""
    folder = write_features(tmp_path / "data")
    np.savez(folder / "statistics.npz", mean=np.zeros(3), std=np.ones(3))
    np.save(folder / "test1.npy", np.full_like(np.load(folder / "test1.npy"), np.nan))
    assert main([*map(str, (folder, "--save-dir", tmp_path / "run", *QUICK))]) == 2
    wrote, error = capsys.readouterr().err.splitlines()
    assert wrote == f"wrote {tmp_path}/run/checkpoint_best.pt"
    assert error.startswith(f"skiprnn-train: error: {folder}/test1.npy: sequence 'test1' ")


@pytest.mark.parametrize("is_regression", [False, True])
def test_runs_of_different_data_are_not_averaged(capsys, tmp_path, is_regression):
    """Although all have the folder ``data``, and a regression's recordings may be the same."""
    labels = [np.arange(20.0) / 10, np.arange(20.0) / 10, np.arange(20.0)] if is_regression else [LABELS] * 3
    for number in range(3):
        run, recordings = tmp_path / f"run{number}", RECORDINGS if number < 2 or is_regression else RECORDINGS[::-1]
        np.savez(tmp_path / "own.npz", *recordings, labels=labels[number])
        options = ("--seed", number, "--max-updates", 5 + number, "--hidden-size", 6, "--regression")
        assert (
            main([*map(str, (tmp_path / "own.npz", "--save-dir", run, *options[: None if is_regression else -1]))]) == 0
        )
    capsys.readouterr()
    assert report([str(tmp_path / f"run{number}") for number in range(3)]) == 0
    printed = capsys.readouterr()
    rows = [line.strip("| ").split(" | ") for line in printed.out.splitlines()[2:4]]
    assert [(row[0].rpartition(", ")[0], row[-2]) for row in rows] == [
        (f"Skip GRU, data of {tmp_path}/run{number}", count) for number, count in ((0, "2"), (2, "1"))
    ]
    assert "differ in" not in printed.err
