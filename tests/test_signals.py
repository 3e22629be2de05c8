"""SIGTERM and SIGINT end fairseq-train in order: saved, without a traceback, and resumed as if nothing had been."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from .command_line import ROOT, run, train, train_options
from .compare import logged

# 4 updates an epoch
OPTIONS = ("--lr", 0.01, "--max-update", 12, "--patience", 50)


class SignalAt(logging.Handler):
    """Sends this process a signal when fairseq first logs the given words."""

    def __init__(self, words, number):
        super().__init__()
        self.words, self.number = words, number

    def emit(self, record):
        if self.words is not None and self.words in record.getMessage():
            self.words = None
            os.kill(os.getpid(), self.number)


@pytest.fixture
def signal_at():
    """``signal_at(...)``: see SignalAt."""
    loggers = [logging.getLogger(name) for name in ("fairseq.logging.progress_bar", "fairseq_cli.train")]
    added = []

    def add(words, number):
        handler = SignalAt(words, number)
        for logger in loggers:
            logger.setLevel(logging.INFO)
            logger.addHandler(handler)
        added.append(handler)

    yield add
    for logger in loggers:
        for handler in added:
            logger.removeHandler(handler)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    return {freq: train(folder / str(freq), *OPTIONS, "--update-freq", freq) for freq in (1, 2)}


def state(folder, name="checkpoint_last.pt"):
    return torch.load(folder / name, weights_only=False)


@pytest.mark.parametrize(
    "words, number, after",
    [
        ('"num_updates": "2"', signal.SIGTERM, 3),  # logged before the second update is over; seen by the third
        ('"num_updates": "7"', signal.SIGINT, 8),  # the third update of the second epoch: stops at its end, validated
        ("begin validation on", signal.SIGTERM, 5),  # finishes it, at the first epoch's end, and makes an update
        ("end of epoch 1", signal.SIGINT, 5),
    ],
    ids=["mid-epoch", "end of an epoch", "validation", "between epochs"],
)
def test_saves_and_resumes(tmp_path, signal_at, uninterrupted, caplog, words, number, after):
    caplog.set_level(logging.INFO, "skiprnn_plugin")
    signal_at(words, number)
    first = train(tmp_path, *OPTIONS)
    assert [entry["num_updates"] for entry in first["train_inner"]] == list(range(1, after + 1))
    assert len(first.get("valid", [])) == after // 4  # none on the way out
    said = [record.getMessage() for record in caplog.records if record.name == "skiprnn_plugin.tasks.stopping"]
    assert said == [
        f"stopped by {number.name} after {after} training updates: the same command resumes from "
        f"{tmp_path}/checkpoint_last.pt"
    ]
    settings = state(tmp_path)["cfg"]  # the user's
    assert settings["optimization"]["max_update"] == 12 and not settings["dataset"]["disable_validation"]
    second = train(tmp_path, *OPTIONS)
    assert logged(first, second) == logged(uninterrupted[1])


def test_update_freq(tmp_path, signal_at, uninterrupted):
    signal_at('"num_updates": "2"', signal.SIGTERM)
    options = (*OPTIONS, "--update-freq", 2)
    first = train(tmp_path, *options)
    assert logged(first, train(tmp_path, *options)) == logged(uninterrupted[2])
    assert len(first["train_inner"]) == 3


def test_after_the_last_update_training_ends_as_usual(tmp_path, signal_at):
    signal_at("begin validation on", signal.SIGTERM)
    stats = train(tmp_path, "--max-update", 4)
    assert len(stats["train_inner"]) == 4 and len(stats["valid"]) == 1


def test_after_training_a_signal_does_what_it_did_before(tmp_path):
    train(tmp_path, "--max-update", 1)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("options", [("--no-save",), ("--no-last-checkpoints",)], ids=str)
def test_says_so_if_nothing_is_saved(tmp_path, signal_at, caplog, options):
    caplog.set_level(logging.INFO, "skiprnn_plugin")
    signal_at('"num_updates": "2"', signal.SIGTERM)
    train(tmp_path, *OPTIONS, *options)
    assert "stopped by SIGTERM after 3 training updates: no checkpoint to resume from is saved" in caplog.text
    assert not (tmp_path / "checkpoint_last.pt").exists()


def test_a_second_signal_ends_at_once(tmp_path, signal_at, monkeypatch):
    monkeypatch.setattr("skiprnn_plugin.tasks.stopping.SAME_REQUEST", 0)
    signal_at("begin validation on", signal.SIGINT)
    signal_at("begin validation on", signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, *OPTIONS)
    assert not (tmp_path / "checkpoint_last.pt").exists()


def test_what_a_launcher_passes_on_at_once_is_no_second_signal(tmp_path, signal_at):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal_at("begin validation on", number)
    assert len(train(tmp_path, *OPTIONS)["train_inner"]) == 5


def test_an_ignored_signal_stays_ignored(tmp_path, signal_at):
    """As under nohup."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        signal_at('"num_updates": "2"', signal.SIGINT)
        assert len(train(tmp_path, "--max-update", 4)["train_inner"]) == 4
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_programs_own_handler_is_called_too(tmp_path, signal_at):
    calls = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: calls.append(number))
    try:
        signal_at('"num_updates": "2"', signal.SIGTERM)
        assert len(train(tmp_path, *OPTIONS)["train_inner"]) == 3
        assert calls == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGTERM])
