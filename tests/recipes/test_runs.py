"""What recipes of many runs do alike."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

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
