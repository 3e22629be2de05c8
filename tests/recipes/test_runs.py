"""What recipes of many runs do alike."""

import contextlib
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
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


def launch(tmp_path, *flags, seeds="3", max_update=20, runs="runs"):
    """Launch two runs, one after the other, that do not train; returns the finished process, and which have begun."""
    script = f"""source recipes/table.sh
        logged() {{ touch "${{1%/*}}/trained"; }}
        seeds=({seeds}) jobs=1 max_update={max_update} metric="mse MSE"
        launch "" "x y" "" "$@" && finish"""
    process = run("bash", "-c", script, "recipe", *flags, cwd=ROOT, RUNS=str(tmp_path / runs))
    trained = sorted(tmp_path.glob(f"{runs}/x y/*/trained"))
    for path in trained:
        path.unlink()
    return process, [path.parent.name for path in trained]


FLAGS = ("--task", "adding", "--lr", "1e-4", "1e-5", "--data-dir", "{}/runs/my data")


@pytest.mark.parametrize(
    "other, expected, got",
    [
        (("--lr", "1e-3"), "--lr 1e-3", "--lr 1e-4 1e-5"),
        (("--lr", "1e-4", "1e-5", "--skip-prob", "0"), "--skip-prob 0", ""),
        (("--lr", "1e-4", "1e-5", "--data-dir", "{}/x"), "--data-dir {}/x", "--data-dir RUNS/my\\ data"),
    ],
    ids=["value", "more", "data"],
)
def test_runs_are_not_taken_for_those_of_other_flags(tmp_path, other, expected, got):
    flags, others = ([word.format(tmp_path) for word in words] for words in (FLAGS, FLAGS[:2] + other))
    if "--data-dir" not in other:
        others += flags[-2:]
    (tmp_path / "runs").mkdir()
    assert launch(tmp_path, *flags)[1] == ["seed3"]
    (tmp_path / "runs/x y/seed3/finished-20").unlink()
    for max_update in (20, 20, 30):
        process, trained = launch(tmp_path, *flags, max_update=max_update)
        assert process.returncode == 0, process.stderr
    assert trained == ["seed3"] and launch(tmp_path, *flags, max_update=30)[1] == []
    process, trained = launch(tmp_path, *others, seeds="2 3")
    assert process.returncode == 2 and trained == []
    message = f"'{expected}' in {{}}/runs/x y/seed3, got one with '{got}'; set RUNS to".format(*3 * [tmp_path])
    assert process.stderr.startswith(f"error: RUNS: expected a run with the flags {message}")
    assert process.stderr.count("\n") == 1 and not (tmp_path / "runs/x y/seed2").exists()


def test_runs_of_an_earlier_version_and_moved_runs_are_resumed(tmp_path):
    flags = [word.format(tmp_path) for word in FLAGS]
    (tmp_path / "runs").mkdir()
    launch(tmp_path, *flags)
    (tmp_path / "runs/x y/seed3/flags").unlink()
    assert launch(tmp_path, *flags, max_update=30)[1] == ["seed3"]
    (tmp_path / "runs").rename(tmp_path / "moved")
    flags[-1] = f"{tmp_path}/moved/my data"
    assert launch(tmp_path, *flags, max_update=40, runs="moved")[1] == ["seed3"]


def prepare(tmp_path, source):
    """Prepare a source by a command that notes that it was called."""
    script = """source recipes/table.sh && set -e
        skiprnn-prepare() { sleep 0.2 && mkdir "$3" && echo "$1 $2" >>"$RUNS/prepared"; }
        prepare FILE kind "$1" data
        echo "$data" """
    return run("bash", "-c", script, "recipe", source, cwd=ROOT, RUNS=str(tmp_path / "runs"))


@pytest.mark.parametrize("change", ["path", "size", "time"])
def test_data_are_prepared_once_and_not_taken_for_those_of_another_source(tmp_path, change):
    source, data = tmp_path / "my source", tmp_path / "runs/data"
    source.write_text("one")
    with ThreadPoolExecutor(2) as pool:  # several recipes at the same time
        for process in pool.map(prepare, 2 * [tmp_path], 2 * [source]):
            assert (process.returncode, process.stdout) == (0, f"{data}\n"), process.stderr
    assert (tmp_path / "runs/prepared").read_text() == f"kind {source}\n"
    if change == "path":
        other = tmp_path / "other"
        source.rename(other)
    else:
        other = source
        other.write_text("three" if change == "size" else "one")
        os.utime(other, (0, 0))
    process = prepare(tmp_path, other)
    assert process.returncode == 2 and process.stderr.count("\n") == 1 and process.stdout == ""
    assert process.stderr.startswith(f"error: FILE: expected {source} (3 bytes, changed at ")
    assert f"), from which {data} was made, got {other} (" in process.stderr and "set RUNS to" in process.stderr
    (tmp_path / "runs/data.source").unlink()  # as an earlier version left it
    assert prepare(tmp_path, other).returncode == 0


def test_runs_are_not_taken_for_those_of_other_data_of_the_same_name(tmp_path):
    """If only the data are removed."""
    source = tmp_path / "source"
    script = """source recipes/table.sh && set -e
        skiprnn-prepare() { mkdir "$3"; }
        logged() { :; }
        seeds=(3) jobs=1 max_update=20 metric="mse MSE"
        prepare FILE kind "$1" data
        launch "" x "" --data-dir "$data"
        finish
        rmdir "$data" """
    for text in ("one", "two"):
        source.write_text(text)
        process = run("bash", "-c", script, "recipe", source, cwd=ROOT, RUNS=str(tmp_path / "runs"))
    assert process.returncode == 2 and f"'RUNS has data of {source} (3 bytes, " in process.stderr


def test_data_that_can_not_be_prepared_leave_no_trace(tmp_path):
    script = """source recipes/table.sh && set -e
        skiprnn-prepare() { return 3; }
        prepare FILE kind tests data
        echo went on"""
    process = run("bash", "-c", script, cwd=ROOT, RUNS=str(tmp_path / "runs"))
    assert (process.returncode, process.stdout) == (3, "") and not list((tmp_path / "runs").iterdir())


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
