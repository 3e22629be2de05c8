"""Models and options that can't be exported end in one line, and leave the files as they were."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from torch import nn

from skiprnn_plugin.cli.export import main
from skiprnn_plugin.data.features import Statistics
from skiprnn_plugin.export.c_header import make_header
from skiprnn_plugin.export.onnx_file import make_onnx
from skiprnn_plugin.export.parts import Parts, collect_parts
from skiprnn_plugin.models.skip_rnn import SkipRNNModel
from skiprnn_plugin.modules import SkipGRU

from ..cli.conftest import fails  # noqa: F401  (a fixture)
from ..command_line import train


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A model of the adding task, which predicts numbers."""
    save_dir = tmp_path_factory.mktemp("adding")
    train(save_dir, "--max-update", 1)
    return save_dir / "checkpoint_last.pt"


@pytest.mark.parametrize(
    "output, options, message",
    [
        ("model.bin", [], "OUT: expected a name that ends in .safetensors, .h, .onnx, .pt2, got 'model.bin'"),
        ("model.h", ["--what", "sequence"], "--what: expected .onnx or .pt2 for sequence, got 'model.h'"),
        ("model.onnx", ["--name", "x"], "--name: expected an OUT that ends in .h, got 'model.onnx'"),
        ("missing/model.h", [], "OUT: no such folder: "),
        ("2-sensors.h", [], "--name: expected letters, digits and _, not beginning with a digit, got '2_sensors'"),
    ],
)
def test_wrong_options(checkpoint, tmp_path, fails, output, options, message):  # noqa: F811
    (tmp_path / "model.h").write_text("older")
    assert f"error: {message}" in fails(main, checkpoint, tmp_path / output, *options)
    assert [file.name for file in tmp_path.iterdir()] == ["model.h"]
    assert (tmp_path / "model.h").read_text() == "older"


def test_missing_package(checkpoint, tmp_path, fails, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "onnx", None)
    message = fails(main, checkpoint, tmp_path / "model.onnx")
    assert "model.onnx" not in message and ".onnx: needs the package onnx; pip install '.[export]'" in message


def make_hub(update_rule="learned", reads_words=False, length=None, own=None, **options):
    """A hub as far as the exporters look at it."""
    model = SkipRNNModel.__new__(SkipRNNModel) if own is None else own()
    nn.Module.__init__(model)
    model.rnn, model.head = SkipGRU(3, 4, **options), nn.Linear(4, 2)
    frames = SimpleNamespace(fit=SimpleNamespace(length=length), statistics=None)
    task = SimpleNamespace(frames=frames, predicts="classes", per_step=False)
    cfg = SimpleNamespace(model=SimpleNamespace(update_rule=update_rule))
    hub = SimpleNamespace(model=model, task=task, cfg=cfg, reads_words=reads_words, class_names=["a", "b"])
    hub.check_task = lambda: None
    return hub


@pytest.mark.parametrize(
    "options, message",
    [
        ({"reads_words": True}, "expected a model that reads numbers, this one reads token ids"),
        ({"bidirectional": True}, "expected a model of one direction, this one is bidirectional"),
        ({"layer_norm": True}, "expected a model without layer norm, which only the engine reference has"),
        ({"binarize": "bernoulli"}, "expected a model that decides by its gate alone, this one draws random numbers"),
        ({"update_rule": "random"}, "expected a model that decides by its gate alone, this one draws random numbers"),
        ({"length": 50}, "expected sequences of any length, the task crops or pads them to 50 steps"),
        ({"own": nn.Module}, "expected the model skip_rnn of this package, got Module"),
    ],
    ids=str,
)
def test_models_that_cannot_be_exported(options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        collect_parts(make_hub(**options))


def test_weights_that_are_not_finite():
    hub = make_hub()
    nn.init.constant_(hub.model.rnn.weight_hh_l0, np.inf)
    with pytest.raises(ValueError, match="expected finite numbers, weight_hh_l0 has infinite or NaN values"):
        collect_parts(hub)


def test_numbers_to_predict_that_differ_too_little_for_float32():
    """As times do: an exported model would predict the same time for all."""
    hub, mean = make_hub(), np.array([3.0, 1.7e9])
    nn.init.zeros_(hub.model.head.bias)
    hub.task.facts = SimpleNamespace(targets=Statistics(mean, np.array([1.0, 1e6])))
    assert collect_parts(hub).tensors["head_bias"] == pytest.approx(mean)
    hub.task.facts = SimpleNamespace(targets=Statistics(mean, np.array([1.0, 2.0])))
    with pytest.raises(ValueError, match=r"of output 1 have mean 1.7e\+09 and standard deviation 2; train"):
        collect_parts(hub)


@pytest.mark.parametrize("make", [lambda parts: make_onnx(parts, "step"), lambda parts: make_header(parts, "model")])
def test_threshold_with_which_nothing_is_read(make):
    pytest.importorskip("onnx")
    hub = make_hub()
    hub.model.rnn.threshold = 0.99999999  # 1 in float32
    parts = collect_parts(hub)
    assert isinstance(parts, Parts)
    with pytest.raises(ValueError, match="threshold: expected a number from 0 to below 1, got 0.99999999"):
        make(parts)
