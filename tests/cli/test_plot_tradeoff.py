"""``skiprnn-plot tradeoff``: the points, the figure, the table that it prints, and what can't be drawn."""

import ast
import json
from itertools import combinations

import pytest
from matplotlib.image import imread

from skiprnn_plugin.cli.plot import main

PAPER = {"hidden_size": 110, "sequence_length": 50, "gru_reset": "before", "update_bias": 1.0, "batch_size": 256}
FULL = {"arch": "full_gru", "cell": "gru", "update_rule": "full", "cost_per_sample": 0.0}
RANDOM = {"arch": "random_skip_gru", "cell": "gru", "update_rule": "random", "cost_per_sample": 0.0}


@pytest.fixture
def log(tiny, tmp_path):
    """``log(name, run, options, **metrics)``: a run's log as it would be with other options and other results."""

    def write(name, options=None, run=tiny["seed1"], **metrics):
        lines = []
        for line in run.log.read_text().splitlines():
            start = line.find("{")
            if "{'_name'" in line:
                line = line[:start] + repr(changed(ast.literal_eval(line[start:]), dict(options or {})))
            elif '"valid_loss"' in line:
                logged = json.loads(line[start:])
                logged.update({f"valid_{name}": str(value) for name, value in metrics.items()})
                line = line[:start] + json.dumps(logged)
            lines.append(line)
        path = tmp_path / f"{name}.log"
        path.write_text("\n".join(lines))
        return path

    return write


def changed(cfg, options):
    for part, name in (("model", "arch"), ("task", "task")):
        cfg[part]["_name"] = options.pop(name, cfg[part]["_name"])
    for part in cfg.values():
        if isinstance(part, dict):
            part.update({name: value for name, value in options.items() if name in part})
    return cfg


def drawn(figure):
    """Each series' points and the ends of its bars, by its name in the legend; "paper" for what is hollow."""
    (axes,) = figure.axes
    series = {}
    for container in axes.containers:
        line, _, bars = container.lines
        ends = [[(*low, *high) for low, high in bar.get_segments()] for bar in bars]
        name = "paper" if line.get_markerfacecolor() == "white" else container.get_label()
        series[name] = list(zip(*line.get_data())), ends
    return series


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.fixture
def plot(prints, tmp_path, figures):
    """The figure of some runs, and the rows of the printed table."""

    def call(*arguments):
        printed = prints(main, "tradeoff", *arguments, "--output", tmp_path / "tradeoff.png")
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
        return figures[-1], rows

    return call


def test_a_sweep_and_its_baselines(plot, log, tmp_path):
    figure, rows = plot(
        log("b", {"cost_per_sample": 1e-4}, mse=1e-2, update_fraction=0.5),
        log("a1", {"cost_per_sample": 0.0, "seed": 1}, mse=1e-3, update_fraction=0.9),
        log("a2", {"cost_per_sample": 0.0, "seed": 2}, mse=3e-3, update_fraction=0.8),
        log("full", {**FULL, "stop_update_fraction": 1.0}, mse=1e-4, update_fraction=1),
        log("random", {**RANDOM, "skip_prob": 0.4}, mse=1e-1, update_fraction=0.6),
    )
    series = drawn(figure)
    assert list(series) == ["Skip GRU", "GRU, every sample", "GRU, random skips"]
    points, (across, along) = series["Skip GRU"]
    assert points == [(pytest.approx(0.85), pytest.approx(2e-3)), (0.5, 1e-2)]  # by lambda
    assert across[0] == pytest.approx((0.8, 2e-3, 0.9, 2e-3)) and along[0] == pytest.approx((0.85, 1e-3, 0.85, 3e-3))
    assert series["GRU, every sample"][0] == [(1, 1e-4)] and series["GRU, random skips"][0] == [(0.6, 1e-1)]
    assert sorted(texts(figure)) == ["p=0.4", "λ=0", "λ=1e-4"]

    (axes,) = figure.axes
    assert axes.get_yscale() == "log" and axes.get_ylabel() == "mean squared error"
    assert axes.get_xlabel() == "samples used (updates / steps)"
    assert figure.get_suptitle() == "Adding task, split valid; mean and range of 1 or 2 runs"
    (solved,) = [line for line in axes.lines if line.get_label() == "solved"]
    assert solved.get_ydata() == pytest.approx([1 / 600] * 2)
    colors = {container.lines[0].get_color() for container in axes.containers}
    markers = {container.lines[0].get_marker() for container in axes.containers}
    assert len(colors) == 1 and len(markers) == 3  # one model, three rules
    assert imread(tmp_path / "tradeoff.png").shape[1] == 1380
    assert rows == [
        ["model", "samples used", "mse", "runs"],
        ["---"] * 4,
        ["Skip GRU, λ=0", "0.85 ± 0.071", "0.002 ± 0.0014", "2"],
        ["Skip GRU, λ=1e-4", "0.5", "0.01", "1"],
        ["GRU, every sample", "1", "0.0001", "1"],
        ["GRU, random skips, p=0.4", "0.6", "0.1", "1"],
    ]


