"""Figures are written to files whatever backend MPLBACKEND names, in a process that has not imported matplotlib yet."""

import sys

import pytest

from ..command_line import ROOT, run

DRAW = """
import os, sys
from pathlib import Path
import numpy as np
from skiprnn_plugin.cli.plot import figures, images

folder = Path(sys.argv[1])
assert "matplotlib" not in sys.modules
pixels = images.Images(np.zeros((1, 2, 2)), np.ones((1, 2, 2), bool), ["title"])
for format in figures.FORMATS:
    figures.write_picture(lambda: images.draw(pixels), folder / ("figure" + format), figures.Look())
import matplotlib
print(os.environ["MPLBACKEND"], matplotlib.rcParams["backend"])
"""
INLINE = "module://matplotlib_inline.backend_inline"


@pytest.mark.parametrize(
    "backend, kept",
    [
        (INLINE, {INLINE, "agg"}),  # inherited from a notebook
        pytest.param("nonsense", {"agg"}, marks=pytest.mark.thorough),
        pytest.param("tkagg", {"tkagg"}, marks=pytest.mark.thorough),  # needs a display
    ],
)
def test_any_backend(tmp_path, backend, kept):
    process = run(sys.executable, "-c", DRAW, tmp_path, PYTHONPATH=ROOT, MPLBACKEND=backend, DISPLAY="")
    assert process.returncode == 0, process.stderr
    variable, setting = process.stdout.split()
    assert variable == backend and setting in kept
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.pdf", "figure.png", "figure.svg"]
    assert all(path.stat().st_size > 500 for path in tmp_path.iterdir())
