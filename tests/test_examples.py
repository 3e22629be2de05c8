"""The examples, run as a user runs them."""

import re
import sys

from .command_line import ROOT, run


def test_plain_torch():
    process = run(sys.executable, ROOT / "user_dir_examples/plain_torch/train.py", 100, PYTHONPATH=ROOT)
    assert re.fullmatch(r"update 100: MSE 0\.\d+, used \d+% of the samples\n", process.stdout), process.stderr