def test_a_checkpoint_and_a_log_of_other_seeds_are_one_point(plot, tiny):
    figure, _ = plot(tiny["seed1"].save_dir, tiny["seed2"].log)
    ((point,), _) = drawn(figure)["Skip GRU"]
    logged = [tiny[name].logged for name in ("seed1", "seed2")]
    assert point == tuple(
        pytest.approx(sum(run[metric] for run in logged) / 2, rel=1e-5) for metric in ("update_fraction", "mse")
    )
    assert logged[0]["mse"] != logged[1]["mse"]


def test_models_that_differ_in_more_have_colours_and_names_of_their_own(plot, log):
    figure, _ = plot(log("a"), log("b", {"hidden_size": 64}), log("c", {"arch": "skip_lstm", "cell": "lstm"}))
    assert list(drawn(figure)) == ["Skip GRU, hidden size 8", "Skip GRU, hidden size 64", "Skip LSTM"]
    assert len({container.lines[0].get_color() for container in figure.axes[0].containers}) == 3


@pytest.mark.parametrize(
    "value, series", [(0.0, ["Skip GRU"]), (0.5, ["Skip GRU, input dropout 0", "Skip GRU, input dropout 0.5"])]
)
def test_an_option_that_an_older_version_lacks_has_its_default(plot, log, value, series):
    old, new = log("old", {"cost_per_sample": 0.0}), log("new", {"input_dropout": value})
    text = old.read_text()
    old.write_text(text.replace("'input_dropout': 0.0, ", ""))
    assert old.read_text() != text
    assert list(drawn(plot(old, new)[0])) == series


def test_runs_towards_a_target_are_a_series_of_their_own(plot, log):
    runs = [log(f"run{target}", {"target_fraction": target}, update_fraction=target) for target in (0.6, 0.4)]
    figure, _ = plot(log("a"), *runs)
    series = drawn(figure)
    assert list(series) == ["Skip GRU", "Skip GRU, to a target"]
    assert [x for x, _ in series["Skip GRU, to a target"][0]] == [0.4, 0.6]
    assert sorted(texts(figure)) == ["target 0.4", "target 0.6", "λ=1e-5"]
    assert len({container.lines[0].get_color() for container in figure.axes[0].containers}) == 1


def test_an_architecture_of_ones_own(plot, tiny, tmp_path):
    """Without the options of ``skip_rnn``."""
    path = tmp_path / "own.log"
    text = tiny["seed1"].log.read_text()
    for old, new in (("'skip_gru'", "'mine'"), ("'cell':", "'kind':"), ("'update_rule':", "'rule':")):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    figure, rows = plot(path)
    assert list(drawn(figure)) == ["mine"] and rows[2][0] == "mine, λ=1e-5"


@pytest.mark.parametrize(
    "options, fraction",
    [
        (PAPER, (0.507, 0.026)),
        ({**PAPER, **FULL}, (1.0, 0.0)),
        ({**PAPER, "lr": [1e-3]}, (0.507, 0.026)),  # the same model, trained otherwise
        ({**PAPER, "cost_per_sample": 2e-5}, None),  # no row of the paper's
        ({**PAPER, "sequence_length": 30}, None),  # another task
        ({**PAPER, **RANDOM, "skip_prob": 0.5}, None),  # which the paper has as not solved, without an MSE
    ],
    ids=["as the paper", "full", "learning rate", "lambda", "sequences", "random"],
)
def test_the_papers_own_numbers(plot, log, options, fraction):
    figure, _ = plot(log("run", options))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("paper (solved, no value given)" in legend) == (fraction is not None)
    if fraction is None:
        assert "paper" not in drawn(figure)
    else:
        (mean, spread), mse = fraction, pytest.approx(1 / 600)
        points, bars = drawn(figure)["paper"]
        assert points == [(mean, mse)]
        assert bars == [[(pytest.approx(mean - spread), mse, pytest.approx(mean + spread), mse)]]


