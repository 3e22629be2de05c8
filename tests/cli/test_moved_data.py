"""The commands that load checkpoints, where the data that a model was trained with now lie elsewhere."""

import json
from argparse import Namespace

import pytest

from skiprnn_plugin.cli.loading import prepare_loading
from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.report import main as report

from ..command_line import train
from ..idx_files import write_digits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A save-dir."""
    folder = tmp_path_factory.mktemp("run")
    write_digits(folder / "mnist")
    train(folder, "--data-dir", folder / "mnist", "--rows", "--max-update", 1, task="sequential_mnist")
    return folder


def test_one_option_says_where_they_are(prints, fails, run, tmp_path):
    write_digits(tmp_path / "moved data", test=3)
    moved = ("--set", f"data_dir={tmp_path}/moved data")
    printed = prints(report, run, "--table", "mnist", *moved)
    assert printed.endswith("Held-out split: test, 3 sequences.\n")
    skips = ("skips", run, "--split", "test", "--output", tmp_path / "skips.png")
    assert "| 3 |" in prints(plot, *skips, *moved)
    samples = ("samples", run, "--split", "test", "--output", tmp_path / "digits.png")
    assert "--num-sequences: split test has 3, got 4" in fails(plot, *samples, "--num-sequences", 4, *moved)
    prints(plot, *samples, *moved)
    where = "got 'gone'; if it was moved: --set data_dir=DIR, in Python from_pretrained(..., data_dir=DIR))"
    assert where in fails(plot, *samples, "--set", "data_dir=gone")


@pytest.mark.parametrize("name", ["mnist #2", "on", "1_000", "a: b", "{x}"])
def test_a_folder_of_any_name(prints, run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_digits(tmp_path / name, test=3)
    printed = prints(report, run, "--table", "mnist", "--set", f"data_dir={name}")
    assert printed.endswith("Held-out split: test, 3 sequences.\n")


def test_no_file():
    given = ["embedding_path=null", "decoder_embed_path=no", "min_skip=null", "gate=on"]
    expected = {"embedding_path": None, "decoder_embed_path": "no", "min_skip": None, "gate": True}
    assert prepare_loading(Namespace(set=given, user_dir=None)) == expected


def test_runs_repeat_each_other_wherever_the_data_were(prints, run, tmp_path):
    write_digits(tmp_path / "moved")
    saved = tmp_path / "saved.json"
    saved.write_text(prints(report, run, "--table", "mnist", "--json"))
    assert json.loads(saved.read_text())[0]["runs"][0]["options"]["data_dir"] == "mnist"
    there = ("--set", f"data_dir={tmp_path}/moved", "--split", "test", "--output", tmp_path / "tradeoff.png")
    (*_, row) = prints(plot, "tradeoff", saved, run, *there).splitlines()
    assert row.startswith("| Skip GRU, λ=1e-5 |") and row.endswith("| 2 |")
