"""``--update-threshold``, ``--min-skip``, ``--max-skip``, ``--sweep``: a checkpoint that updates more or less often."""

import json

import numpy as np
import pytest

from benchmarks.int8 import main as int8
from recipes.zoo import main as make_zoo_file
from skiprnn_plugin.cli.export import main as export
from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.cli.report import main as report
from skiprnn_plugin.hub import from_pretrained

from ..command_line import train, validate
from ..frozen.make import FOLDER, arrays


def sweep(prints, checkpoint, values, *options):
    lines = json.loads(prints(report, checkpoint, "--sweep", values, "--split", "valid", "--json", *options))
    return {line["label"]: line["runs"][0]["metrics"] for line in lines}


def test_a_sweep_of_the_threshold(prints, tiny):
    """0.5 gives what training logged; and a table has a line for each value."""
    found = sweep(prints, tiny["seed1"].checkpoint, "update_threshold=0.3,0.5,0.9")
    middle, low, high = found.values()  # the paper's row comes first
    for name in ("loss", "updates", "mse"):
        assert middle[name] == pytest.approx(tiny["seed1"].logged[name], rel=1e-5)
    assert low["updates"] > middle["updates"] > high["updates"]
    labels = list(found)
    assert labels == [labels[0], f"{labels[0]}, update threshold 0.3", f"{labels[0]}, update threshold 0.9"]


def test_fairseq_validate_and_the_hub_do_the_same(prints, tiny):
    checkpoint = tiny["seed1"].checkpoint
    for name, values in (("min_skip", "0,2"), ("max_skip", "none,1")):
        *_, changed = sweep(prints, checkpoint, f"{name}={values}").values()
        value = int(values[-1])
        (logged,) = validate(checkpoint, "--model-overrides", str({name: value}), "--valid-subset", "valid")["valid"]
        assert logged["valid_updates"] == pytest.approx(changed["updates"], rel=1e-5)
        assert abs(changed["updates"] - tiny["seed1"].logged["updates"]) > 0.1
        hub = from_pretrained(checkpoint, **{name: value})
        x = np.random.default_rng(0).random((30, 2), np.float32)
        (used,) = hub.used_samples([x])
        stream, found = hub.stream(), []
        while stream.wanted[0] < 30:
            found.append(int(stream.wanted[0]))
            stream.skip(stream.wanted - stream.time)
            stream.update(x[found[-1]][None])
        assert used.nonzero()[0].tolist() == found
        gaps = np.diff(found) - 1
        assert gaps.min() >= 2 if name == "min_skip" else gaps.max() <= 1


def test_checkpoints_of_earlier_versions(prints, tmp_path):
    np.save(tmp_path / "x.npy", arrays("skip_gru")[0])
    used = []
    for option in ([], ["--min-skip", 3], ["--update-threshold", 0.9]):
        (item,) = json.loads(prints(predict, FOLDER / "skip_gru.pt", tmp_path / "x.npy", "--json", *option))
        used.append(item["used"])
    assert (
        used[0] == from_pretrained(FOLDER / "skip_gru.pt").used_samples(arrays("skip_gru")[:1])[0].nonzero()[0].tolist()
    )
    assert min(np.diff(used[1])) > 3 and len(used[2]) < len(used[0])


def test_a_figure_of_a_sweep(prints, tiny, tmp_path):
    output = tmp_path / "sweep.png"
    table = prints(
        plot, "tradeoff", tiny["seed1"].checkpoint, "--sweep", "update-threshold=0.9,0.5,0.3", "--output", output
    )
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()][2:]
    assert [row[0] for row in rows] == [
        f"Skip GRU, {value}" for value in ("update threshold 0.3", "as trained", "update threshold 0.9")
    ]
    assert float(rows[0][1]) > float(rows[1][1]) > float(rows[2][1]) and output.stat().st_size > 10000


