"""Conversion of weights from and to torch's modules, and from the authors' program."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN, from_authors, from_torch, to_torch

from ..compare import assert_close, assert_equal
from ..golden_cases import DIRECTORY, load

PAIRS = [(SkipLSTM, nn.LSTM), (SkipGRU, nn.GRU), (SkipRNN, nn.RNN)]
every_pair = pytest.mark.parametrize("ours, theirs", PAIRS, ids=["lstm", "gru", "rnn"])
every_shape = pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2, "dropout": 0.5}, {"bidirectional": True}, {"batch_first": False}],
    ids=["plain", "2-layers", "bidirectional", "time-first"],
)


@every_pair
@every_shape
def test_from_torch(ours, theirs, options):
    peer = theirs(3, 5, **{"batch_first": True, **options}).double().eval()
    skip = from_torch(peer, gate=False).eval()
    assert type(skip) is ours and skip.dropout == peer.dropout
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    assert_close(skip(x)[0], peer(x)[0], "output")
    assert from_torch(peer, update_bias=-3.0).update_bias.item() == -3.0


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@every_pair
def test_the_mode_and_frozen_weights_stay(ours, theirs, training):
    peer = theirs(3, 5, 2, dropout=0.5).train(training)
    peer.weight_hh_l1.requires_grad_(False)
    for converted in (from_torch(peer), to_torch(from_torch(peer))):
        assert all(module.training == training for module in converted.modules())
        frozen = [name for name, parameter in converted.named_parameters() if not parameter.requires_grad]
        assert frozen == ["weight_hh_l1"]


@every_pair
@every_shape
def test_to_torch_and_back(ours, theirs, options):
    skip = ours(3, 5, **options)
    peer = to_torch(skip)
    assert type(peer) is theirs and peer.batch_first == skip.batch_first and peer.dropout == skip.dropout
    again = from_torch(peer)
    for name, value in peer.state_dict().items():
        assert_equal(value, skip.state_dict()[name], name)
        assert_equal(again.state_dict()[name], value, name)


@every_pair
def test_options_come_before_what_the_module_has(ours, theirs):
    options = {"batch_first": True, "dropout": 0.25, "num_layers": 2, "bidirectional": False}
    skip = from_torch(theirs(3, 5, 2), **options)
    assert type(skip) is ours and {name: getattr(skip, name) for name in options} == options


AUTHORS = {"W_gates": np.zeros((7, 8)), "b_gates": np.zeros(8), "W_cand": np.zeros((7, 4)), "b_cand": np.zeros(4)}
AUTHORS["init_h"] = np.zeros((1, 4))


@pytest.mark.parametrize(
    "convert, source, options, message",
    [
        (from_torch, nn.GRU(3, 4), {"bidirectional": True}, "bidirectional: expected False, .* got True"),
        (from_torch, nn.GRU(3, 4), {"num_layers": 2}, "num_layers: expected 1, .* got 2"),
        (from_torch, nn.GRU(3, 4), {"input_size": 4}, "input_size: expected 3, .* got 4"),
        (from_authors, AUTHORS, {"hidden_size": 3}, "hidden_size: expected 4, .* got 3"),
        (from_authors, AUTHORS, {"reset_after": True}, "reset_after: expected False, .* got True"),
    ],
)
def test_options_that_contradict_the_weights(convert, source, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        convert(source, **options)


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


@every_pair
@pytest.mark.parametrize(
    "change",
    [
        lambda module: parametrizations.weight_norm(module, "weight_hh_l0"),
        lambda module: parametrize.register_parametrization(module, "bias_ih_l0", Doubled()),
    ],
    ids=["weight_norm", "parametrization"],
)
def test_parameters_that_a_parametrization_computes(ours, theirs, change):
    x = torch.randn(4, 6, 3)
    peer, skip = theirs(3, 5, batch_first=True), ours(3, 5)
    for module in (peer, skip):
        change(module)
    assert_close(from_torch(peer, gate=False)(x)[0], peer(x)[0], "output")
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        assert_equal(getattr(to_torch(skip), name), getattr(skip, name), name)


@every_pair
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_older_weight_norm_is_refused(ours, theirs):
    for convert, module, argument in ((from_torch, theirs(3, 5), "module"), (to_torch, ours(3, 5), "skip")):
        nn.utils.weight_norm(module, "weight_hh_l0")
        with pytest.raises(
            ValueError, match=f"^{argument}: expected a parameter weight_hh_l0, got a value that a hook"
        ):
            convert(module)


@pytest.mark.parametrize(
    "module, message",
    [
        (nn.Linear(2, 3), "expected nn.LSTM, nn.GRU or nn.RNN, got Linear"),
        (nn.GRU(2, 3, bias=False), "bias=False"),
        (nn.LSTM(2, 3, proj_size=2), "proj_size"),
        (nn.RNN(2, 3, nonlinearity="relu"), "relu"),
        (nn.GRU(2, 3, 2, bidirectional=True), "bidirectional with several layers"),
    ],
    ids=["linear", "no-bias", "projection", "relu", "bidirectional"],
)
def test_from_what_has_no_counterpart(module, message):
    with pytest.raises(ValueError, match=f"^module: .*{message}"):
        from_torch(module)


@pytest.mark.parametrize(
    "skip",
    [
        SkipGRU(2, 3, reset_after=False),
        SkipLSTM(2, 3, layer_norm=True),
        SkipRNN(2, 3, 2, bidirectional=True),
        SkipGRU(2, 3, zoneout=0.1),
        SkipLSTM(2, 3, recurrent_dropout=0.1),
    ],
    ids=["reset-before", "layer-norm", "bidirectional", "zoneout", "recurrent-dropout"],
)
def test_to_what_has_no_counterpart(skip):
    with pytest.raises(ValueError, match="^skip: .* has no counterpart in torch.nn"):
        to_torch(skip)
    with pytest.raises(ValueError, match="^skip: expected SkipLSTM, SkipGRU or SkipRNN, got Linear"):
        to_torch(nn.Linear(2, 3))


@pytest.mark.parametrize("model", ["skip_lstm", "skip_gru"])
def test_from_the_authors_npz(model):
    """The variables of the authors' training run give its outputs and gates."""
    arrays = load(f"train_adding_{model}_f32")
    names = [key for key in arrays if key.startswith("param_") and not key.endswith("_out")]
    for update in range(6):
        skip = from_authors({key[len("param_") :]: arrays[key][update] for key in names})
        last, _, updates = skip(arrays["x"][update], last_only=True)
        out = last @ arrays["param_W_out"][update] + arrays["param_b_out"][update]
        assert_close(out, arrays["out"][update], "out")
        assert_equal(updates, arrays["u"][update].squeeze(-1), "u")


