"""What the triton engine's policy chooses."""

import sys

import pytest
import torch

from skiprnn_plugin.ops import ENGINES
from skiprnn_plugin.ops.triton import policy
from skiprnn_plugin.ops.triton.call import describe
from skiprnn_plugin.ops.triton.policy import Device, Plan
from skiprnn_plugin.ops.types import Operands, Options

from ..command_line import run
from ..compare import assert_close
from .problems import Problem

missing = ENGINES["triton"].refuse(torch.empty(1), "gru", emulated=True)
H100, A100, RTX_4090, B200 = (9, 132, 232448), (8, 108, 166912), (8, 128, 101376), (10, 148, 232448)
LAUNCHES = None
# device, cell, H, the precision asked for, B: sequences and warps of a program and its precision
PLANS = [
    (H100, "lstm", 128, "half", 1, (1, 8, "half")),
    (H100, "lstm", 110, "half", 264, (1, 8, "half")),
    (H100, "lstm", 110, "half", 265, (8, 8, "half")),
    (H100, "gru", 65, "half", 1056, (8, 8, "half")),
    (H100, "gru", 64, "half", 1057, (16, 4, "half")),
    (H100, "gru", 128, "half", 8192, (16, 8, "half")),
    (H100, "gru", 128, "half", 20000, LAUNCHES),
    (H100, "gru", 129, "half", 32, LAUNCHES),
    (H100, "gru", 128, "tf32", 256, (1, 8, "tf32")),
    (H100, "lstm", 128, "tf32", 256, (1, 8, "ieee")),  # 256 KiB of weights
    (H100, "lstm", 128, "tf32", 2000, LAUNCHES),
    (H100, "gru_reset_before", 110, "ieee", 256, (1, 8, "ieee")),
    (H100, "gru_reset_before", 110, "ieee", 1057, LAUNCHES),
    (H100, "rnn", 5, "ieee", 1, (1, 1, "ieee")),
    (A100, "lstm", 128, "half", 8192, LAUNCHES),  # 16 sequences do not fit
    (A100, "lstm", 128, "half", 6000, (8, 8, "half")),
    (A100, "gru", 128, "tf32", 32, (1, 8, "ieee")),
    (RTX_4090, "gru", 128, "half", 1024, (1, 8, "half")),  # 8 sequences do not fit
    (RTX_4090, "lstm", 128, "half", 32, LAUNCHES),
    (RTX_4090, "lstm", 64, "half", 2000, (16, 4, "half")),
    (H100, "gru", 128, "tf32", 265, (16, 8, "tf32")),  # 8 sequences spill
    (B200, "gru", 128, "tf32", 1000, (1, 8, "tf32")),  # and 16 too
    (B200, "gru", 64, "tf32", 1000, (8, 4, "tf32")),
]


@pytest.mark.parametrize("device, cell, hidden, precision, batch, expected", PLANS)
def test_plans(device, cell, hidden, precision, batch, expected):
    precisions = ["tf32", "ieee"] if precision == "tf32" else [precision]
    plan = policy.choose_on_chip(cell, hidden, precisions, batch, Device(*device))
    assert plan == (expected and Plan(True, *expected))


def choose(dtype=torch.float32, inputs=1, hidden=5, layers=1, batch=2):
    """The plan for a call without a device."""
    shapes = [(3 * hidden, inputs if layer == 0 else hidden) for layer in range(layers)]
    weights = [
        torch.empty(shape, dtype=dtype) for wide in shapes for shape in (wide, (3 * hidden, hidden), wide[:1], wide[:1])
    ]
    x, h = torch.empty(batch, 4, inputs, dtype=dtype), torch.empty(layers, batch, hidden, dtype=dtype)
    gate = torch.empty(1, hidden), torch.empty(1)
    operands = Operands(x, h, None, torch.empty(batch), torch.empty(batch), *gate, None)
    return policy.choose(describe(operands, weights, Options("gru", 0.5, (layers - 1,), False)))


@pytest.mark.parametrize("layers, hidden, on_chip", [(1, 5, True), (2, 5, False), (1, 129, False)])
def test_a_stack_and_many_units_go_by_launches(layers, hidden, on_chip):
    assert choose(layers=layers, hidden=hidden).on_chip == on_chip


@pytest.mark.parametrize(
    "dtype, precision", [(torch.float32, "ieee"), (torch.bfloat16, "half"), (torch.float16, "half")]
)
def test_precision_without_a_device(dtype, precision):
    assert choose(dtype).precision == precision


SETTINGS = """
import torch
from skiprnn_plugin.ops.triton.policy import float32_precisions
matmul = torch.backends.cuda.matmul
print(*float32_precisions())
torch.set_float32_matmul_precision("high")
print(*float32_precisions())
torch.set_float32_matmul_precision("highest")
print(*float32_precisions())
matmul.allow_tf32 = True
print(*float32_precisions())
matmul.allow_tf32 = False
print(*float32_precisions())
torch.backends.fp32_precision = matmul.fp32_precision = "tf32"
print(*float32_precisions())
"""


def test_every_setting_of_torch_for_float32_counts():
    """In a process of its own, as the last one cannot be undone."""
    process = run(sys.executable, "-c", SETTINGS)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["ieee", "tf32 ieee", "ieee", "tf32 ieee", "ieee", "tf32 ieee"]


def test_a_plan_that_is_forced():
    before = choose()
    with policy.forced(rows=8, precision="tf32"):
        assert choose() == before._replace(rows=8, precision="tf32")
        with policy.forced(on_chip=False):
            assert not choose().on_chip and choose().rows == 8
        assert choose().on_chip
    assert choose() == before


@pytest.mark.skipif(missing is not None, reason=f"triton {missing}")
@pytest.mark.thorough
@pytest.mark.parametrize("cell, rows", [("lstm", 8), ("gru_reset_before", 16)])
def test_sequences_of_a_program_do_not_matter(cell, rows):
    problem = Problem(cell, 9, 4, 3, 5, 1, dtype=torch.float32, resumed=True)
    expected = problem.run("triton")
    gradients = problem.gradients(expected)
    with policy.forced(rows=rows, precision="tf32"):  # which the interpreter computes in float32
        got = problem.run("triton")
        for name, value in problem.gradients(got).items():
            assert_close(value, gradients[name], f"gradient of {name}", 1e-5)
    assert torch.equal(got[2], expected[2])
    assert_close(got[0], expected[0])
