"""``skiprnn-plot curves``: what is read of logs, the figure, the table that it prints, and what can't be drawn."""

import json

import numpy as np
import pytest
from matplotlib.image import imread

from skiprnn_plugin import SkipRNNClassifier
from skiprnn_plugin.cli.plot import main
from skiprnn_plugin.cli.train import main as train
from skiprnn_plugin.runs.groups import group_runs
from skiprnn_plugin.runs.history import read_histories, read_log_history
from skiprnn_plugin.runs.run import Run
from skiprnn_plugin.runs.saved import as_saved
from skiprnn_plugin.runs.tables import TABLES


def validation(updates, split="valid", epoch=None, **metrics):
    """A line as fairseq logs it."""
    numbers = {"loss": 1, "num_updates": updates, **metrics}
    logged = {f"{split}_{name}": str(value) for name, value in numbers.items()}
    return json.dumps({"epoch": epoch or updates // 100, **logged})


@pytest.fixture
def log(tiny, tmp_path):
    """``log(name, lines, (old, new)...)``: a log with these lines, and options that differ from those of a run."""

    def write(name, lines, *changes):
        (config,) = [line for line in tiny["seed1"].log.read_text().splitlines() if "{'_name'" in line]
        for old, new in changes:
            assert old in config
            config = config.replace(old, new)
        path = tmp_path / f"{name}.log"
        path.write_text("\n".join([config, *lines]) + "\n")
        return path

    return write


SEED2 = ("'seed': 1", "'seed': 2")
LAMBDA = ("'cost_per_sample': 1e-05", "'cost_per_sample': 0.0001")


def points(axes):
    return {line.get_label(): list(zip(*map(list, line.get_data()))) for line in axes.lines}


@pytest.fixture
def plot(prints, tmp_path, figures):
    """Points of each curve of the first panel and its shade (lowest and highest), by its name in the legend; and the
    printed table."""

    def call(*arguments):
        printed = prints(main, "curves", *arguments, "--output", tmp_path / "curves.png")
        axes = figures[-1].axes[0]
        shades = [collection.get_paths()[0].vertices for collection in axes.collections]
        table = [[c.strip() for c in row.split("|")[1:-1]] for row in printed.splitlines()]
        return points(axes), shades, table, axes

    return call


def test_mean_and_range_of_seeds(plot, log, tmp_path):
    lines, (shade,), rows, axes = plot(
        log("a1", [validation(100, accuracy=0.5), validation(200, accuracy=0.75)]),
        log("b", [validation(100, accuracy=0.25)], LAMBDA),
        log("a2", [validation(100, accuracy=1), validation(200, accuracy=0.25)], SEED2),
    )
    assert lines == {"Skip GRU, λ=1e-5": [(100, 0.75), (200, 0.5)], "Skip GRU, λ=1e-4": [(100, 0.25)]}
    assert {tuple(corner) for corner in shade} >= {(100, 0.5), (100, 1), (200, 0.25), (200, 0.75)}
    assert rows == [
        ["model", "training updates", "accuracy", "runs"],
        ["---"] * 4,
        ["Skip GRU, λ=1e-5", "200", "0.5", "2"],
        ["Skip GRU, λ=1e-4", "100", "0.25", "1"],
    ]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("training updates", "accuracy", "linear")
    assert axes.figure.get_suptitle() == "Adding task, split valid; mean and range of 1 or 2 runs"
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(lines)
    assert imread(tmp_path / "curves.png").shape[1] == 1380


def test_a_resumed_run(log):
    """It begins again before the place that it had come to; what it had logged from there on is gone."""
    config = log("run", []).read_text()
    killed = validation(400, mse=4)[:50]
    parts = [validation(n, mse=1) for n in (100, 200, 300)] + [
        killed,
        config,
        validation(200, mse=2),
        validation(300, mse=3),
    ]
    history = read_log_history(log("run", parts, SEED2), "valid")
    assert [(logged["num_updates"], logged["mse"]) for logged in history.validations] == [(100, 1), (200, 2), (300, 3)]
    assert history.options["seed"] == 1  # of the last part
    # The same from the start, with another interval
    history = read_log_history(log("run", [*parts, config, validation(50, mse=9)]), "valid")
    assert [(logged["num_updates"], logged["mse"]) for logged in history.validations] == [(50, 9)]


def test_over_epochs(plot, log):
    """Of several validations in an epoch the last one counts."""
    lines, _, rows, axes = plot(
        log("run", [validation(n, epoch=e, mse=0.1 * n) for n, e in ((10, 1), (20, 1), (30, 2))]), "--over", "epochs"
    )
    assert lines == {"Skip GRU, λ=1e-5": [(1, 2), (2, 3)]}
    assert rows[2] == ["Skip GRU, λ=1e-5", "2", "3", "1"] and axes.get_xlabel() == "epochs"
    assert axes.get_yscale() == "log" and axes.get_ylabel() == "mean squared error"


@pytest.mark.parametrize("split", ["valid", "train"])
def test_another_metric_and_split(plot, log, split):
    logged = (("valid", 0.5), ("train", 0.75), ("other_valid", 0.25), ("other_train", 0.25))
    run = log("run", [validation(100, split, update_fraction=fraction) for split, fraction in logged])
    lines, _, _, axes = plot(run, "--metric", "update_fraction", "--split", split)
    assert lines == {"Skip GRU, λ=1e-5": [(100, {"valid": 0.5, "train": 0.75}[split])]}
    assert axes.figure.get_suptitle() == f"Adding task, split {split}"


def test_samples_used_below_the_metric(plot, log):
    """Of the models that have any; a model looks the same in both panels."""
    other = log("other", [validation(100, mse=3)], LAMBDA)
    own = log("own", [validation(n, mse=n, update_fraction=n / 200) for n in (100, 200)])
    lines, _, rows, axes = plot(other, own)
    above, below = axes.figure.axes
    assert above is axes and len(lines) == 2 and points(below) == {"Skip GRU, λ=1e-5": [(100, 0.5), (200, 1)]}
    assert (above.get_ylabel(), above.get_xlabel()) == ("mean squared error", "")
    assert (below.get_ylabel(), below.get_xlabel()) == ("samples used (updates / steps)", "training updates")
    colors = {line.get_label(): line.get_color() for line in above.lines}
    assert len(set(colors.values())) == 2 and below.lines[0].get_color() == colors["Skip GRU, λ=1e-5"]
    assert rows[0] == ["model", "training updates", "mse", "update_fraction", "runs"]
    assert [row[2:4] for row in rows[2:]] == [["200", "1"], ["3", ""]]
    # One panel for models that never skip; others for other metrics
    *_, axes = plot(log("full", [validation(100, mse=1, update_fraction=1)]))
    assert len(axes.figure.axes) == 1
    # Of a model whose runs do not all say it, none
    repeated = log("repeated", [validation(n, mse=n) for n in (100, 200)], SEED2)
    *_, axes = plot(own, repeated)
    assert len(axes.figure.axes) == 1
    lines, *_, axes = plot(own, "--metric", "loss", "--metric", "mse")
    assert list(map(points, axes.figure.axes)) == [
        {"Skip GRU, λ=1e-5": ends} for ends in ([(100, 1), (200, 1)], [(100, 100), (200, 200)])
    ]


def test_repetitions_as_far_as_all_of_them_go(plot, fails, log):
    long = log("long", [validation(n, mse=1) for n in (100, 200, 300)])
    lines, _, rows, _ = plot(long, log("short", [validation(200, mse=3)], SEED2))
    assert lines == {"Skip GRU, λ=1e-5": [(200, 2)]} and rows[2][1] == "200"
    other = log("other", [validation(150, mse=3)], SEED2)
    message = fails(main, "curves", long, other)
    assert f"{other}: expected a validation at the same num_updates as in {long}, which it repeats" in message


def test_what_diverged_leaves_a_gap(plot, log):
    lines, *_ = plot(log("run", [validation(100, mse=1), validation(200, mse="nan")]))
    assert np.isnan(lines["Skip GRU, λ=1e-5"][1][1])


def test_a_real_log(plot, tiny, tmp_path):
    run = tiny["seed1"]
    (tmp_path / "train.log").write_text(run.log.read_text())
    for given in (run.log, tmp_path, run.save_dir):
        lines, *_ = plot(given)
        assert lines == {"Skip GRU, λ=1e-5": [(run.logged["num_updates"], run.logged["mse"])]}


def test_runs_of_a_report_that_keeps_their_validations(plot, fails, log, tmp_path):
    runs = [read_log_history(log("run", [validation(100, mse=1), validation(200, mse=2)]), "valid")]
    runs.append(Run(runs[0].path, {**runs[0].options, "seed": 2}, runs[0].metrics, None))
    for name, kept in (("all", runs), ("none", runs[1:])):
        groups = group_runs(kept, TABLES["adding"])
        saved = [as_saved(group, TABLES["adding"], "valid") for group in groups if group.runs]
        (tmp_path / f"{name}.json").write_text(json.dumps(saved))
    lines, _, rows, _ = plot(tmp_path / "all.json")
    assert list(lines.values()) == [[(100, 1), (200, 2)]] and [row[-1] for row in rows[2:]] == ["1"]
    for name, option, message in (
        ("none", [], "none.json: keeps no validations"),
        ("all", ["--split", "test"], "--split: expected valid, the split that "),
    ):
        assert message in fails(main, "curves", tmp_path / f"{name}.json", *option)


@pytest.mark.parametrize(
    "options, named",
    [
        (
            ["--metric", "bleu"],  # which only later validations have
            "run.log: expected a metric that all its validations have, got 'bleu'; those of these runs have: loss, mse",
        ),
        (["--split", "test"], "run.log: no validation of split 'test'"),
        (["--output", "curves.gif"], "--output curves.gif: expected a name that ends in .png or .pdf or .svg"),
        (["{checkpoint}"], "checkpoint_last.pt: expected a log of fairseq-train, or a model of skiprnn-train or an "),
        (["{folder}/broken.pt"], "broken.pt: can't be loaded as a fairseq checkpoint"),
        (["{folder}/run.log"], "run.log: given twice"),
        (["{folder}/none"], "none: no such file or folder"),
        (["{wave}"], "train.log: expected a run of task adding, as "),
        (["{folder}/damaged.log"], "damaged.log: a damaged log (ValueError in a validation)"),
    ],
)
def test_names_what_is_wrong(fails, log, tiny, tiny_frequency, tmp_path, options, named):
    path = log("run", [validation(100, mse=1), validation(200, mse=1, bleu=1)])
    log("damaged", [validation(100, mse="much"), validation(200, mse=1)], SEED2)
    (tmp_path / "broken.pt").write_bytes(b"")
    places = {"folder": tmp_path, "checkpoint": tiny["seed1"].checkpoint, "wave": tiny_frequency["1"].log}
    options = [option.format(**places) for option in options]
    assert named in fails(main, "curves", "--output", tmp_path / "curves.png", path, *options)
    assert not (tmp_path / "curves.png").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of skiprnn-train: two that repeat each other, and one of other recordings of the same shape."""
    folder = tmp_path_factory.mktemp("trained")
    for number, seed, mean in ((1, 1, 0), (2, 2, 0), (3, 1, 5)):
        draw = np.random.default_rng(0)
        recordings = [draw.normal(mean + place % 2, 1, (20 + place, 2)) for place in range(20)]
        np.savez(folder / "own.npz", *recordings, labels=np.arange(20) % 2)
        options = ("--save-dir", folder / f"run{number}", "--seed", seed, "--max-updates", 5, "--hidden-size", 6)
        assert train([*map(str, (folder / "own.npz", *options, "--target-fraction", 0.5))]) == 0
    return folder


def test_a_model_without_a_log(plot, fails, trained):
    """``skiprnn-train`` keeps the validations in the checkpoint."""
    runs = [trained / f"run{number}" for number in (1, 2, 3)]
    accuracies = [[numbers["accuracy"] for numbers in SkipRNNClassifier.load(run).history_] for run in runs]
    lines, _, rows, axes = plot(*runs[:2], runs[1] / "../run3/checkpoint_best.pt")
    same, other = lines.values()
    assert same == list(zip(range(1, 6), np.mean(accuracies[:2], 0)))
    assert other == list(zip(range(1, 6), accuracies[2]))
    assert [[row[1], row[-1]] for row in rows[2:]] == [["5", "2"], ["5", "1"]]
    assert axes.figure.get_suptitle() == "Feature classification, split valid; mean and range of 1 or 2 runs"
    (history,) = read_histories(runs[0] / "checkpoint_best.pt", "valid")
    assert history.metrics == history.validations[-1]
    for option, value, message in (
        ("--over", "epochs", "--over: expected updates, as "),
        ("--split", "test", "--split: expected valid, the split that "),
    ):
        assert message in fails(main, "curves", runs[0], option, value)


def test_estimators_with_other_seeds(plot, tmp_path):
    """They repeat each other, although other recordings are held out; other labels are other data."""
    draw = np.random.default_rng(0)
    recordings, labels = [draw.normal(place % 2, 1, (20, 2)) for place in range(20)], np.arange(20) % 2
    for number, (seed, found) in enumerate(((1, labels), (2, labels), (1, labels[::-1]))):
        estimator = SkipRNNClassifier(hidden_size=6, max_updates=5, random_state=seed, device="cpu", progress=False)
        estimator.fit(recordings, found).save(tmp_path / f"{number}.pt")
    *_, rows, _ = plot(*(tmp_path / f"{number}.pt" for number in range(3)))
    assert [row[-1] for row in rows[2:]] == ["2", "1"]
