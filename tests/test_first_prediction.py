"""The script from a new environment to a prediction, here with the environment of the tests and a short training."""

import os
import re
import sysconfig

import pytest

from .command_line import ROOT, run


@pytest.mark.thorough
def test_first_prediction(tmp_path):
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    script = ROOT / "tests/first_prediction.sh"
    process = run("bash", script, tmp_path, "--max-updates", 2, INSTALL="no", PATH=path, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr[-2000:]
    assert re.search(r"^predicted: \d+ s\n[0-6] of 6 recordings right\n", process.stdout, re.MULTILINE)
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    assert len(lines) == 7 and all(line.split("\t")[0] in ("left", "right", "up") for line in lines[1:])
