"""What ``import skiprnn_plugin`` shows, without importing torch before it is needed."""

import sys

import pytest

import skiprnn_plugin
from skiprnn_plugin import modules, ops

from .command_line import ROOT, run

CODE = """
import sys, skiprnn_plugin
assert {"SkipLSTM", "SkipGRU", "skip_scan"} <= set(dir(skiprnn_plugin))
assert "torch" not in sys.modules and "fairseq" not in sys.modules
from skiprnn_plugin import SkipGRU
import torch
print(SkipGRU(2, 3)(torch.zeros(1, 4, 2))[0].shape[-1], "fairseq" in sys.modules)
"""


def test_names_are_those_of_the_rooms():
    assert skiprnn_plugin.SkipLSTM is modules.SkipLSTM and skiprnn_plugin.SkipGRU is modules.SkipGRU
    assert skiprnn_plugin.skip_scan is ops.skip_scan
    with pytest.raises(AttributeError, match="'skiprnn_plugin' has no attribute 'SkipTransformer'"):
        _ = skiprnn_plugin.SkipTransformer


def test_torch_is_imported_when_a_name_is_asked_for():
    process = run(sys.executable, "-c", CODE, PYTHONPATH=ROOT)
    assert process.stdout == "3 False\n", process.stderr
