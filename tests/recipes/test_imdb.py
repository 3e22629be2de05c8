"""imdb.sh, cut short, on a few reviews in the archive's layout."""

import shutil

import pytest
import torch

from ..tiny_imdb import FILES, write_archive
from .start import needs_environment, recipe

# Every recipe starts table.sh, which test_synthetic.py covers in the quick tests
pytestmark = pytest.mark.thorough


@needs_environment
def test_imdb_quick_prepares_the_reviews_once_and_reports_on_the_test_split(tmp_path):
    reviews = write_archive(tmp_path / "reviews.tar.gz", FILES)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("1 300\nbad" + 300 * " 0.5" + "\n")
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "2", "WORD2VEC": str(vectors)}

    def go(**changed):
        process = recipe("imdb.sh", reviews, "--quick", **{**environment, **changed})
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout.splitlines()

    lines = go()
    assert [line.split(": accuracy")[0] for line in lines if ": accuracy" in line] == [
        f"200 words, skip-lstm-1e-3 seed 1, update {update}" for update in (1, 2)
    ]
    assert any(line.startswith("| Skip LSTM, lambda=1e-3 | 0.811 ± 0.007 | 73.85 ± 1.90 | 0.") for line in lines)
    assert lines[-1].endswith("Held-out split: test, 8 sequences.")
    run = tmp_path / "runs/imdb-quick-200/skip-lstm-1e-3/seed1"
    assert "&lt;unk&gt;" in (run / "samples.html").read_text()  # most words occur too rarely
    assert (run.parent.parent / "accuracy.png").stat().st_size > 10000
    cfg = torch.load(run / "checkpoint_best.pt", weights_only=False)["cfg"]
    assert cfg["task"]["data_dir"] == str(tmp_path / "runs/imdb-data") and cfg["task"]["embedding_path"] == str(vectors)
    assert cfg["task"]["padding"] == "data" and cfg["model"]["hidden_size"] == 128 and cfg["model"]["dropout"] == 0.2
    moved = go(RUNS=str(shutil.move(tmp_path / "runs", tmp_path / "my runs")))
    assert [line for line in moved if line.startswith("|")] == [line for line in lines if line.startswith("|")]
    reviews.write_bytes(b"")
    wrong = recipe("imdb.sh", reviews, "--quick", **{**environment, "RUNS": str(tmp_path / "my runs")})
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1
    assert wrong.stderr.startswith(f"error: ACLIMDB: expected {reviews} (")
    wrong = recipe("imdb.sh", reviews, **{**environment, "RUNS": str(tmp_path / "other")})
    assert wrong.returncode == 2 and wrong.stderr.startswith("skiprnn-prepare: error: ")
    assert wrong.stderr.count("\n") == 1 and list((tmp_path / "other").iterdir()) == []
