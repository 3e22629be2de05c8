"""What recipes of many runs do alike."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ..command_line import ROOT, run
from .start import needs_environment


def test_pictures_are_of_the_first_seed():
    script = """source recipes/table.sh
        train() { :; }
        seeds=(3 4) jobs=1 RUNS=r
        launch "" a/x x && launch "" a/y y && wait_for_runs && echo "${first_runs[@]}; ${runs[@]}" """
    assert run("bash", "-c", script, cwd=ROOT).stdout == "r/a/x/seed3 r/a/y/seed3; " + (
        "r/a/x/seed3 r/a/x/seed4 r/a/y/seed3 r/a/y/seed4\n"
    )


SESSION = "Start iterating over samples\n"
LIMIT = "Stopping training due to num_updates: {0} >= max_update: {0}\n"
SAVED = (
    "INFO | fairseq.checkpoint_utils | Saved checkpoint r/checkpoint_best.pt (epoch 1 @ {} updates, score 0.5 @ 9)\n"
)
DONE = "INFO | fairseq_cli.train | done training in 1.0 seconds\n"


@pytest.mark.parametrize(
    "log, is_trained",
    [
        (SESSION + LIMIT.format(20) + SAVED.format(20) + DONE, True),
        (SESSION + LIMIT.format(20) + SAVED.format(20), True),  # killed before it could say so
        (SESSION + SAVED.format(10) + SESSION + LIMIT.format(20), False),  # killed before it was saved
        (SESSION + LIMIT.format(3) + SAVED.format(3) + DONE, False),  # as far as fewer training updates
        (SESSION + SAVED.format(3) + DONE, True),  # solved
        (SESSION + SAVED.format(3) + DONE + SESSION, False),
        (SESSION + LIMIT.format(100) + SAVED.format(100) + DONE, True),
        ("", False),
    ],
    ids=["finished", "saved", "not saved", "shorter", "solved", "resumed", "longer", "empty"],
)
def test_a_run_that_was_killed_after_its_last_checkpoint_is_finished(tmp_path, log, is_trained):
    """It would get one training update more."""
    run_folder = tmp_path / "x/seed3"
    run_folder.mkdir(parents=True)
    (run_folder / "train.log").write_text(log)
    script = """source recipes/table.sh
        logged() { touch "$RUNS/trained"; }
        seeds=(3) jobs=1 max_update=20 metric="mse MSE"
        launch "" x "" && finish"""
    for has_checkpoint in (False, True):
        if has_checkpoint:
            (run_folder / "finished-20").unlink()
            (tmp_path / "trained").unlink()
            (run_folder / "checkpoint_last.pt").touch()
        process = run("bash", "-c", script, cwd=ROOT, RUNS=str(tmp_path))
        assert process.returncode == 0 and (run_folder / "finished-20").exists()
        assert (tmp_path / "trained").exists() != (has_checkpoint and is_trained)


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
