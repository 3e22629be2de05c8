"""The recipes, cut short, as a person starts them."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from .command_line import ROOT, run
from .idx_files import NAMES, write_digits
from .tiny_features import write_features
from .tiny_imdb import FILES, write_archive
from .tiny_localization import write_localization

needs_environment = pytest.mark.skipif(
    not (ROOT / ".venv/installed").exists(), reason="recipes use .venv, which tests/run.sh makes"
)


def recipe(name, *arguments, **environment):
    return run("bash", ROOT / "recipes" / name, *arguments, **environment)


@needs_environment
def test_quickstart(tmp_path):
    process = recipe("quickstart.sh", 2, RUNS=str(tmp_path))
    assert process.returncode == 0, process.stderr[-2000:]
    assert "| Skip GRU, lambda=1e-5 | Yes | 50.7% ± 2.6% | 9.40e5 | No |" in process.stdout
    assert (tmp_path / "quickstart/samples.png").stat().st_size > 10000
    assert_settings(tmp_path / "quickstart/checkpoint_last.pt", lr=[1e-3], cost_per_sample=1e-5)
    again = recipe("quickstart.sh", RUNS=str(tmp_path), MAX_UPDATE="2")
    assert again.stdout.splitlines()[-6:] == process.stdout.splitlines()[-6:] and "train_inner" not in again.stderr


def assert_settings(checkpoint, lr, cost_per_sample):
    """Those of all experiments of the paper, and the two given."""
    cfg = torch.load(checkpoint, weights_only=False)["cfg"]
    assert cfg["optimization"]["lr"] == lr and cfg["criterion"]["cost_per_sample"] == cost_per_sample
    adam = cfg["optimizer"]
    assert adam["_name"] == "adam" and list(adam["adam_betas"]) == [0.9, 0.999] and adam["adam_eps"] == 1e-8
    assert adam["weight_decay"] == 0 and cfg["optimization"]["clip_norm"] == 1 and cfg["dataset"]["batch_size"] == 256
    model = cfg["model"]
    assert (model["hidden_size"], model["num_layers"], model["dropout"]) == (110, 1, 0)
    assert model["gru_reset"] == "before" and model["init"] == "authors" and model["update_bias"] == 1
    assert model["binarize"] == "round" and not model["layer_norm"] and not model["bidirectional"]


@needs_environment
def test_adding_runs_the_rows_it_is_told_and_does_not_repeat_them(tmp_path):
    def go():
        process = recipe("adding.sh", "gru", "lstm-skip-0.5", RUNS=str(tmp_path), MAX_UPDATE="1", SEEDS="3 5")
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout.splitlines()

    lines = go()
    assert sorted(line.split(",")[0] for line in lines if "update 1:" in line) == [
        "gru seed 3", "gru seed 5", "lstm-skip-0.5 seed 3", "lstm-skip-0.5 seed 5"
    ]  # fmt: skip
    assert_settings(tmp_path / "adding/gru/seed3/checkpoint_last.pt", lr=[1e-4], cost_per_sample=0)
    table = [line for line in lines if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table[2:]] == ["LSTM (p_skip = 0.5)", "GRU"]
    assert all(line.split("|")[-2].strip() == "2" for line in table[2:])  # runs
    again = go()
    assert [line for line in again if line.startswith("|")] == table
    assert not any("update 1:" in line for line in again)


@needs_environment
def test_frequency_quick_ends_with_a_table_and_a_picture_for_each_sampling_period(tmp_path):
    process = recipe("frequency.sh", "--quick", RUNS=str(tmp_path), MAX_UPDATE="1", SAMPLING_PERIODS="1 0.5")
    assert process.returncode == 0, process.stderr[-2000:]
    lines = process.stdout.splitlines()
    assert sorted(line.split(", update")[0] for line in lines if "update 1: accuracy" in line) == [
        "0.5 ms, skip-gru-1e-4 seed 1", "1 ms, skip-gru-1e-4 seed 1"
    ]  # fmt: skip
    rows = [[cell.strip() for cell in line.split("|")[1:5]] for line in lines if line.startswith("| Skip")]
    label = "Skip GRU, lambda=1e-4"
    assert rows == [[label, "Yes", "23.5 ± 6.2", "No"], [label, "Yes", "22.5 ± 2.1", "No"]]
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["frequency-quick-0.5ms", "frequency-quick-1ms"]
    pictures = list(tmp_path.glob("*/skip-gru-1e-4/seed1/samples.png"))
    assert len(pictures) == 2 and all(picture.stat().st_size > 10000 for picture in pictures)


@needs_environment
def test_imdb_quick_prepares_the_reviews_once_and_reports_on_the_test_split(tmp_path):
    reviews = write_archive(tmp_path / "reviews.tar.gz", FILES)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("1 300\nbad" + 300 * " 0.5" + "\n")
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "2", "WORD2VEC": str(vectors)}

    def go(**changed):
        process = recipe("imdb.sh", reviews, "--quick", **{**environment, **changed})
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout.splitlines()

    lines = go()
    assert [line.split(": accuracy")[0] for line in lines if ": accuracy" in line] == [
        f"200 words, skip-lstm-1e-3 seed 1, update {update}" for update in (1, 2)
    ]
    assert any(line.startswith("| Skip LSTM, lambda=1e-3 | 0.811 ± 0.007 | 73.85 ± 1.90 | 0.") for line in lines)
    assert lines[-1].endswith("Held-out split: test, 8 sequences.")
    run = tmp_path / "runs/imdb-quick-200/skip-lstm-1e-3/seed1"
    assert "&lt;unk&gt;" in (run / "samples.html").read_text()  # most words occur too rarely
    assert (run.parent.parent / "accuracy.png").stat().st_size > 10000
    cfg = torch.load(run / "checkpoint_best.pt", weights_only=False)["cfg"]
    assert cfg["task"]["data_dir"] == str(tmp_path / "runs/imdb-data") and cfg["task"]["embedding_path"] == str(vectors)
    assert cfg["task"]["padding"] == "data" and cfg["model"]["hidden_size"] == 128 and cfg["model"]["dropout"] == 0.2
    reviews.write_bytes(b"")
    moved = go(RUNS=str(shutil.move(tmp_path / "runs", tmp_path / "my runs")))
    assert [line for line in moved if line.startswith("|")] == [line for line in lines if line.startswith("|")]
    wrong = recipe("imdb.sh", reviews, **{**environment, "RUNS": str(tmp_path / "other")})
    assert wrong.returncode == 2 and wrong.stderr.startswith("skiprnn-prepare: error: ")
    assert wrong.stderr.count("\n") == 1 and list((tmp_path / "other").iterdir()) == []


@needs_environment
def test_mnist_ends_with_pictures_and_the_table_of_the_test_images(tmp_path):
    write_digits(tmp_path / "my data")
    environment = {"RUNS": "my runs", "MAX_UPDATE": "1", "SEEDS": "3", "VALID_SIZE": "36"}
    process = run("bash", ROOT / "recipes/mnist.sh", "my data", "skip-gru-1e-4", cwd=tmp_path, **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    lines = process.stdout.splitlines()
    assert "train: 64 sequences\nvalid: 36 sequences\ntest: 40 sequences\n" in process.stderr
    assert lines[0].startswith("skip-gru-1e-4 seed 3, update 1: accuracy 0.")
    (row,) = [line for line in lines if line.startswith("| Skip GRU")]
    assert row.startswith("| Skip GRU, lambda=1e-4 | 0.976 ± 0.003 | 392.62 ± 26.48 | 1.44e7 | 0.")
    assert "Held-out split: test, 40 sequences." in lines[-1]
    folder = tmp_path / "my runs/mnist"  # of the folder that the recipe was started in
    assert_settings(folder / "skip-gru-1e-4/seed3/checkpoint_best.pt", lr=[1e-4], cost_per_sample=1e-4)
    for picture in (folder / "accuracy.png", folder / "skip-gru-1e-4/seed3/samples.png"):
        assert picture.stat().st_size > 10000


@needs_environment
def test_mnist_quick_ends_with_a_table_and_a_picture(tmp_path):
    write_digits(tmp_path, compress=True)
    process = recipe("mnist.sh", tmp_path, "--quick", RUNS=str(tmp_path), MAX_UPDATE="1", VALID_SIZE="36")
    assert process.returncode == 0, process.stderr[-2000:]
    assert "| Skip GRU, lambda=5e-3, rows True | - |" in process.stdout
    assert (tmp_path / "mnist-quick/seed1/samples.png").stat().st_size > 10000


@needs_environment
def test_mnist_starts_nothing_with_data_that_are_not_whole(tmp_path):
    write_digits(tmp_path)
    (tmp_path / NAMES[3]).write_bytes((tmp_path / NAMES[3]).read_bytes()[:-1])
    process = recipe("mnist.sh", tmp_path, RUNS=str(tmp_path / "runs"), VALID_SIZE="36")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert f"error: {tmp_path / NAMES[3]}: expected 40 bytes behind the header" in process.stderr
    assert not (tmp_path / "runs").exists()


@needs_environment
def test_charades_ends_with_a_picture_and_a_table_with_the_spread_over_videos(tmp_path):
    write_localization(tmp_path / "my data", splits=("train", "valid"))
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "1"}
    rows = ("gru", "gru-skip-0.90", "skip-lstm-1e-3")
    process = run("bash", ROOT / "recipes/charades.sh", "my data", *rows, cwd=tmp_path, **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    lines = process.stdout.splitlines()
    assert "train: 24 sequences\nvalid: 9 sequences\n" in process.stderr
    assert sorted(line.split(": mAP 0.")[0] for line in lines[:3]) == [f"{row} seed 1, update 1" for row in rows]
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert table[0][-4:] == ["mAP", "updates ± over sequences", "FLOPs", "runs"]
    assert [row[:4] for row in table[2:]] == [
        ["Skip LSTM, lambda=1e-3", "8.32%", "41.9 ± 11.3", "6.41e11"],
        ["GRU", "8.70%", "172.9 ± 47.4", "2.65e12"],
        ["GRU (p_skip = 0.90)", "7.09%", "17.3 ± 6.3", "2.65e11"],
    ]
    updates, flops = table[3][5].split(" ± ")[0], table[3][6]
    assert float(flops) == pytest.approx(float(updates) * 1.53e10, rel=0.01)
    assert process.stderr.count("warning") == 0 and (tmp_path / "runs/charades/mAP.png").stat().st_size > 10000
    cfg = torch.load(tmp_path / "runs/charades/gru/seed1/checkpoint_best.pt", weights_only=False)["cfg"]
    assert (cfg["model"]["hidden_size"], cfg["model"]["num_layers"]) == (256, 2)
    assert cfg["task"]["frame_rate"] == 6 and cfg["task"]["eval_points"] == 100
    assert cfg["optimization"]["lr"] == [1e-4] and cfg["dataset"]["batch_size"] == 256


@needs_environment
def test_ucf101_reads_250_frames(tmp_path):
    write_features(tmp_path / "data")
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "1"}
    process = recipe("ucf101.sh", tmp_path / "data", "skip-gru-1e-4", **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    (row,) = [line for line in process.stdout.splitlines() if line.startswith("| Skip")]
    assert row.startswith("| Skip GRU, lambda=1e-4 | 0.793 | 23.7 | 9.02e10 | 0.") and "warning" not in process.stderr
    assert (tmp_path / "runs/ucf101/accuracy.png").stat().st_size > 10000
    cfg = torch.load(tmp_path / "runs/ucf101/skip-gru-1e-4/seed1/checkpoint_best.pt", weights_only=False)["cfg"]
    assert (cfg["model"]["hidden_size"], cfg["model"]["num_layers"]) == (512, 2)
    assert (cfg["task"]["sequence_length"], cfg["task"]["padding"]) == (250, "data")
    assert cfg["task"]["encoder_flops"] == 3.8e9 and cfg["optimization"]["lr"] == [1e-4]


@pytest.mark.parametrize(
    "name, write, row",
    [
        ("charades", write_localization, "| Skip GRU, lambda=1e-3 | 8.68% |"),
        ("ucf101", write_features, "| Skip GRU, lambda=1e-4, sequence_length 50 | - |"),
    ],
)
@needs_environment
def test_videos_quick(tmp_path, name, write, row):
    write(tmp_path / "data")
    process = recipe(f"{name}.sh", tmp_path / "data", "--quick", RUNS=str(tmp_path / "runs"), MAX_UPDATE="2")
    assert process.returncode == 0, process.stderr[-2000:]
    assert row in process.stdout
    pictures = [path.name for path in (tmp_path / "runs" / f"{name}-quick").glob("**/*.png")]
    assert len(pictures) == 2 and "samples.png" in pictures


def test_pictures_are_of_the_first_seed():
    script = """source recipes/table.sh
        train() { :; }
        seeds=(3 4) jobs=1 RUNS=r
        launch "" a/x x && launch "" a/y y && wait_for_runs && echo "${first_runs[@]}; ${runs[@]}" """
    assert run("bash", "-c", script, cwd=ROOT).stdout == "r/a/x/seed3 r/a/y/seed3; " + (
        "r/a/x/seed3 r/a/x/seed4 r/a/y/seed3 r/a/y/seed4\n"
    )


@needs_environment
def test_smartwatch_prepares_the_recordings_once_and_ends_with_pictures(tmp_path):
    rng = np.random.default_rng(0)
    numbers = np.arange(20)
    arrays = {"values": rng.normal(size=(60, 6)), "lengths": np.full(20, 3), "labels": numbers % 2, "subject": numbers}
    np.savez(tmp_path / "my watch.npz", **arrays)
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "1", "LAMBDAS": "1e-4"}

    def go():
        process = run("bash", ROOT / "recipes/smartwatch.sh", "--quick", "my watch.npz", cwd=tmp_path, **environment)
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout.splitlines()

    lines = go()
    assert sorted(line.split(": accuracy")[0] for line in lines if ": accuracy" in line) == [
        "full_gru seed 1, update 1", "skip_gru-1e-4 seed 1, update 1"
    ]  # fmt: skip
    table = [line for line in lines if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table] == ["model", "---", "GRU, every sample", "Skip GRU, λ=1e-4"]
    folder = tmp_path / "runs/smartwatch-quick"
    for picture in (folder / "tradeoff.png", folder / "full_gru/seed1/samples.png"):
        assert picture.stat().st_size > 10000
    cfg = torch.load(folder / "skip_gru-1e-4/seed1/checkpoint_best.pt", weights_only=False)["cfg"]
    assert cfg["task"]["data_dir"] == str(tmp_path / "runs/smartwatch-data") and cfg["task"]["normalize"]
    assert cfg["criterion"]["cost_per_sample"] == 1e-4 and cfg["model"]["hidden_size"] == 64
    (tmp_path / "my watch.npz").write_bytes(b"")
    assert [line for line in go() if line.startswith("|")] == table


@needs_environment
def test_sweep_quick_ends_with_a_picture_and_goes_on_with_more_points(tmp_path):
    flags = ["--", "--valid-size", "40"]

    def go(**environment):
        environment = {"RUNS": str(tmp_path), "MAX_UPDATE": "1", "ARCHS": "skip_gru", "LAMBDAS": "1e-4", **environment}
        process = recipe("sweep.sh", "--quick", *flags, **environment)
        assert process.returncode == 0, process.stderr[-2000:]
        lines = process.stdout.splitlines()
        trained = [line.split(",")[0] for line in lines if "update 1: mse" in line]
        return trained, [line.split("|")[1].strip() for line in lines if line.startswith("|")][2:]

    assert go(BASELINES="") == (["skip_gru-1e-4 seed 1"], ["Skip GRU, λ=1e-4"])
    both = ["Skip GRU, λ=1e-4", "GRU, random skips, p=0.3"]
    assert go(BASELINES="random", SKIP_PROBS="0.3") == (["random_skip_gru-0.3 seed 1"], both)
    folder = tmp_path / "sweep-adding-quick"
    assert (folder / "tradeoff.png").stat().st_size > 10000
    cfg = torch.load(folder / "skip_gru-1e-4/seed1/checkpoint_last.pt", weights_only=False)["cfg"]
    assert cfg["criterion"]["cost_per_sample"] == 1e-4 and cfg["task"]["sequence_length"] == 30
    assert cfg["model"]["hidden_size"] == 64 and cfg["model"]["gru_reset"] == "before"
    assert cfg["task"]["valid_size"] == 40
    flags[-1] = "50"
    other = recipe("sweep.sh", "--quick", *flags, RUNS=str(tmp_path))
    assert other.returncode == 2 and other.stderr.startswith(f"error: FLAG: {folder} holds runs with the flags")


@needs_environment
def test_sweep_of_a_task_of_ones_own(tmp_path):
    flags = """--user-dir user_dir_examples/own_plugin --task temporal_order --train-size 64 --valid-size 36
        --criterion label_smoothed_cross_entropy_with_budget --hidden-size 8""".split()
    environment = {"RUNS": str(tmp_path), "MAX_UPDATE": "1", "SEEDS": "2", "LAMBDAS": "0.5", "ARCHS": "skip_lstm"}
    process = recipe("sweep.sh", "own", "--", *flags, METRIC="top2_accuracy", **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    assert "| model | update_fraction | top2_accuracy | runs |" in process.stdout
    assert "| Skip LSTM, λ=0.5 | " in process.stdout and "LSTM, every sample" not in process.stdout
    assert (tmp_path / "sweep-own/tradeoff.png").stat().st_size > 10000


@needs_environment
def test_stopping_a_recipe_stops_its_runs(tmp_path):
    command = ["bash", ROOT / "recipes/frequency.sh", "gru"]
    environment = {**os.environ, "RUNS": str(tmp_path), "SAMPLING_PERIODS": "1", "SEEDS": "1 2", "JOBS": "2"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: len(running(tmp_path)) >= 2)
    for settings in running(tmp_path):
        assert "--lr 1e-4 " in settings and "--lr 1e-3" not in settings  # the paper's
        assert f"{tmp_path}/frequency-1ms/gru/seed" in settings and "--stop-update-fraction 1" in settings
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    until(lambda: running(tmp_path) == [])
    assert not list(tmp_path.glob("**/finished-*"))


def running(folder):
    """Command lines of fairseq-train whose runs are below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # a process that has just ended
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in found if f"--save-dir {folder}" in command]


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    "name,arguments,environment,message",
    [
        ("quickstart.sh", ["0"], {}, "error: MAX_UPDATE: expected a whole number of at least 1, got '0'"),
        ("quickstart.sh", [], {"MAX_UPDATE": "0"}, "error: MAX_UPDATE: expected a whole number of at least 1, got '0'"),
        ("quickstart.sh", ["many"], {}, "error: MAX_UPDATE: expected a whole number of at least 1, got 'many'"),
        ("adding.sh", [], {"MAX_UPDATE": "0"}, "error: MAX_UPDATE: expected a whole number of at least 1, got '0'"),
        ("adding.sh", [], {"JOBS": "-1"}, "error: JOBS: expected a whole number of at least 1, got '-1'"),
        ("adding.sh", [], {"SEEDS": "1 x"}, "error: SEEDS: expected a whole number of at least 1, got 'x'"),
        ("adding.sh", [], {"SEEDS": "*"}, "error: SEEDS: expected a whole number of at least 1, got '*'"),
        ("adding.sh", [], {"SEEDS": "2 1 2"}, "error: SEEDS: '2' is given twice"),
        ("adding.sh", ["gru", "lstm", "gru"], {}, "error: ROW: 'gru' is given twice"),
        ("adding.sh", ["rnn"], {}, "unknown row 'rnn' of table 'adding'; known: lstm,"),
        ("frequency.sh", ["rnn"], {}, "unknown row 'rnn' of table 'frequency-1ms'; known: lstm,"),
        ("frequency.sh", ["--quick"], {"MAX_UPDATE": "x"}, "error: MAX_UPDATE: expected a whole number of at least 1"),
        ("imdb.sh", [], {}, "error: ACLIMDB: expected the folder aclImdb or its .tar.gz, got ''"),
        ("imdb.sh", ["no.gz", "gru"], {}, "error: ACLIMDB: expected the folder aclImdb or its .tar.gz, got 'no.gz'"),
        ("imdb.sh", [ROOT], {"WORD2VEC": "no.bin"}, "error: WORD2VEC: expected a file of word vectors, got 'no.bin'"),
        ("imdb.sh", [ROOT], {"LENGTHS": "200 300"}, "error: LENGTHS: expected 200, 400 or both, got '200 300'"),
        ("imdb.sh", [ROOT], {"LENGTHS": "200 200"}, "error: LENGTHS: '200' is given twice"),
        ("imdb.sh", [ROOT, "rnn"], {}, "unknown row 'rnn' of table 'imdb-200'; known: lstm,"),
        ("mnist.sh", [], {}, "error: DATA_DIR: expected a folder with the four files of the MNIST database, got ''"),
        ("mnist.sh", ["no/folder"], {}, "error: DATA_DIR: expected a folder with the four files of the MNIST"),
        ("mnist.sh", [ROOT, "--quick", "gru"], {}, "error: ROW: --quick has a model of its own, got 'gru'"),
        ("mnist.sh", [ROOT], {"VALID_SIZE": "0"}, "error: VALID_SIZE: expected a whole number of at least 1, got '0'"),
        ("charades.sh", [], {}, "error: DATA_DIR: expected a folder that skiprnn-prepare features made, got ''"),
        (
            "ucf101.sh",
            [ROOT],
            {},
            f"error: DATA_DIR: expected a folder that skiprnn-prepare features made, got '{ROOT}'",
        ),
        ("smartwatch.sh", [], {}, "error: FILE.npz: expected a file of recordings, got ''"),
        ("smartwatch.sh", ["a.npz", "b.npz"], {}, "error: FILE.npz: expected one, got 'a.npz' and 'b.npz'"),
        ("smartwatch.sh", [__file__], {"CELLS": "gru rnn"}, "error: CELLS: expected gru, lstm or both, got 'rnn'"),
        ("smartwatch.sh", [__file__], {"LAMBDAS": "x"}, "error: LAMBDAS: expected numbers of at least 0, got 'x'"),
        ("sweep.sh", ["mnist"], {}, "error: TASK: expected adding, frequency or own, got 'mnist'"),
        ("sweep.sh", ["adding", "frequency"], {}, "error: TASK: expected one, got 'adding' and 'frequency'"),
        ("sweep.sh", ["--quick", "own"], {}, "error: --quick: expected task adding or frequency, got own"),
        ("sweep.sh", ["--", "--seed=1"], {}, "error: FLAG: --seed=1 is set by ARCHS, LAMBDAS,"),
        ("sweep.sh", [], {"LAMBDAS": "0 1e-4x"}, "error: LAMBDAS: expected numbers of at least 0, got '1e-4x'"),
        ("sweep.sh", [], {"LAMBDAS": "0 1e-4 0"}, "error: LAMBDAS: '0' is given twice"),
        ("sweep.sh", [], {"SKIP_PROBS": "-1"}, "error: SKIP_PROBS: expected numbers of at least 0, got '-1'"),
        ("sweep.sh", [], {"ARCHS": "full_gru"}, "error: ARCHS: expected architectures with a gate"),
        ("sweep.sh", [], {"BASELINES": "all"}, "error: BASELINES: expected full, random, both or none, got 'all'"),
        (
            "frequency.sh",
            [],
            {"SAMPLING_PERIODS": "1 2"},
            "error: SAMPLING_PERIODS: expected 1, 0.5 or both, got '1 2'",
        ),
    ],
    ids=str,
)
@needs_environment
def test_bad_arguments(name, arguments, environment, message):
    process = recipe(name, *arguments, **environment)
    assert process.returncode == 2
    assert message in process.stderr and process.stderr.count("\n") == 1


