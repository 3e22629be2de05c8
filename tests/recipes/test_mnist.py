"""mnist.sh, cut short, on digits in the database's format."""

import pytest

from ..command_line import ROOT, run
from ..idx_files import NAMES, write_digits
from .start import assert_settings, needs_environment, recipe


@pytest.mark.thorough
@needs_environment
@pytest.mark.parametrize(
    "options, name, settings",
    [
        ([], "mnist", {"lr": [1e-4]}),
        (["--fast"], "mnist-fast", {"lr": [4e-3], "batch_size": 32, "chrono_init": 100, "cost_warmup_updates": 3000}),
    ],
    ids=["paper", "fast"],
)
def test_mnist_ends_with_pictures_and_the_table_of_the_test_images(tmp_path, options, name, settings):
    write_digits(tmp_path / "my data")
    environment = {"RUNS": "my runs", "MAX_UPDATE": "1", "SEEDS": "3", "VALID_SIZE": "36"}
    process = run("bash", ROOT / "recipes/mnist.sh", "my data", *options, "skip-gru-1e-4", cwd=tmp_path, **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    lines = process.stdout.splitlines()
    assert "train: 64 sequences\nvalid: 36 sequences\ntest: 40 sequences\n" in process.stderr
    assert lines[0].startswith("skip-gru-1e-4 seed 3, update 1: accuracy 0.")
    (row,) = [line for line in lines if line.startswith("| Skip GRU")]
    assert row.startswith("| Skip GRU, lambda=1e-4 | 0.976 ± 0.003 | 392.62 ± 26.48 | 1.44e7 | 0.")
    assert "Held-out split: test, 40 sequences." in lines[-1]
    folder = tmp_path / "my runs" / name  # of the folder that the recipe was started in
    assert_settings(folder / "skip-gru-1e-4/seed3/checkpoint_best.pt", **settings, cost_per_sample=1e-4)
    for picture in (folder / "accuracy.png", folder / "skip-gru-1e-4/seed3/samples.png"):
        assert picture.stat().st_size > 10000


@pytest.mark.thorough
@needs_environment
def test_mnist_quick_ends_with_a_table_and_a_picture(tmp_path):
    write_digits(tmp_path, compress=True)
    process = recipe("mnist.sh", tmp_path, "--quick", RUNS=str(tmp_path), MAX_UPDATE="1", VALID_SIZE="36")
    assert process.returncode == 0, process.stderr[-2000:]
    assert "| Skip GRU, lambda=5e-3, rows True | - |" in process.stdout
    assert (tmp_path / "mnist-quick/seed1/samples.png").stat().st_size > 10000


@pytest.mark.thorough
@needs_environment
def test_mnist_starts_nothing_with_data_that_are_not_whole(tmp_path):
    write_digits(tmp_path)
    (tmp_path / NAMES[3]).write_bytes((tmp_path / NAMES[3]).read_bytes()[:-1])
    process = recipe("mnist.sh", tmp_path, RUNS=str(tmp_path / "runs"), VALID_SIZE="36")
    assert process.returncode == 2 and process.stderr.count("\n") == 1
    assert f"error: {tmp_path / NAMES[3]}: expected 40 bytes after the header" in process.stderr
    assert not (tmp_path / "runs").exists()
