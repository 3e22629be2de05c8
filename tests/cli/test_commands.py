"""What all commands have in common."""

import errno
import importlib
import re

import numpy as np
import pytest

from skiprnn_plugin import __version__
from skiprnn_plugin.cli import plot
from skiprnn_plugin.cli.command import run_command

from ..command_line import ROOT
from ..forked import run_forked

# The console scripts that setup.py names, such as ("skiprnn-plot", "skiprnn_plugin.cli.plot")
COMMANDS = re.findall(r'"([\w-]+) = ([\w.]+):main"', (ROOT / "setup.py").read_text())


def test_the_commands_are_found():
    assert ("skiprnn-train", "skiprnn_plugin.cli.train") in COMMANDS and len(COMMANDS) >= 6


@pytest.mark.parametrize("name, module", COMMANDS)
def test_version(capsys, name, module):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"skiprnn-plugin {__version__}\n"


def test_a_figure_is_said_to_be_written(tiny, capsys, tmp_path):
    for kind, name in (("samples", "samples.svg"), ("curves", "curves.pdf")):
        run = tiny["seed1"].log if kind == "curves" else tiny["seed1"].checkpoint
        assert plot.main([kind, str(run), "--output", str(tmp_path / name)]) == 0
        assert capsys.readouterr().err.splitlines()[-1] == f"wrote {tmp_path / name}"


LONG = "much too long a name " * 20


@pytest.mark.parametrize(
    "command, arguments",
    [
        ("train", [LONG, "--save-dir", "run"]),
        ("prepare", ["features", LONG, "dest"]),
        ("prepare", ["imdb", LONG, "dest"]),
        ("report", [LONG]),
        ("plot", ["curves", LONG]),
        ("plot", ["samples", LONG]),
        ("predict", [LONG, "x.npy"]),
        ("predict", ["zoo:adding", f"{LONG}.npy"]),
        ("export", [LONG, "x.onnx"]),
    ],
)
def test_a_name_that_is_too_long(fails, tmp_path, monkeypatch, command, arguments):
    monkeypatch.chdir(tmp_path)
    message = fails(importlib.import_module(f"skiprnn_plugin.cli.{command}").main, *arguments)
    assert re.fullmatch(f"skiprnn-{command}: error: much too long a name .*: File name too long\n", message), message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error, message",
    [
        (PermissionError(errno.EACCES, "Permission denied", "theirs/x"), "theirs/x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (FileNotFoundError("x:\nno such file"), "x: no such file"),
        (OSError(), "OSError"),
    ],
)
def test_what_the_system_refuses_is_one_line(capsys, error, message):
    def fail():
        raise error

    assert run_command("a-command", fail) == 2
    assert capsys.readouterr() == ("", f"a-command: error: {message}\n")


@pytest.mark.parametrize("command, arguments", [("report", []), ("predict", ["zoo:adding", "pair.npy"])])
def test_output_that_can_not_be_written(tmp_path, command, arguments):
    np.save(tmp_path / "pair.npy", np.zeros((5, 2)))
    code = f"""
import os, sys
from skiprnn_plugin.cli.{command} import main
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
sys.exit(main())
"""
    process = run_forked("-c", code, *arguments, cwd=tmp_path, PYTHONPATH=ROOT)
    expected = f"skiprnn-{command}: error: standard output: No space left on device\n"
    assert (process.returncode, process.stderr) == (2, expected)
