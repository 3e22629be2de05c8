"""The tests' own way of running fairseq's commands gives what the commands themselves give."""

import sys

import pytest

from .command_line import ROOT, compose, run, train_options
from .forked import run_forked


@pytest.mark.parametrize(
    "task, options",
    [
        ("adding", ()),
        ("adding", ("--arch", "full_lstm", "--lr", "0.1,0.2", "--update-freq", "1,2", "--adam-betas", "(0.5, 0.9)")),
        ("frequency_discrimination", ("--criterion", "with_budget", "--base-criterion", "cross_entropy", "--fp16")),
        ("imdb_sentiment", ("--gate-layers", "0", "--lr-scheduler", "inverse_sqrt", "--data-dir", "a 'b', [c]={d}")),
    ],
    ids=["as it is", "lists", "other parts", "characters"],
)
def test_configuration_is_hydras(monkeypatch, task, options):
    from fairseq import options as fairseq_options
    from fairseq.dataclass import utils

    parser = fairseq_options.get_training_parser()
    arguments = fairseq_options.parse_args_and_arch(parser, [*train_options(task), *options])
    expected = utils.convert_namespace_to_omegaconf(arguments)
    monkeypatch.setattr(utils, "compose", compose)
    for _ in range(2):  # the second time all of it is kept
        assert utils.convert_namespace_to_omegaconf(arguments) == expected
    assert expected.task._name == task and expected.checkpoint.save_dir == "checkpoints"


def test_configurations_are_independent(monkeypatch):
    from fairseq import options
    from fairseq.dataclass import utils

    monkeypatch.setattr(utils, "compose", compose)
    arguments = options.parse_args_and_arch(options.get_training_parser(), train_options())
    first = utils.convert_namespace_to_omegaconf(arguments)
    first.optimization.lr[0] = 5.0
    first.model.hidden_size = 99
    second = utils.convert_namespace_to_omegaconf(arguments)
    assert (second.optimization.lr, second.model.hidden_size) == ([1e-4], 8)


PROGRAM = """
import os, sys
print(sys.argv, sys.path[:2], os.getcwd(), os.environ["GIVEN"], __name__, "skiprnn_plugin" in sys.modules)
print(repr(sys.stdin.read()), file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("started", ["-c", "-m", "a file"])
def test_a_forked_process_does_what_a_new_one_does(tmp_path, started):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = {"-c": ["-c", PROGRAM], "-m": ["-m", "program"], "a file": [tmp_path / "program.py"]}[started]
    options = {"cwd": tmp_path, "GIVEN": "value", "PYTHONPATH": ROOT}
    for status in ("0", "3"):
        got, expected = run_forked(*words, status, **options), run(sys.executable, *words, status, **options)
        assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)


def test_a_forked_process_ends_as_a_new_one_does():
    """After its threads, and with what is registered for the end; an exception and a signal show in the status."""
    code = """
import atexit, threading, time
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
raise ValueError("an error")
"""
    process = run_forked("-c", code)
    assert (process.stdout, process.returncode) == ("thread\nat exit\n", 1)
    assert process.stderr.splitlines()[-1] == "ValueError: an error"
    assert run_forked("-c", "import sys; sys.exit('a message')").stderr == "a message\n"
    assert run_forked("-c", "import os; os.kill(os.getpid(), 15)").returncode == -15
    assert run_forked("-c", "print(1)").stdout == "1\n"


def test_a_forked_process_has_imported_fairseq_alone():
    process = run_forked("-c", "import sys; print([n in sys.modules for n in ('fairseq.trainer', 'skiprnn_plugin')])")
    assert process.stdout == "[True, False]\n"
