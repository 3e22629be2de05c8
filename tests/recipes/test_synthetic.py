"""quickstart.sh, adding.sh and frequency.sh, cut short, as a person starts them."""

import pytest

from .start import assert_settings, needs_environment, recipe


@needs_environment
def test_quickstart(tmp_path):
    process = recipe("quickstart.sh", 2, RUNS=str(tmp_path))
    assert process.returncode == 0, process.stderr[-2000:]
    assert "| Skip GRU, lambda=1e-5 | Yes | 50.7% ± 2.6% | 9.40e5 | No |" in process.stdout
    assert (tmp_path / "quickstart/samples.png").stat().st_size > 10000
    assert_settings(tmp_path / "quickstart/checkpoint_last.pt", lr=[1e-3], cost_per_sample=1e-5)
    progress = [line for line in process.stderr.splitlines() if line.startswith("training update 2: MSE 0.")]
    assert len(progress) == 1 and "fraction of the samples used" in progress[0] and "INFO" not in process.stderr
    assert "done training" in (tmp_path / "quickstart/train.log").read_text()
    again = recipe("quickstart.sh", RUNS=str(tmp_path), MAX_UPDATE="2")
    assert again.stdout.splitlines()[-6:] == process.stdout.splitlines()[-6:] and "training update" not in again.stderr


ROWS = {"gru": "GRU", "lstm-skip-0.5": "LSTM (p_skip = 0.5)"}  # the table has them the other way round


@needs_environment
@pytest.mark.thorough
@pytest.mark.parametrize("rows", [["gru"], list(ROWS)], ids=" ".join)
def test_adding_runs_the_rows_it_is_told_and_does_not_repeat_them(tmp_path, rows):
    def go():
        process = recipe("adding.sh", *rows, RUNS=str(tmp_path), MAX_UPDATE="1", SEEDS="3 5")
        assert process.returncode == 0, process.stderr[-2000:]
        return process.stdout.splitlines()

    lines = go()
    trained = sorted(line.split(",")[0] for line in lines if "update 1:" in line)
    assert trained == [f"{row} seed {seed}" for row in rows for seed in (3, 5)]
    assert_settings(tmp_path / "adding/gru/seed3/checkpoint_last.pt", lr=[1e-4], cost_per_sample=0)
    table = [line for line in lines if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table[2:]] == [ROWS[row] for row in reversed(rows)]
    assert all(line.split("|")[-3].strip() == "2" for line in table[2:])  # runs
    again = go()
    assert [line for line in again if line.startswith("|")] == table
    assert not any("update 1:" in line for line in again)


@pytest.mark.thorough
@needs_environment
def test_frequency_quick_ends_with_a_table_and_a_picture_for_each_sampling_period(tmp_path):
    process = recipe("frequency.sh", "--quick", RUNS=str(tmp_path), MAX_UPDATE="1", SAMPLING_PERIODS="1 0.5")
    assert process.returncode == 0, process.stderr[-2000:]
    lines = process.stdout.splitlines()
    assert sorted(line.split(", update")[0] for line in lines if "update 1: accuracy" in line) == [
        "0.5 ms, skip-gru-1e-4 seed 1", "1 ms, skip-gru-1e-4 seed 1"
    ]  # fmt: skip
    rows = [[cell.strip() for cell in line.split("|")[1:5]] for line in lines if line.startswith("| Skip")]
    label = "Skip GRU, lambda=1e-4"
    assert rows == [[label, "Yes", "23.5 ± 6.2", "No"], [label, "Yes", "22.5 ± 2.1", "No"]]
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["frequency-quick-0.5ms", "frequency-quick-1ms"]
    pictures = list(tmp_path.glob("*/skip-gru-1e-4/seed1/samples.png"))
    assert len(pictures) == 2 and all(picture.stat().st_size > 10000 for picture in pictures)
