"""``skiprnn-plot skips``: what is counted, the figure, the table that it prints, and what can't be drawn."""

import numpy as np
import pytest
import torch

from skiprnn_plugin.cli.plot import main
from skiprnn_plugin.cli.plot.skips import draw
from skiprnn_plugin.runs.skips import Skips


def count(checkpoint):
    """How often each number of steps was skipped between two updates, over the held-out split."""
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
    task.load_dataset("valid")
    data = task.dataset("valid")
    with torch.no_grad():
        updates = models[0].eval()(**data.collater([data[i] for i in range(len(data))])["net_input"]).updates[:, 0]
    counts = {}
    for sequence in updates.int().tolist():
        used = [step for step, update in enumerate(sequence) if update]
        for one, next_one in zip(used, used[1:]):
            counts[next_one - one - 1] = counts.get(next_one - one - 1, 0) + 1
    return counts


def bars(figure):
    """Heights of each histogram, by its name in the legend without the numbers."""
    (axes,) = figure.axes
    return {patch.get_label(): patch.get_data().values.tolist() for patch in axes.patches}


def test_counts_what_the_model_skips(prints, tiny, tmp_path, figures):
    counts = count(tiny["seed1"].checkpoint)
    assert len(counts) > 1 and any(counts)  # so that there is something to count
    printed = prints(main, "skips", tiny["seed1"].save_dir, "--output", tmp_path / "skips.png")
    total, longest = sum(counts.values()), max(counts)
    mean = sum(skipped * times for skipped, times in counts.items()) / total
    assert printed.splitlines()[2] == f"| Skip GRU, λ=1e-5 | 36 | {mean:.4g} | {longest} | 1 |"
    assert bars(figures[0]) == {
        f"Skip GRU, λ=1e-5: mean {mean:.3g}, longest {longest}": [counts.get(n, 0) / 36 for n in range(longest + 1)]
    }
    (axes,) = figures[0].axes
    assert axes.get_yscale() == "log" and axes.figure.get_suptitle() == "Adding task, split valid"
    assert (tmp_path / "skips.png").stat().st_size > 5000


def test_repetitions_are_counted_together(prints, tiny, tmp_path, figures):
    runs = [tiny[name] for name in ("seed1", "other", "seed2")]
    printed = prints(main, "skips", *(run.checkpoint for run in runs), "--output", tmp_path / "skips.pdf")
    names = [line.split("|")[1:3] + line.split("|")[-2:-1] for line in printed.splitlines()[2:]]
    assert [[name.strip() for name in line] for line in names] == [
        ["Skip GRU, λ=1e-5", "72", "2"], ["LSTM, random skips, p=0.3", "36", "1"]
    ]  # fmt: skip
    both = [count(run.checkpoint) for run in (runs[0], runs[2])]
    heights = list(bars(figures[0]).values())[0]
    assert heights == [sum(counts.get(n, 0) for counts in both) / 72 for n in range(len(heights))]


def test_bars_and_lines(look):
    skips = Skips("GRU", np.array([6, 0, 2]), 4, 1)
    assert (skips.mean, skips.longest) == (0.5, 2)
    figure = draw([skips], "")
    (one,), (two, _) = figure.axes[0].patches, draw([skips, skips], "").axes[0].patches
    assert one.get_data().edges.tolist() == [-0.5, 0.5, 1.5, 2.5]
    assert one.get_fill() and not two.get_fill()
    assert figure.axes[0].get_ylim()[0] == 0.25  # half the lowest bar's height
    figure.draw_without_rendering()
    assert figure.legends[0].get_window_extent().y1 <= figure.axes[0].get_tightbbox().y0  # hides no bar


def test_a_model_that_never_updates_twice(fails, tiny, monkeypatch):
    monkeypatch.setattr(
        "skiprnn_plugin.runs.skips.run_model", lambda loaded, sample: (None, np.eye(12, dtype=bool)[:, None])
    )
    message = fails(main, "skips", tiny["seed1"].checkpoint)
    assert f"{tiny['seed1'].checkpoint}: no sequence of split valid has two updates" in message


@pytest.mark.parametrize(
    "options, named",
    [
        (["{log}"], "train.log: expected a checkpoint (*.pt) or a save-dir that holds one"),
        (["{wave}"], "checkpoint_last.pt: expected a run of task adding, as "),
        (["{checkpoint}"], "given twice"),
        (["--split", "train"], "--split train"),
        (["--output", "skips.html"], "--output skips.html: expected a name that ends in .png or .pdf or .svg"),
        (["--user-dir", "/nowhere/plugin"], "--user-dir /nowhere/plugin"),
    ],
)
def test_names_what_is_wrong(fails, tiny, tiny_frequency, tmp_path, options, named):
    run = tiny["seed1"]
    places = {"log": run.log, "checkpoint": run.checkpoint, "wave": tiny_frequency["1"].checkpoint}
    options = [option.format(**places) for option in options]
    assert named in fails(main, "skips", "--output", tmp_path / "skips.png", run.save_dir, *options)
    assert list(tmp_path.iterdir()) == []
