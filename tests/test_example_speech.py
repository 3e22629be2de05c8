"""The corpus of the example ``speech`` is what it says."""

import os
from importlib.util import find_spec
from shutil import which

import numpy as np
import pytest

from .command_line import ROOT
from .forked import run_forked

MAKE = ROOT / "user_dir_examples/speech/make_digits.py"
SPEAKS = which("espeak-ng") and find_spec("kaldi_native_fbank")
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def read_manifest(folder, split):
    return [line.split("\t") for line in (folder / f"{split}.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(
    "options",
    [[], pytest.param(["--espeak"], marks=pytest.mark.skipif(not SPEAKS, reason="needs espeak-ng"))],
    ids=["made up", "espeak"],
)
def test_corpus(tmp_path, options):
    folder = tmp_path / "digits"
    process = run_forked(MAKE, folder, 20, *options)
    assert process.returncode == 0, process.stderr
    assert [len(read_manifest(folder, split)) for split in ("train", "valid", "test")] == [20, 1, 1]
    spoken, means = [], []
    for _, path, frames, text, _ in read_manifest(folder, "train"):
        features = np.load(folder / path)
        assert features.shape == (int(frames), 80) and np.isfinite(features).all()
        assert np.isfinite(np.square(features).sum(0)).all()  # fairseq's utterance_cmvn computes it in their dtype
        assert 1 <= len(text.split()) <= 4 and len(features) > 15 * len(text.split())
        spoken += text.split()
        means.append(features.astype(np.float32).mean(1))
    assert set(spoken) <= set(WORDS) and len(set(spoken)) > 5
    # sounds are louder than pauses, which come first or last
    assert all(mean.max() > max(mean[0], mean[-1]) + 0.1 for mean in means)


@pytest.mark.parametrize(
    "options,message",
    [
        ([19], "utterances: expected at least 20, got 19"),
        (["--espeak"], "--espeak: expected espeak-ng and kaldi-native-fbank, got no espeak-ng"),
    ],
)
def test_bad_options(tmp_path, options, message):
    process = run_forked(MAKE, tmp_path / "digits", *options, PATH=os.devnull)
    assert process.returncode == 2 and f"error: {message}" in process.stderr
    assert not list(tmp_path.iterdir())
