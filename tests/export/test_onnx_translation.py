"""``torch.onnx.export(dynamo=True)`` of a user's model with a Skip RNN inside."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from skiprnn_plugin.export import onnx_translations
from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN
from skiprnn_plugin.ops import Gate, LayerWeights, SkipState, skip_scan

from ..command_line import ROOT

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript", reason="torch.onnx.export needs the package onnxscript")
DYNAMIC = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}


class Model(nn.Module):
    """A Skip RNN between layers of torch's, as a user would write it."""

    def __init__(self, rnn, **options):
        super().__init__()
        self.before, self.rnn, self.options = nn.Linear(3, 4), rnn, options
        self.head = nn.Linear(rnn.hidden_size * (2 if rnn.bidirectional else 1), 2)

    def forward(self, x, lengths):
        output, _, updates = self.rnn(self.before(x), lengths=lengths, **self.options)
        return self.head(output), updates


MODELS = {
    "lstm": lambda: Model(SkipLSTM(4, 5, 2, gate_layers=[0, 1], update_bias=-0.5), last_only=True),
    "gru": lambda: Model(SkipGRU(4, 5, bidirectional=True, engine="indexed", update_bias=-0.5)),
    "gru_reset_before": lambda: Model(SkipGRU(4, 5, reset_after=False, update_bias=-0.5)),
    "rnn": lambda: Model(SkipRNN(4, 5, threshold=0.7, update_bias=-0.5)),
    "limits": lambda: Model(SkipGRU(4, 5, bidirectional=True, min_skip=1, max_skip=3, update_bias=-0.5)),
    "without a gate": lambda: Model(SkipGRU(4, 5, gate=False)),
}
QUICK = ("lstm", "limits")


def export(model, x, lengths, path, **options):
    shapes = {"x": DYNAMIC, "lengths": {0: Dim.DYNAMIC}}
    torch.onnx.export(model, (x, lengths), path, dynamo=True, dynamic_shapes=shapes, verbose=False, **options)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough) for name in MODELS]
)
@pytest.mark.parametrize("opset", [None, pytest.param(18, marks=pytest.mark.thorough)])
def test_any_batch_and_any_number_of_steps(name, opset, tmp_path):
    torch.manual_seed(8)
    model, path = MODELS[name]().eval(), tmp_path / "model.onnx"
    options = {"opset_version": opset, "custom_translation_table": onnx_translations()}
    export(model, torch.randn(2, 7, 3), torch.tensor([7, 4]), path, **options)
    session = onnxruntime.InferenceSession(path)
    for batch, steps in ((2, 7), (1, 1), (5, 40)):
        x, lengths = torch.randn(batch, steps, 3), torch.randint(0, steps + 1, (batch,))
        output, updates = session.run(None, {"x": x.numpy(), "lengths": lengths.numpy()})
        with torch.no_grad():
            expected, expected_updates = model(x, lengths)
        np.testing.assert_allclose(output, expected, atol=1e-5)
        np.testing.assert_array_equal(updates, expected_updates)


class PaddedOnTheLeft(nn.Module):
    """A model of its own on ``skip_scan``, whose sequences all end at the last step."""

    def __init__(self):
        super().__init__()
        self.rnn = SkipGRU(3, 5, update_bias=-0.5)

    def forward(self, x, offsets):
        rnn = self.rnn
        weights = [LayerWeights(rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0)]
        state, gate = SkipState(rnn.initial_h.expand(-1, len(x), -1)), Gate(rnn.update_weight, rnn.update_bias)
        output, state, updates = skip_scan(x, weights, state, gate, cell="gru", offsets=offsets)
        return output, state.h, state.p, state.acc, updates


def test_padding_on_the_left_alone(tmp_path):
    torch.manual_seed(8)
    model, path = PaddedOnTheLeft(), tmp_path / "model.onnx"
    shapes = {"x": DYNAMIC, "offsets": {0: Dim.DYNAMIC}}
    example, table = (torch.randn(2, 7, 3), torch.tensor([0, 4])), onnx_translations()
    torch.onnx.export(
        model, example, path, dynamo=True, dynamic_shapes=shapes, verbose=False, custom_translation_table=table
    )
    x, offsets = torch.randn(4, 9, 3), torch.tensor([2, 0, 9, 5])
    got = onnxruntime.InferenceSession(path).run(None, {"x": x.numpy(), "offsets": offsets.numpy()})
    with torch.no_grad():
        for value, expected in zip(got, model(x, offsets), strict=True):
            np.testing.assert_allclose(value, expected, atol=1e-5)


@pytest.mark.thorough
def test_page(tmp_path, monkeypatch):
    """The program of docs/export.md."""
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs/export.md").read_text(), re.DOTALL)[-1]
    names = {}
    exec(compile(code, "export.md", "exec"), names)
    x = torch.randn(3, 20, 3)
    output, *_, updates = onnxruntime.InferenceSession("rnn.onnx").run(None, {"x": x.numpy()})
    np.testing.assert_allclose(output, names["rnn"](x)[0].detach(), atol=1e-5)
    np.testing.assert_array_equal(updates, names["rnn"](x)[2].detach())


def test_a_loop_that_torch_would_unroll_is_refused(tmp_path):
    model = Model(SkipGRU(4, 5, engine="reference")).eval()
    with pytest.raises(Exception) as error:
        export(model, torch.randn(2, 7, 3), torch.tensor([7, 4]), tmp_path / "model.onnx")
    causes = []
    while error is not None:
        causes.append(str(getattr(error, "value", error)))
        error = getattr(error, "value", error).__cause__
    assert any("engine: 'reference' would fix the number of steps at that of the example" in cause for cause in causes)
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_without_the_table_or_in_training(tmp_path):
    model, example = MODELS["lstm"](), (torch.randn(2, 7, 3), torch.tensor([7, 4]))
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="No ONNX function found for .*skiprnn_plugin.scan"):
        export(model.eval(), *example, tmp_path / "model.onnx")
    model.train().rnn.dropout = 0.5
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        export(model, *example, tmp_path / "model.onnx", custom_translation_table=onnx_translations())
    assert not list(tmp_path.iterdir())


def test_other_types_than_float32_are_refused(tmp_path):
    """onnxruntime could not load the file."""
    rnn = SkipGRU(4, 5, dtype=torch.float64).eval()
    with pytest.raises(Exception, match="expected float32 for ONNX, got DOUBLE"):
        torch.onnx.export(
            rnn,
            (torch.randn(2, 6, 4, dtype=torch.float64),),
            tmp_path / "rnn.onnx",
            dynamo=True,
            dynamic_shapes={"x": DYNAMIC},
            custom_translation_table=onnx_translations(),
        )
