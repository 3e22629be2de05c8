"""What can't be reported: one line that names it, exit code 2, nothing on standard output."""

import sys

import pytest
import torch

from skiprnn_plugin.cli.report import main

from ..command_line import ROOT
from ..forked import run_forked


def with_checkpoint(folder, content):
    path = folder / "checkpoint_last.pt"
    path.write_bytes(content)
    return path


def with_log(folder, content):
    path = folder / "train.log"
    path.write_text(content)
    return path


def log_without(run, text):
    return "".join(line for line in run.log.read_text().splitlines(True) if text not in line)


def truncated(folder, run):
    return with_checkpoint(folder, run.checkpoint.read_bytes()[:20000])


def other_file_of_torch(folder, run):
    torch.save({"weight": torch.zeros(1)}, folder / "checkpoint_last.pt")
    return folder / "checkpoint_last.pt"


def several_logs(folder, run):
    for name in ("a.log", "b.log", "._a.log"):
        (folder / name).write_text("")
    return folder


def with_json(folder, content):
    path = folder / "report.json"
    path.write_text(content)
    return path


TEST_SPLIT = (
    '[{"split": "test", "runs": [{"path": "x", "sequences": 1, "options": {"task": "adding"}, "metrics": {}}]}]'
)

BROKEN = {
    "truncated report": (lambda folder, run: with_json(folder, TEST_SPLIT[:50]), "not the JSON of skiprnn-report"),
    "another JSON": (lambda folder, run: with_json(folder, '{"a": 1}'), "not the JSON of skiprnn-report"),
    "report of another split": (lambda folder, run: with_json(folder, TEST_SPLIT), "on split 'valid', got 'test'"),
    "absent": (lambda folder, run: folder / "nothing", "no such file"),
    "empty folder": (lambda folder, run: folder, "no checkpoint_last.pt and no log"),
    "several logs": (several_logs, "several logs (a.log, b.log)"),
    "truncated checkpoint": (truncated, "can't be loaded"),
    "empty checkpoint": (lambda folder, run: with_checkpoint(folder, b""), "can't be loaded"),
    "text as a checkpoint": (lambda folder, run: with_checkpoint(folder, b"hello"), "can't be loaded"),
    "a tensor file": (other_file_of_torch, "can't be loaded"),
    "not a log": (lambda folder, run: with_log(folder, "hello\n"), "neither a checkpoint"),
    "no validation": (lambda folder, run: with_log(folder, log_without(run, '"valid_loss"')), "no validation"),
    "no configuration": (lambda folder, run: with_log(folder, log_without(run, "'_name'")), "configuration is missing"),
    "damaged configuration": (
        lambda folder, run: with_log(folder, run.log.read_text().replace("'model'", "'mod")),
        "damaged log",
    ),
    "damaged validation": (
        lambda folder, run: with_log(folder, run.log.read_text().replace('"valid_mse": "', '"valid_mse": ')),
        "damaged log",
    ),
}


@pytest.mark.parametrize("make, reason", BROKEN.values(), ids=BROKEN)
def test_names_the_run(fails, tiny, tmp_path, make, reason):
    path = make(tmp_path, tiny["seed1"])
    message = fails(main, tiny["seed2"].log, path)
    assert f"{path}: " in message and reason in message


@pytest.mark.parametrize(
    "options, named",
    [
        (["--table", "subtracting"], "unknown table 'subtracting'; known: adding"),
        (["--split", "train"], "--split train"),
        (["--split", "tested"], "train.log: no validation of split 'tested'"),
        (["--user-dir", "/nowhere/plugin"], "--user-dir /nowhere/plugin"),
    ],
)
def test_names_the_option(fails, tiny, options, named):
    assert named in fails(main, tiny["seed1"].log, *options)


def test_a_run_counts_once(fails, tiny):
    assert f"{tiny['seed1'].checkpoint}: given twice" in fails(main, tiny["seed1"].save_dir, tiny["seed1"].checkpoint)


def test_what_a_run_was_trained_on_is_not_held_out(fails, tiny, tmp_path):
    state = torch.load(tiny["seed1"].checkpoint, weights_only=False)
    state["cfg"]["dataset"]["train_subset"] = "valid"
    path = tmp_path / "checkpoint_last.pt"
    torch.save(state, path)
    assert f"--split: expected a held-out split, got valid, which {path} was trained on" in fails(main, path)


def test_a_users_own_plugin(fails, prints, tiny, tmp_path, monkeypatch):
    state = torch.load(tiny["seed1"].checkpoint, weights_only=False)
    state["cfg"]["task"]["_name"] = "adding_of_a_user"
    path = tmp_path / "checkpoint_last.pt"
    torch.save(state, path)
    assert f"{path}: unknown task 'adding_of_a_user'; --user-dir" in fails(main, path, "--table", "adding")

    plugin = tmp_path / "plugin_of_a_user"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(
        "from fairseq.tasks import register_task\n"
        "from skiprnn_plugin.tasks.adding import AddingConfig, AddingTask\n"
        "print('plugins print what they like')\n"
        "@register_task('adding_of_a_user', dataclass=AddingConfig)\n"
        "class AddingOfAUser(AddingTask):\n"
        "    pass\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    table = prints(main, path, "--table", "adding", "--user-dir", plugin)
    assert table.startswith("| model |") and "\n| Skip GRU, lambda=1e-5 | - | - | - | No |" in table


def test_no_traceback_in_a_process_of_its_own(tiny, tmp_path):
    path = truncated(tmp_path, tiny["seed1"])
    process = run_forked("-m", "skiprnn_plugin.cli.report", path, PYTHONPATH=ROOT)
    assert (process.returncode, process.stdout, process.stderr.count("\n")) == (2, "", 1), process.stderr
    assert process.stderr.startswith(f"skiprnn-report: error: {path}: ")
