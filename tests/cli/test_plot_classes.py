"""``skiprnn-plot classes``: its numbers, the figure, the table that it prints, and what can't be drawn."""

import numpy as np
import pytest

from skiprnn_plugin.cli.plot import main
from skiprnn_plugin.cli.plot.classes import draw
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.runs.checkpoint import evaluate, load_checkpoint
from skiprnn_plugin.runs.classes import PRECISION, Classes

from ..command_line import train
from ..selection import quick_in
from ..tiny_features import sequences, write_features
from ..tiny_localization import CLASSES, write_localization


@pytest.fixture(scope="module")
def localization(tmp_path_factory):
    folder = tmp_path_factory.mktemp("localization")
    data = write_localization(folder / "data")
    train(folder / "run", "--data-dir", data, "--max-update", 3, "--lr", 0.03, task="feature_localization")
    return folder / "run"


def bars(figure):
    """Widths of the bars by the names beside them, from top to bottom and left to right."""
    found = {}
    for axes in figure.axes:
        names = [label.get_text() for label in axes.get_yticklabels()]
        found.update(zip(names, (bar.get_width() for bar in axes.patches), strict=True))
    return found


def cells(printed):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]


def test_what_validation_logs(prints, localization, tmp_path, figures):
    printed = cells(prints(main, "classes", localization, "--output", tmp_path / "classes.png"))
    expected = evaluate(load_checkpoint(localization / "checkpoint_last.pt", "valid", {})).metrics
    (figure,), values = figures, bars(figures[0])
    assert sorted(values) == CLASSES[:2]  # the third is in the split train alone
    assert list(values.values()) == sorted(values.values(), reverse=True)
    assert np.mean(list(values.values())) == pytest.approx(expected["mAP"], abs=1e-12)
    assert figure.get_suptitle() == (
        "Feature localization, split valid, Skip GRU, λ=1e-5\n"
        f"mAP {expected['mAP']:.4g}, 2 of 3 classes; no point has the others"
    )
    assert printed[0] == ["class", "average precision", "chance", "points"]
    assert [[row[0], row[1]] for row in printed[2:]] == [[name, f"{value:.4f}"] for name, value in values.items()]
    positives = [int(row[3]) for row in printed[2:]]
    assert [row[2] for row in printed[2:]] == [f"{count / 90:.4f}" for count in positives]  # 9 videos, 10 points each
    assert [text.get_text() for text in figure.axes[0].texts] == [str(count) for count in positives]
    assert (tmp_path / "classes.png").stat().st_size > 5000


def test_accuracy_in_each_class(prints, tmp_path, figures):
    data = write_features(tmp_path / "data")
    options = ("--max-update", 12, "--lr", 0.03, "--batch-size", 8)
    train(tmp_path / "run", "--data-dir", data, *options, task="feature_classification")
    printed = cells(prints(main, "classes", tmp_path / "run", "--output", tmp_path / "classes.svg"))
    valid = [(label, array) for _, split, label, array in sequences() if split == "valid"]
    labels, arrays = zip(*valid)
    predicted = from_pretrained(tmp_path / "run", "checkpoint_last.pt").predict(list(arrays)).argmax(1)
    correct = np.array([["down", "up"][number] == label for number, label in zip(predicted, labels)])
    expected = {name: correct[np.array(labels) == name].mean() for name in ("down", "up")}
    assert bars(figures[0]) == pytest.approx(expected, abs=1e-12)
    assert figures[0].get_suptitle().endswith(f"\naccuracy {correct.mean():.4g}, 2 of 2 classes")
    rows = {name: (accuracy, chance, count) for name, accuracy, chance, count in printed[2:]}
    assert printed[0] == ["class", "accuracy", "chance", "sequences"]
    assert rows == {name: (f"{expected[name]:.4f}", f"{n / 7:.4f}", str(n)) for name, n in (("down", 4), ("up", 3))}


def test_names_are_no_formulas(look):
    classes = Classes(PRECISION, ["$5 and $6"], np.ones(1), np.ones(1, int), 1, 2, 1.0)
    (label,) = draw(classes, "title").axes[0].get_yticklabels()
    assert label.get_text() == "$5 and $6" and not label.get_parse_math()


@pytest.mark.parametrize("size, columns", quick_in(2, [(1, 1), (5, 1), (157, 3), (101, 2), (400, 3)]))
def test_nothing_hides_anything(look, size, columns):
    values = np.linspace(1, 0.01, size)
    names = [f"c{number:03d} Putting some clothes, or a blanket, somewhere else" for number in range(size)]
    classes = Classes(PRECISION, names, values, np.full(size, 186_299), size, 186_300, 0.5)
    figure = draw(classes, "title")
    figure.draw_without_rendering()
    assert len(figure.axes) == columns and len(bars(figure)) == size
    right = 0
    for axes in figure.axes:
        labels = [label.get_window_extent() for label in axes.get_yticklabels()]
        assert all(upper.y0 > lower.y1 - 0.5 for upper, lower in zip(labels, labels[1:]))
        assert min(label.x0 for label in labels) >= right
        right = axes.get_window_extent().x1
        counts = [text.get_window_extent() for text in axes.texts]
        assert min(count.x0 for count in counts) > right
        right = max(count.x1 for count in counts)
    assert right < figure.bbox.x1
    assert figure.legends[0].get_window_extent().y1 <= figure.axes[0].get_tightbbox().y0


@pytest.mark.parametrize(
    "options, named",
    [
        ([], "checkpoint_last.pt: expected a model that predicts labels, or the class of a sequence, got one of task"),
        (["--split", "train"], "--split train: expected a held-out split"),
        (["--output", "classes.html"], "--output classes.html: expected a name that ends in .png or .pdf or .svg"),
    ],
)
def test_names_what_is_wrong(fails, tiny, tmp_path, options, named):
    output = ["--output", tmp_path / "classes.png"]
    assert named in fails(main, "classes", tiny["seed1"].save_dir, *output, *options)
    assert list(tmp_path.iterdir()) == []