@pytest.fixture
def checkout(tmp_path):
    """The scripts alone, in a folder without .venv whose name has a space."""
    folder = tmp_path / "my checkout"
    for name in ("recipes", "tests"):
        (folder / name).mkdir(parents=True)
        for script in (ROOT / name).glob("*.sh"):
            shutil.copy(script, folder / name)
    return folder


def fake_python(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("script", ["recipes/quickstart.sh", "tests/run.sh"])
@pytest.mark.parametrize("found", ["is Python 3.9.18", "is not there"])
def test_another_python_is_told_what_is_needed(checkout, script, found):
    old = checkout / "python3.9"
    if "not there" not in found:
        fake_python(old, 'if [ "$1" = --version ]; then echo Python 3.9.18; else exit 1; fi')
    process = run("bash", checkout / script, PYTHON=str(old))
    assert process.returncode == 1 and process.stderr.count("\n") == 1
    assert process.stderr.startswith(f"error: this needs Python 3.11 or 3.12, and {old} {found}. ")
    assert not (checkout / ".venv").exists()


def test_a_set_up_that_fails_leaves_nothing_to_be_taken_for_whole(checkout):
    broken = fake_python(checkout / "python", 'if [ "$1" = -m ]; then mkdir -p .venv/bin; exit 1; fi')
    process = run("bash", checkout / "recipes/quickstart.sh", PYTHON=broken)
    assert process.returncode == 1
    assert not (checkout / ".venv").exists()


def test_set_up_runs_again_where_what_it_builds_has_changed(checkout):
    """And in another checkout that shares .venv; it says so if there is no native library after it."""
    native = checkout / "skiprnn_plugin/ops/native"
    for folder in (native, checkout / ".venv/bin"):
        folder.mkdir(parents=True)
    (checkout / ".venv/bin/activate").touch()
    fake_python(checkout / ".venv/bin/python", 'if [ "$1 $2" = "-m pip" ]; then echo "$@" >>.venv/pip; fi')
    files = [checkout / "setup.py", native / "skiprnn.h", native / "kernels.cpp"]
    for file in files:
        file.touch()

    def set_age(file, seconds):
        os.utime(file, (time.time() - seconds, time.time() - seconds))

    def installs(folder=checkout):
        process = run("bash", "-c", "source recipes/setup.sh", cwd=folder)
        assert process.returncode == 0, process.stderr
        log = folder / ".venv/pip"
        installed = log.exists() and "install --quiet --disable-pip-version-check -e .[dev]" in log.read_text()
        assert installed == ("Setting up" in process.stderr)
        log.unlink(missing_ok=True)
        return installed, "library was not built" in process.stderr

    assert installs() == (True, True)
    assert installs() == (False, False)
    (native / "libskiprnn.so").touch()
    for changed in files:
        for file in files:
            set_age(file, 300)
        set_age(changed, 100)
        set_age(checkout / ".venv/installed", 200)
        assert installs() == (True, False)
        assert installs() == (False, False)
    other = shutil.copytree(checkout, checkout.parent / "other")
    assert installs(other) == (True, False)
    assert installs(other) == (False, False)
