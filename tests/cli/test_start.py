"""The console commands start quickly: their modules import neither fairseq nor torch."""

import sys

import pytest

from ..command_line import ROOT, run


@pytest.mark.parametrize("command", ["prepare", "train", "report", "plot", "predict", "export", "tables"])
def test_a_command_imports_neither_fairseq_nor_torch(command):
    code = f"import sys, skiprnn_plugin.cli.{command}; print({{'fairseq', 'torch'}} & set(sys.modules))"
    process = run(sys.executable, "-c", code, cwd=ROOT)
    assert process.stdout == "set()\n" and process.stderr == ""
