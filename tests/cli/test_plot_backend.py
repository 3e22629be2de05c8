"""Figures are written to files whatever backend MPLBACKEND names, in a process that has not imported matplotlib yet."""

import sys

import pytest

from ..command_line import ROOT, run

DRAW = """
import os, sys
from pathlib import Path
import numpy as np
from skiprnn_plugin.cli.plot import {module}, figures

folder = Path(sys.argv[1])
assert "matplotlib" not in sys.modules
figure = {figure}
for format in figures.FORMATS:
    figures.save(figure, folder / ("figure" + format))
import matplotlib
print(os.environ["MPLBACKEND"], matplotlib.rcParams["backend"])
"""
IMAGES = "images.draw(images.Images(np.zeros((1, 2, 2)), np.ones((1, 2, 2), bool), ['title']))"
INLINE = "module://matplotlib_inline.backend_inline"
CHECKED = "figures.check_output(folder / 'figure.png') or figures.new_figure(1.0)"


@pytest.mark.parametrize(
    "backend, kept, module, figure",
    [
        (INLINE, {INLINE, "agg"}, "figures", CHECKED),  # inherited from a notebook
        ("nonsense", {"agg"}, "images", IMAGES),
        ("tkagg", {"tkagg"}, "images", IMAGES),  # needs a display
    ],
)
def test_any_backend(tmp_path, backend, kept, module, figure):
    code = DRAW.format(module=module, figure=figure)
    process = run(sys.executable, "-c", code, tmp_path, PYTHONPATH=ROOT, MPLBACKEND=backend, DISPLAY="")
    assert process.returncode == 0, process.stderr
    variable, setting = process.stdout.split()
    assert variable == backend and setting in kept
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.pdf", "figure.png", "figure.svg"]
    assert all(path.stat().st_size > 500 for path in tmp_path.iterdir())
