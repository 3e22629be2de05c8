"""``skiprnn_plugin.modules`` needs only torch."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USE = "import torch, skiprnn_plugin.modules as m; print(m.SkipGRU(2, 3)(torch.zeros(1, 4, 2))[0].shape[-1])"
UNFINDABLE = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("fairseq", "numpy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""


@pytest.mark.parametrize(
    "before, after",
    [
        pytest.param("", "import sys; assert 'fairseq' not in sys.modules", marks=pytest.mark.thorough),
        (UNFINDABLE, ""),
        pytest.param("import sys; sys.modules['fairseq'] = None", "", marks=pytest.mark.thorough),
    ],
    ids=["left-alone", "not-installed", "blocked"],
)
def test_modules_work_without_fairseq(before, after):
    code = f"{before}\n{USE}\n{after}"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["3"]