def authors_arrays(case):
    """The variables in a golden file, with the initial states of the first row."""
    variables = ("W_gates", "b_gates", "W_cand", "b_cand", "w_p", "b_p", "init_h", "init_c")
    with np.load(DIRECTORY / f"{case}.npz") as file:
        return {name: file[name][:1] if "init" in name else file[name] for name in variables if name in file.files}


@pytest.mark.parametrize("case", ["skip_lstm_f64", "skip_gru_f64", "basic_lstm_f64", "basic_gru_f64"])
def test_from_the_authors_cells(case):
    golden = load(case)
    skip = from_authors(authors_arrays(case), engine="reference").to(golden["x"].device)
    output, _, updates = skip(golden["x"][:1])
    assert skip.engine == "reference" and (skip.update_weight is None) == case.startswith("basic")
    assert_close(output, golden["h"][:1], "h")
    if "u" in golden:
        assert_equal(updates, golden["u"][:1].squeeze(-1), "u")


def test_a_stack_of_the_authors_lstms():
    arrays = {key: value for key, value in authors_arrays("skip_lstm_f64").items() if key not in ("w_p", "b_p")}
    generator = np.random.default_rng(0)
    stacked = {f"l1_{key}": value for key, value in arrays.items()}
    stacked.update({f"l2_{key}": generator.normal(size=value.shape) for key, value in arrays.items()})
    stacked["l2_W_gates"] = generator.normal(size=(14, 28))
    skip, lower = from_authors(stacked), from_authors(arrays)
    upper = from_authors({key[3:]: value for key, value in stacked.items() if key.startswith("l2_")})
    x = load("skip_lstm_f64")["x"].to(skip.initial_h.device)
    assert_close(skip(x)[0], upper(lower(x)[0])[0], "output")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"W_gates": None}, "^W_gates: missing"),
        ({"b_gates": np.zeros(3)}, r"^b_gates: expected shape \(28,\), got \(3,\)"),
        ({"W_gates": np.zeros((10, 27))}, r"^W_gates: expected shape \[input \+ H, 4 \* H\], got \(10, 27\)"),
        ({"init_h": np.zeros((5, 7))}, r"^init_h: expected shape \(1, 7\), got \(5, 7\)"),
        ({"b_p": None}, "^b_p: missing"),
        ({"l1_W_gates": np.zeros((10, 28)), "l2_W_gates": np.zeros((14, 28)), "l1_W_cand": np.zeros(1)}, "stack of"),
    ],
    ids=["missing", "bias", "matrix", "state", "gate", "gru-stack"],
)
def test_bad_arrays(change, message):
    arrays = {**authors_arrays("skip_lstm_f64"), **change}
    with pytest.raises(ValueError, match=message):
        from_authors({key: value for key, value in arrays.items() if value is not None})