def test_the_other_task(plot, tiny_frequency):
    figure, _ = plot(tiny_frequency["1"].save_dir)
    (axes,) = figure.axes
    logged = tiny_frequency["1"].logged
    assert drawn(figure)["Skip GRU"][0] == [
        (pytest.approx(logged["updates"], rel=1e-5), pytest.approx(logged["accuracy"], abs=1e-3))
    ]
    assert axes.get_yscale() == "linear" and axes.get_ylabel() == "accuracy"
    assert axes.get_xlabel() == "samples used (updates per sequence)"
    assert figure.get_suptitle() == "Frequency discrimination, sampled every 1 ms, split valid"


def test_another_metric_has_no_limit_of_another(plot, log):
    figure, rows = plot(log("a", task_loss=0.25), "--metric", "task_loss")
    assert figure.axes[0].get_ylabel() == "task loss" and rows[2][2] == "0.25"
    assert "solved" not in [line.get_label() for line in figure.axes[0].lines]


def test_labels_cover_neither_markers_nor_each_other(plot, log):
    lambdas = [(0, 0.8, 1e-3), (1e-5, 0.79, 1.1e-3), (1e-4, 0.77, 1.4e-3), (1e-3, 0.2, 1e-1)]
    logs = [
        log(f"run{index}", {"cost_per_sample": float(cost)}, mse=mse, update_fraction=fraction)
        for index, (cost, fraction, mse) in enumerate(lambdas)
    ]
    figure, _ = plot(*logs)
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 4 and not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    centers = axes.transData.transform([(fraction, mse) for _, fraction, mse in lambdas])
    assert not any(box.contains(*center) for box in boxes for center in centers)
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)


@pytest.mark.parametrize(
    "metrics, options, named",
    [
        ({}, ["--metric", "accuracy"], "run.log: has no metric 'accuracy'; these runs have: budget_loss, flops,"),
        ({"mse": "nan"}, [], "run.log: expected a number above 0 for mse, got nan"),
        ({"mse": 0}, [], "run.log: expected a number above 0 for mse, got 0.0"),
        ({"updates": "inf"}, ["--metric", "updates"], "run.log: expected a number that is finite for updates, got inf"),
        ({}, ["--split", "train"], "--split train"),
        ({}, ["--split", "other"], "run.log: no validation of split 'other'"),
        ({}, ["--output", "tradeoff.gif"], "--output tradeoff.gif: expected a name that ends in"),
        ({}, ["--user-dir", "/nowhere/plugin"], "--user-dir /nowhere/plugin"),
    ],
    ids=lambda value: " ".join(map(str, value)) if not isinstance(value, str) else "",
)
def test_names_what_is_wrong(fails, log, tmp_path, metrics, options, named):
    path = log("run", **metrics)
    assert named in fails(main, "tradeoff", path, "--output", tmp_path / "tradeoff.png", *options)
    assert [file.name for file in tmp_path.iterdir()] == ["run.log"]


def test_runs_that_are_no_points_of_one_figure(fails, log, tiny, tiny_frequency):
    adding, wave, faster = tiny["seed1"].log, tiny_frequency["1"].log, tiny_frequency["0.5"].log
    message = fails(main, "tradeoff", adding, wave)
    assert f"{wave}: expected a run of task adding, as {adding} is, got frequency_discrimination with" in message
    assert "sampling_period 1, as" in fails(main, "tradeoff", wave, faster)
    assert f"{adding}: given twice" in fails(main, "tradeoff", adding, adding)
    assert "nothing: no such file or folder" in fails(main, "tradeoff", "nothing")


def test_runs_without_a_known_metric(fails, tiny, tmp_path):
    path = tmp_path / "own.log"
    path.write_text(tiny["seed1"].log.read_text().replace('"valid_mse"', '"valid_error"'))
    message = fails(main, "tradeoff", path)
    assert "--metric: needed for these runs; they have: budget_loss, error, flops," in message
    assert "wps" not in message and "num_updates" not in message
