"""Wrong arguments of every recipe: one line of error, and nothing is started."""

import pytest

from ..command_line import ROOT
from .start import needs_environment, recipe

RECIPES = [path.name for path in sorted((ROOT / "recipes").glob("*.sh")) if path.read_text().startswith("#!")]


@pytest.mark.parametrize(
    "name,arguments,environment,message",
    [
        ("quickstart.sh", ["0"], {}, "error: MAX_UPDATE: expected a whole number of at least 1, got '0'"),
        ("quickstart.sh", [], {"MAX_UPDATE": "0"}, "error: MAX_UPDATE: expected a whole number of at least 1, got '0'"),
        ("quickstart.sh", ["many"], {}, "error: MAX_UPDATE: expected a whole number of at least 1, got 'many'"),
        ("adding.sh", [], {"MAX_UPDATE": "0"}, "error: MAX_UPDATE: expected a whole number of at least 1, got '0'"),
        ("adding.sh", [], {"JOBS": "-1"}, "error: JOBS: expected a whole number of at least 1, got '-1'"),
        ("adding.sh", [], {"SEEDS": "1 x"}, "error: SEEDS: expected a whole number of at least 1, got 'x'"),
        ("adding.sh", [], {"SEEDS": "*"}, "error: SEEDS: expected a whole number of at least 1, got '*'"),
        ("adding.sh", [], {"SEEDS": "2 1 2"}, "error: SEEDS: '2' is given twice"),
        ("adding.sh", ["gru", "lstm", "gru"], {}, "error: ROW: 'gru' is given twice"),
        ("adding.sh", ["--fast"], {}, "unknown row '--fast' of table 'adding'; known: lstm,"),
        ("adding.sh", ["rnn"], {}, "unknown row 'rnn' of table 'adding'; known: lstm,"),
        ("frequency.sh", ["rnn"], {}, "unknown row 'rnn' of table 'frequency-1ms'; known: lstm,"),
        ("frequency.sh", ["--quick"], {"MAX_UPDATE": "x"}, "error: MAX_UPDATE: expected a whole number of at least 1"),
        ("imdb.sh", [], {}, "error: ACLIMDB: expected the folder aclImdb or its .tar.gz, got ''"),
        ("imdb.sh", ["no.gz", "gru"], {}, "error: ACLIMDB: expected the folder aclImdb or its .tar.gz, got 'no.gz'"),
        ("imdb.sh", [ROOT], {"WORD2VEC": "no.bin"}, "error: WORD2VEC: expected a file of word vectors, got 'no.bin'"),
        ("imdb.sh", [ROOT], {"LENGTHS": "200 300"}, "error: LENGTHS: expected 200, 400 or both, got '200 300'"),
        ("imdb.sh", [ROOT], {"LENGTHS": "200 200"}, "error: LENGTHS: '200' is given twice"),
        ("imdb.sh", [ROOT, "rnn"], {}, "unknown row 'rnn' of table 'imdb-200'; known: lstm,"),
        ("mnist.sh", [], {}, "error: DATA_DIR: expected a folder with the four files of the MNIST database, got ''"),
        ("mnist.sh", ["no/folder"], {}, "error: DATA_DIR: expected a folder with the four files of the MNIST"),
        (
            "mnist.sh",
            [ROOT, "--quick", "--fast"],
            {},
            "error: --fast: expected it without --quick, which trains another model",
        ),
        (
            "mnist.sh",
            [ROOT, "--quick", "gru"],
            {},
            "error: ROW: expected none, as --quick trains another model, got 'gru'",
        ),
        ("mnist.sh", [ROOT], {"VALID_SIZE": "0"}, "error: VALID_SIZE: expected a whole number of at least 1, got '0'"),
        (
            "charades.sh",
            [],
            {},
            "error: DATA_DIR: expected a folder that skiprnn-prepare features or video made, got ''",
        ),
        (
            "ucf101.sh",
            [ROOT],
            {},
            f"error: DATA_DIR: expected a folder that skiprnn-prepare features or video made, got '{ROOT}'",
        ),
        ("smartwatch.sh", [], {}, "error: FILE.npz: expected a file of recordings, got ''"),
        ("smartwatch.sh", ["a.npz", "b.npz"], {}, "error: FILE.npz: expected one, got 'a.npz' and 'b.npz'"),
        ("smartwatch.sh", [__file__], {"CELLS": "gru rnn"}, "error: CELLS: expected gru, lstm or both, got 'rnn'"),
        ("smartwatch.sh", [__file__], {"LAMBDAS": "x"}, "error: LAMBDAS: expected numbers of at least 0, got 'x'"),
        ("sweep.sh", ["mnist"], {}, "error: TASK: expected adding, frequency or own, got 'mnist'"),
        ("sweep.sh", ["adding", "frequency"], {}, "error: TASK: expected one, got 'adding' and 'frequency'"),
        ("sweep.sh", ["--quick", "own"], {}, "error: --quick: expected task adding or frequency, got own"),
        ("sweep.sh", ["--", "--seed=1"], {}, "error: FLAG: --seed=1 is set by ARCHS, LAMBDAS,"),
        ("sweep.sh", [], {"LAMBDAS": "0 1e-4x"}, "error: LAMBDAS: expected numbers of at least 0, got '1e-4x'"),
        ("sweep.sh", [], {"LAMBDAS": "0 1e-4 0"}, "error: LAMBDAS: '0' is given twice"),
        ("sweep.sh", [], {"SKIP_PROBS": "-1"}, "error: SKIP_PROBS: expected numbers of at least 0, got '-1'"),
        ("sweep.sh", [], {"ARCHS": "full_gru"}, "error: ARCHS: expected architectures with a gate"),
        ("sweep.sh", [], {"BASELINES": "all"}, "error: BASELINES: expected full, random, both or none, got 'all'"),
        (
            "frequency.sh",
            [],
            {"SAMPLING_PERIODS": "1 2"},
            "error: SAMPLING_PERIODS: expected 1, 0.5 or both, got '1 2'",
        ),
    ],
    ids=str,
)
@needs_environment
def test_bad_arguments(name, arguments, environment, message):
    process = recipe(name, *arguments, **environment)
    assert process.returncode == 2
    assert message in process.stderr and process.stderr.count("\n") == 1


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("name", RECIPES)
def test_help_is_the_recipes_head(name, flag):
    process = recipe(name, *(["data"] if flag == "-h" else []), flag)
    assert process.returncode == 0 and process.stderr == ""
    assert f"  bash recipes/{name}" in process.stdout and "set -euo" not in process.stdout
    assert process.stdout.startswith(("Reproduce the paper's", "Train", "Recognise", "Measure"))
