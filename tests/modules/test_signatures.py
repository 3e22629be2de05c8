"""The signatures that type checkers and editors read."""

import inspect
import subprocess
import sys
import typing
from importlib.util import find_spec

import pytest

from skiprnn_plugin.modules import SkipGRU, SkipLSTM
from skiprnn_plugin.modules.skip_rnn import SkipRNNBase

from ..command_line import ROOT

PROGRAM = """
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from skiprnn_plugin import SkipGRU, SkipLSTM

SkipGRU(3, 4, hiden=1)
SkipLSTM(3, 4, num_layer=2)
x = torch.zeros(2, 5, 3)
gru = SkipGRU(3, 4, reset_after=False)
gru(x, lenghts=[1, 2])
gru(x, torch.zeros(1, 2, 4))
SkipLSTM(3, 4)(x, (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)))
steps: torch.Tensor = gru(x)[0]
packed: PackedSequence = gru(pack_sequence([x[0]]))[0]
last: torch.Tensor = gru(pack_sequence([x[0]]), last_only=True)[0]
wrong: PackedSequence = gru(x)[0]
"""


def test_the_gru_has_one_more_argument():
    ours, base = (inspect.signature(module).parameters for module in (SkipGRU, SkipRNNBase))
    assert {name: value for name, value in ours.items() if name != "reset_after"} == dict(base)
    assert inspect.signature(SkipLSTM).parameters == base
    different = {"dropout": 0.25, "zoneout": 0.125, "recurrent_dropout": 0.5, "threshold": 0.75, "init": "torch"}
    different |= {"num_layers": 2, "batch_first": False, "bidirectional": True, "gate_layers": (0, 1)}
    different |= {"min_skip": 1, "max_skip": 9, "chrono_init": 20}
    gru = SkipGRU(3, 4, **different, binarize="bernoulli", layer_norm=True, engine="reference", gate_init="zeros")
    assert {name: getattr(gru, name) for name in different} == different
    assert (gru.binarize, gru.layer_norm, gru.engine, gru.update_weight.any()) == ("bernoulli", True, "reference", 0)
    with pytest.raises(TypeError, match="updat_bias"):
        SkipGRU(3, 4, updat_bias=0.5)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="typing.get_overloads is new in Python 3.11")
def test_overloads_have_the_arguments_of_forward():
    overloads = typing.get_overloads(SkipRNNBase.forward)
    assert len(overloads) == 3
    for overload in overloads:
        assert list(inspect.signature(overload).parameters) == list(inspect.signature(SkipRNNBase.forward).parameters)


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("mypy") is None, reason="needs mypy")
def test_mypy(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent", "program.py"]
    process = subprocess.run(command, cwd=tmp_path, env={"MYPYPATH": str(ROOT)}, capture_output=True, text=True)
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "hiden" in line or "num_layer=" in line}
    wrong |= {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "lenghts" in line or "wrong" in line}
    found = [line for line in process.stdout.splitlines() if ": error: " in line]
    assert {int(line.split(":")[1]) for line in found} == wrong, process.stdout + process.stderr