@pytest.mark.parametrize(
    "main, options, message",
    [
        (report, ["{log}", "--sweep", "min_skip=1,2"], "--sweep: expected checkpoints, which can be evaluated again"),
        (
            report,
            ["{log}", "--update-threshold", 0.9],
            "--update-threshold: expected checkpoints, which can be evaluated",
        ),
        (report, ["{log}", "--sweep", "min_skip=5"], "--min-skip: expected checkpoints, which can be evaluated again"),
        (report, ["{run}", "--max-skip", 3, "--set", "max_skip=4"], "--max-skip: expected no --set max_skip beside it"),
        (report, ["{run}", "--sweep", "max_skip=1,2", "--max-skip", 3], "--sweep: expected max_skip nowhere else"),
        (export, ["{run}", "{folder}/x.h", "--set", "engine=int8"], "--set engine=int8: expected --weights int8, for"),
        (report, ["{run}", "--sweep", "min_skip=1,x"], "--sweep: expected update_threshold=NUMBERS, or min_skip or"),
        (report, ["{run}", "--sweep", "engine=native"], "--sweep: expected update_threshold=NUMBERS, or min_skip or"),
        (report, ["{run}", "--update-threshold", 1.5], "--update-threshold: expected a probability in [0, 1), got 1.5"),
        (report, ["{run}", "--min-skip", 3, "--max-skip", 2], "--max-skip: expected at least min_skip, 3, got 2"),
        (report, ["{other}", "--max-skip", 2], "--max-skip: expected None for a model without a gate that rounds"),
        (
            export,
            ["{run}", "{folder}/x.safetensors", "--set", "min_skip=1"],
            "expected a model without min_skip and max_skip, as only a .pt2 file can hold them",
        ),
        (make_zoo_file, ["{run}", "mine", "--folder", "{folder}", "--set", "max_skip=4"], "--set: expected no update_"),
        (
            int8,
            ["--min-skip", 1],
            "--set, --update-threshold, --min-skip, --max-skip: expected a CHECKPOINT, got ",
        ),
    ],
)
def test_names_what_is_wrong(fails, tiny, tmp_path, main, options, message):
    places = {"run": tiny["seed1"].checkpoint, "other": tiny["other"].checkpoint, "log": tiny["seed1"].log}
    printed = fails(main, *(str(option).format(**places, folder=tmp_path) for option in options))
    assert message in printed


PROBABILITY = "--update-threshold: expected a probability in [0, 1)"


@pytest.mark.parametrize(
    "main, argument, options, message",
    [
        (predict, "x.npy", ["--update-threshold", 1], f"{PROBABILITY}, got 1.0"),
        (predict, "x.npy", ["--update-threshold", -1], f"{PROBABILITY}, got -1.0"),
        (predict, "x.npy", ["--set", "update_threshold=x"], f"{PROBABILITY}, got 'x'"),
        (predict, "x.npy", ["--min-skip", -1], "--min-skip: expected an integer of at least 0, got -1"),
        (predict, "x.npy", ["--min-skip", 5, "--max-skip", 2], "--max-skip: expected at least min_skip, 5, got 2"),
        (predict, "x.npy", ["--set", "hidden_size=0"], "hidden_size: expected an integer of at least 1, got 0"),
        (export, "x.h", ["--update-threshold", "nan"], f"{PROBABILITY}, got nan"),
        (report, "--json", ["--update-threshold", 1], f"{PROBABILITY}, got 1.0"),
        (
            predict,
            "x.npy",
            ["--update-threshold", 0.99999999999],
            f"{PROBABILITY}, got 0.99999999999, which is 1 in float32",
        ),
        (report, "--json", ["--max-skip", -1], "--max-skip: expected an integer of at least 0, got -1"),
    ],
)
def test_does_not_blame_the_checkpoint(fails, tiny, tmp_path, monkeypatch, main, argument, options, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((5, 2), np.float32))
    assert fails(main, tiny["seed1"].checkpoint, argument, *options).endswith(f": error: {message}\n")


@pytest.mark.parametrize(
    "main, options, shown",
    [(report, [], True), (int8, [], True), (make_zoo_file, [], False), (export, ["--update-threshold"], False)],
    ids=["report", "int8", "zoo", "export"],
)
def test_only_commands_that_evaluate_a_checkpoint_show_the_dials(capsys, main, options, shown):
    with pytest.raises(SystemExit):
        main(["--help"])
    words = capsys.readouterr().out.split()
    expected = {"--update-threshold", "--min-skip", "--max-skip"} if shown else {*options}
    assert {word for word in words if word in ("--update-threshold", "--min-skip", "--max-skip")} == expected


def test_an_exported_model_has_the_threshold(prints, tiny, tmp_path):
    prints(export, tiny["seed1"].checkpoint, tmp_path / "x.safetensors", "--update-threshold", 0.75)
    safetensors = pytest.importorskip("safetensors")
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as file:
        assert float(file.metadata()["threshold"]) == 0.75


def test_training_with_limits_applies_them_in_validation(tmp_path):
    logged = train(tmp_path, "--min-skip", 4, "--update-bias", 3, "--max-update", 1)
    assert logged["valid"][-1]["valid_update_fraction"] < 0.3 < logged["train"][-1]["train_update_fraction"]
