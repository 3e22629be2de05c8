"""all.sh: the queue of the runs that the tables lack."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from recipes import all_runs

from ..command_line import ROOT, run
from .start import needs_environment, recipe

STOPPED = "stopped; run the same command again to resume"


def plan(results, *options):
    command = ["-m", "recipes.all_runs", "--relative-to", str(ROOT), "--results", str(results), "--plan", *options]
    process = run(sys.executable, *command, cwd=ROOT)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def test_plan_lists_the_cheapest_lacking_runs_first(tmp_path):
    (tmp_path / "finished.tsv").write_text(
        "table\trow\tseed\tmax_update\tminutes\tdate\tmachine\n"
        "adding\tskip-gru-0\t2\t60000\t25\t2026-01-01\tmachine\n"
        "adding\tskip-gru-0\t1\t100\t1\t2026-01-01\tmachine\n"
    )
    rows = ("--rows", "skip-lstm-0", "skip-gru-0", "gru", "--seeds", "1", "2")
    lines = plan(tmp_path, "--only", "frequency-1ms", "adding", *rows)
    assert [line.split(":")[0] for line in lines[:-3]] == [
        "adding, gru, seed 1", "adding, gru, seed 2",  # ends when it has solved the task
        "adding, skip-gru-0, seed 1",  # has been trained, but not for as long
        "adding, skip-lstm-0, seed 1", "adding, skip-lstm-0, seed 2",
        "frequency-1ms, gru, seed 1", "frequency-1ms, gru, seed 2",
        "frequency-1ms, skip-gru-0, seed 1", "frequency-1ms, skip-gru-0, seed 2",
        "frequency-1ms, skip-lstm-0, seed 1", "frequency-1ms, skip-lstm-0, seed 2",
    ]  # fmt: skip
    assert lines[-3].startswith("adding: 5 runs") and lines[-1].startswith("11 of 12 runs are lacking")
    shorter = plan(tmp_path, "--only", "adding", "--rows", "skip-gru-0", "--seeds", "1", "2", "--max-update", "100")
    assert shorter[-1].startswith("0 of 2 runs")


@pytest.mark.parametrize(
    "options, error",
    [
        (["--until", "0"], "--until: expected a number of hours above 0, got 0.0"),
        (["--seeds", "2", "2"], "--seeds: expected different whole numbers of at least 1, got 2 2"),
        (["--jobs", "0"], "--jobs: expected a whole number of at least 1, got 0"),
        (["--mnist", "missing"], "--mnist: no such file or folder"),
        (["--only", "ading"], "--only: invalid choice: 'ading'"),
        (["--only", "adding", "--rows", "skip-gru-1e-3"], "--only, --rows: expected at least one run, got none"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_options_end_it_with_one_line(tmp_path, options, error):
    process = run(sys.executable, "-m", "recipes.all_runs", "--relative-to", str(tmp_path), *options, cwd=ROOT)
    assert process.returncode == 2 and process.stdout == ""
    assert len(process.stderr.splitlines()) == 1 and error in process.stderr


@needs_environment
@pytest.mark.thorough
def test_finished_runs_are_kept_and_not_repeated(tmp_path):
    def go(seeds, max_update):
        options = ("--results", "mine", "--only", "adding", "--rows", "skip-gru-1e-5", "--max-update", max_update)
        process = recipe("all.sh", *options, "--seeds", *seeds, cwd=tmp_path, RUNS="runs")
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stderr

    assert go(["1"], "1").count("finished; its numbers are in") == 1
    assert go(["1", "2"], "2").count("finished; its numbers are in") == 2  # the first run is resumed
    for file in ("adding.json", "best/adding.json"):
        (group,) = json.loads((tmp_path / "mine" / file).read_text())
        runs = sorted((run["options"]["seed"], run["options"]["num_updates"]) for run in group["runs"])
        assert group["row"] == "skip-gru-1e-5" and [seed for seed, _ in runs] == [1, 2]
        assert file.startswith("best") or runs == [(1, 2), (2, 2)]
        kept = [sorted(run.get("validations", [{}])[-1]) for run in group["runs"]]
        names = ["epoch", "flops", "mse", "num_updates", "solved", "update_fraction"]
        assert kept == [[] if file.startswith("best") else names] * 2
    page = (tmp_path / "mine/tables.md").read_text()
    assert page.count("| Skip GRU, lambda=1e-5 | Yes | 50.7% ± 2.6% | 9.40e5 |") == 2 and "| 2 | 2 |\n" in page
    finished = [line.split("\t")[:4] for line in (tmp_path / "mine/finished.tsv").read_text().splitlines()]
    assert finished[1] == ["adding", "skip-gru-1e-5", "1", "1"]
    assert sorted(finished[2:]) == [["adding", "skip-gru-1e-5", seed, "2"] for seed in "12"]
    assert "no run is lacking" in go(["1", "2"], "2")


@needs_environment
@pytest.mark.thorough
def test_a_signal_saves_the_runs_and_a_second_queue_is_refused(tmp_path):
    command = ["bash", str(ROOT / "recipes/all.sh"), "--results", "mine", "--only", "adding", "--rows", "skip-gru-0"]
    environment = {**os.environ, "RUNS": str(tmp_path / "runs")}
    process = subprocess.Popen(
        [*command, "--jobs", "1"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        log = tmp_path / "runs/adding/skip-gru-0/seed1/train.log"
        deadline = time.time() + 300
        while not (log.exists() and "num_updates" in log.read_text()):
            assert process.poll() is None and time.time() < deadline
            time.sleep(0.2)
        second = run(*command, cwd=tmp_path, RUNS=str(tmp_path / "runs"))
        assert second.returncode == 2 and "is in use by another all.sh" in second.stderr.splitlines()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=120)[1]
    assert process.returncode == 130 and errors.splitlines()[-1] == STOPPED
    assert (log.parent / "checkpoint_last.pt").exists() and not (tmp_path / "mine/finished.tsv").exists()


def test_a_table_gets_its_place_and_its_lead_on_the_page(tmp_path, monkeypatch):
    page = tmp_path / "results.md"
    text = all_runs.PAGE.read_text()
    for name in all_runs.LEADS:
        assert f"<!-- begin {name} -->\n" in text
    page.write_text(text)
    monkeypatch.setattr(all_runs, "PAGE", page)
    monkeypatch.setattr(all_runs, "RESULTS", tmp_path)
    (tmp_path / "best").mkdir()
    shutil.copy(ROOT / "docs/results/adding.json", tmp_path / "best/adding.json")
    results = all_runs.Results(tmp_path)
    for _ in range(2):  # a second time replaces the first
        assert results.write_tables() == page
    table = text.split("<!-- begin adding -->\n\n")[1].split("<!-- end adding -->")[0]
    lead = "<!-- begin best/adding -->\n\nThe best checkpoint by validation loss, instead of the last:\n\n"
    assert page.read_text().count(lead + table) == 1
