"""What all commands have in common."""

import importlib
import re

import pytest

from skiprnn_plugin import __version__
from skiprnn_plugin.cli import plot

from ..command_line import ROOT

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
