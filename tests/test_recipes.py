"""The recipes, cut short, as a person starts them."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .command_line import ROOT, run

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
    assert (tmp_path / "quickstart/checkpoint_last.pt").exists()


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
        ("quickstart.sh", ["many"], {}, "error: MAX_UPDATE: expected a whole number of at least 1, got 'many'"),
        ("adding.sh", [], {"MAX_UPDATE": "0"}, "error: MAX_UPDATE: expected a whole number of at least 1, got '0'"),
        ("adding.sh", [], {"JOBS": "-1"}, "error: JOBS: expected a whole number of at least 1, got '-1'"),
        ("adding.sh", ["rnn"], {}, "unknown row 'rnn' of table 'adding'; known: lstm,"),
        ("frequency.sh", ["rnn"], {}, "unknown row 'rnn' of table 'frequency-1ms'; known: lstm,"),
        ("frequency.sh", ["--quick"], {"MAX_UPDATE": "x"}, "error: MAX_UPDATE: expected a whole number of at least 1"),
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


@pytest.mark.parametrize("script", ["recipes/quickstart.sh", "tests/run.sh"])
def test_another_python_is_told_what_is_needed(tmp_path, script):
    for folder in ("recipes", "tests"):
        (tmp_path / folder).mkdir()
    for name in ("recipes/setup.sh", script):
        shutil.copy(ROOT / name, tmp_path / name)
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo Python 3.9.18; else exit 1; fi\n')
    old.chmod(0o755)
    process = run("bash", tmp_path / script, PYTHON=str(old))
    assert process.returncode == 1
    assert "needs Python 3.11 or 3.12" in process.stderr and "is Python 3.9.18" in process.stderr
    assert not (tmp_path / ".venv").exists()