def test_a_handler_that_other_code_has_set_again_gives_the_signal_back(number):
    """Other code took the handler while a run trained, and put it back after the run had restored its own."""
    program = f"""
import signal
from skiprnn_plugin.tasks.stopping import SignalWatch
watch = SignalWatch()
ours = signal.signal({int(number)}, signal.SIG_DFL)
watch.restore()
signal.signal({int(number)}, ours)
signal.raise_signal({int(number)})
"""
    process = run(sys.executable, "-c", program, cwd=ROOT)
    assert process.returncode == -number and "RecursionError" not in process.stderr


def test_training_in_a_thread(tmp_path):
    stats = []
    thread = threading.Thread(target=lambda: stats.append(train(tmp_path, "--max-update", 2)))
    thread.start()
    thread.join()
    assert len(stats) == 1 and len(stats[0]["train_inner"]) == 2


def start(output, *options):
    """``fairseq-train`` in a process group of its own, as a shell starts it."""
    code = "from fairseq_cli.train import cli_main; cli_main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *train_options(), *options],
        stdout=output, stderr=output, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("kill", [os.killpg, os.kill], ids=["group", "process"])
def test_with_workers(tmp_path, kill):
    """Ctrl-C in a terminal, or a scheduler's signal, reaches the worker processes too; here both come at once."""
    options = ["--num-workers", "2", "--update-freq", "2", "--train-size", "6400", "--max-update", "100000"]
    with open(tmp_path / "output", "w+") as output:
        process = start(output, *options, "--save-dir", str(tmp_path))
        until(lambda: '"num_updates": "3"' in (tmp_path / "output").read_text(), process)
        for number in (signal.SIGINT, signal.SIGTERM):
            kill(process.pid, number)
        assert process.wait(timeout=60) == 0
    text = (tmp_path / "output").read_text()
    assert "Traceback" not in text and "Error" not in text
    assert text.count("| stopped by SIG") == 1
    assert state(tmp_path)["optimizer_history"][-1]["num_updates"] >= 3


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kill, number", [(os.kill, signal.SIGTERM), (os.killpg, signal.SIGINT)], ids=["process", "group"]
)
def test_processes_that_it_started(tmp_path, kill, number):
    """The one that waits for them passes the signal on, and ends after them."""
    options = ["--distributed-world-size", "2", "--train-size", "6400", "--max-update", "100000"]
    with open(tmp_path / "output", "w+") as output:
        process = start(output, *options, "--save-dir", str(tmp_path))
        until(lambda: '"num_updates": "3"' in (tmp_path / "output").read_text(), process)
        kill(process.pid, number)
        assert process.wait(timeout=60) == 0
    text = (tmp_path / "output").read_text()
    assert "Traceback" not in text and text.count(f"| stopped by {number.name} after ") == 1
    assert state(tmp_path)["optimizer_history"][-1]["num_updates"] >= 3


@pytest.mark.parametrize("handler, error", [("SIG_DFL", ""), ("lambda *_: None", "RuntimeError: a process has failed")])
def test_processes_that_fail_at_a_signal(handler, error):
    """As those do that do not train yet: the one that waits for them ends as the signal says, or with their error."""
    code = f"""if True:
        import os, signal
        from signal import SIG_DFL
        from skiprnn_plugin._fairseq.signals import passed_on
        signal.signal(signal.SIGTERM, {handler})
        with passed_on():
            os.kill(os.getpid(), signal.SIGTERM)
            raise RuntimeError("a process has failed")
    """
    process = run(sys.executable, "-c", code)
    assert process.returncode == (1 if error else -signal.SIGTERM)
    assert process.stderr.endswith(f"{error}\n" if error else "") and bool(process.stderr) == bool(error)


needs_environment = pytest.mark.skipif(
    not (ROOT / ".venv/installed").exists(), reason="recipes use .venv, which tests/run.sh makes"
)


@pytest.mark.thorough
@needs_environment
@pytest.mark.parametrize(
    "script, number, to_the_run",
    [
        (["adding.sh", "gru"], signal.SIGINT, False),
        (["quickstart.sh"], signal.SIGTERM, True),
    ],
    ids=["Ctrl-C", "the run alone"],
)
def test_a_recipe_that_is_stopped_saves_and_is_not_finished(tmp_path, script, number, to_the_run):
    name, *arguments = script
    environment = {**os.environ, "RUNS": str(tmp_path), "SEEDS": "1", "MAX_UPDATE": "5000"}
    process = subprocess.Popen(
        ["bash", ROOT / "recipes" / name, *arguments], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    run = tmp_path / ("quickstart" if name == "quickstart.sh" else "adding/gru/seed1")
    log = run / "train.log"
    until(lambda: log.exists() and "Start iterating over samples" in log.read_text(), process)
    target = fairseq_train_in(run) if to_the_run else process.pid
    os.kill(target, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (1 if to_the_run else 130)
    assert log.read_text().count("| stopped by SIGTERM after ") == 1 and "Traceback" not in log.read_text()
    assert 0 < state(run)["optimizer_history"][-1]["num_updates"] < 5000
    assert not list(tmp_path.glob("**/finished-*")) and fairseq_train_in(run) is None
    assert errors.splitlines()[-1].startswith("error: training failed or was stopped" if to_the_run else "stopped; ")


def fairseq_train_in(run):
    """The process that trains in a folder, or None. It is the first of those with its command line, which a process
    that it has just forked still has."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # a process that has just ended
            words = path.read_bytes().decode(errors="replace").split("\0")
            if "--save-dir" in words and str(run) in words and "bash" not in words[0]:
                found.append(int(path.parent.name))
    return min(found, default=None)


def until(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
