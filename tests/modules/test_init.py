"""Parameters: their names, shapes and initial values."""

import math

import pytest
import torch
from torch.nn.utils import parametrizations

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN

INPUTS, HIDDEN = 40, 110


def names_and_shapes(module):
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def layer(number, gates, inputs, norm=0):
    shapes = {
        f"weight_ih_l{number}": (gates * 5, inputs),
        f"weight_hh_l{number}": (gates * 5, 5),
        f"bias_ih_l{number}": (gates * 5,),
        f"bias_hh_l{number}": (gates * 5,),
    }
    if norm:
        shapes[f"norm_weight_l{number}"] = shapes[f"norm_bias_l{number}"] = (norm * 5,)
    return shapes


GATE = {"update_weight": (1, 5), "update_bias": (1,)}
H1, H2 = {"initial_h": (1, 1, 5)}, {"initial_h": (2, 1, 5)}
C1, C2 = {"initial_c": (1, 1, 5)}, {"initial_c": (2, 1, 5)}


@pytest.mark.parametrize(
    "module, options, expected",
    [
        (SkipLSTM, {}, {**layer(0, 4, 3), **GATE, **H1, **C1}),
        (SkipGRU, {}, {**layer(0, 3, 3), **GATE, **H1}),
        (SkipGRU, {"reset_after": False}, {**layer(0, 3, 3), **GATE, **H1}),
        (SkipLSTM, {"num_layers": 2}, {**layer(0, 4, 3), **layer(1, 4, 5), **GATE, **H2, **C2}),
        (SkipLSTM, {"gate": False}, {**layer(0, 4, 3), **H1, **C1}),
        (SkipLSTM, {"layer_norm": True}, {**layer(0, 4, 3, norm=4), **GATE, **H1, **C1}),
        (SkipGRU, {"layer_norm": True}, {**layer(0, 3, 3, norm=2), **GATE, **H1}),
        (
            SkipGRU,
            {"num_layers": 2, "gate_layers": (0, 1)},
            {**layer(0, 3, 3), **layer(1, 3, 5), **GATE, "update_weight": (1, 10), **H2},
        ),
    ],
    ids=["lstm", "gru", "gru-before", "2-layers", "no-gate", "lstm-norm", "gru-norm", "gate-layers"],
)
def test_names_and_shapes(module, options, expected):
    assert names_and_shapes(module(3, 5, **options)) == expected


def assert_uniform(value, limit):
    """Assert that values lie in (-limit, limit), reach near both ends, and have the uniform mean and variance."""
    assert value.abs().max() <= limit
    assert value.max() > 0.99 * limit and value.min() < -0.99 * limit
    assert value.mean().abs() < 0.05 * limit
    assert value.var().item() == pytest.approx(limit**2 / 3, rel=0.05)


def glorot(rows, columns):
    return math.sqrt(6 / (rows + columns))


@pytest.mark.parametrize("number, inputs", [(0, INPUTS), (1, HIDDEN)], ids=["layer-0", "layer-1"])
def test_lstm_starts_as_the_authors_do(number, inputs):
    torch.manual_seed(0)
    rnn = SkipLSTM(INPUTS, HIDDEN, num_layers=2)
    limit = glorot(inputs + HIDDEN, 4 * HIDDEN)
    for name in ("weight_ih", "weight_hh"):
        assert_uniform(getattr(rnn, f"{name}_l{number}"), limit)
    i, f, g, o = getattr(rnn, f"bias_ih_l{number}").chunk(4)
    assert (f == 1).all() and not torch.cat([i, g, o]).any()
    assert not getattr(rnn, f"bias_hh_l{number}").any()


@pytest.mark.parametrize("reset_after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("number, inputs", [(0, INPUTS), (1, HIDDEN)], ids=["layer-0", "layer-1"])
def test_gru_starts_as_the_authors_do(number, inputs, reset_after):
    torch.manual_seed(0)
    rnn = SkipGRU(INPUTS, HIDDEN, num_layers=2, reset_after=reset_after)
    for name in ("weight_ih", "weight_hh"):
        gates, candidate = getattr(rnn, f"{name}_l{number}").split([2 * HIDDEN, HIDDEN])
        assert_uniform(gates, glorot(inputs + HIDDEN, 2 * HIDDEN))
        assert_uniform(candidate, glorot(inputs + HIDDEN, HIDDEN))
    gates, candidate = getattr(rnn, f"bias_ih_l{number}").split([2 * HIDDEN, HIDDEN])
    assert (gates == 1).all() and not candidate.any()
    assert not getattr(rnn, f"bias_hh_l{number}").any()


def test_authors_init_of_the_plain_rnn():
    torch.manual_seed(0)
    rnn = SkipRNN(INPUTS, HIDDEN)
    for name in ("weight_ih_l0", "weight_hh_l0"):
        assert_uniform(getattr(rnn, name), glorot(INPUTS + HIDDEN, HIDDEN))
    assert not rnn.bias_ih_l0.any() and not rnn.bias_hh_l0.any()


def test_layer_norm_takes_the_forget_bias():
    rnn = SkipLSTM(3, 5, layer_norm=True)
    i, f, g, o = rnn.norm_bias_l0.chunk(4)
    assert (f == 1).all() and not torch.cat([i, g, o]).any()
    assert not rnn.bias_ih_l0.any() and not rnn.bias_hh_l0.any()
    assert (rnn.norm_weight_l0 == 1).all()


@pytest.mark.parametrize("module", [SkipLSTM, SkipGRU, SkipRNN])
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "norm"])
def test_torch_init(module, layer_norm):
    torch.manual_seed(0)
    rnn = module(INPUTS, HIDDEN, init="torch", layer_norm=layer_norm)
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        value = getattr(rnn, name)
        assert 0.95 * HIDDEN**-0.5 < value.abs().max() <= HIDDEN**-0.5, name
    if layer_norm:
        assert (rnn.norm_weight_l0 == 1).all() and not rnn.norm_bias_l0.any()


@pytest.mark.parametrize("init", ["authors", "torch"])
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("module", [SkipLSTM, SkipGRU])
def test_chrono_init(module, init, layer_norm):
    """Units keep their state for 1 to T - 1 updates: the gate that keeps it is 1 - 1 / (1 + the memory)."""
    torch.manual_seed(0)
    rnn = module(3, 2000, num_layers=2, init=init, layer_norm=layer_norm, chrono_init=100)
    torch.manual_seed(0)
    usual = module(3, 2000, num_layers=2, init=init, layer_norm=layer_norm)
    gates = {SkipLSTM: "ifgo", SkipGRU: "rzn"}[module]
    for layer in range(2):
        place = f"norm_bias_l{layer}" if layer_norm else f"bias_ih_l{layer}"
        bias = dict(zip(gates, getattr(rnn, place).split(2000)))
        keep = bias["f" if module is SkipLSTM else "z"]
        memories = 1 / (1 - torch.sigmoid(keep)) - 1
        assert_uniform(memories - 50, 49)
        if module is SkipLSTM:
            assert torch.equal(bias["i"], -keep)
        changed = [gates.index(gate) for gate in ("if" if module is SkipLSTM else "z")]
        for name in (f"bias_ih_l{layer}", f"bias_hh_l{layer}"):
            for number, (ours, before) in enumerate(zip(*(getattr(m, name).split(2000) for m in (rnn, usual)))):
                if number not in changed:
                    assert layer > 0 or torch.equal(ours, before), (name, number)  # layer 1 draws other numbers
                elif name != place:
                    assert not ours.any()


def test_chrono_init_of_a_cell_without_gates():
    with pytest.raises(ValueError, match="^chrono_init: expected 0 for a plain RNN, which has no gates, got 5"):
        SkipRNN(3, 5, chrono_init=5)


@pytest.mark.parametrize("module", [SkipLSTM, SkipGRU, SkipRNN])
@pytest.mark.parametrize("init", ["authors", "torch"])
def test_gate_and_states(module, init):
    torch.manual_seed(0)
    rnn = module(3, 2000, init=init, update_bias=-2.5)
    assert rnn.update_bias.tolist() == [-2.5]
    assert_uniform(rnn.update_weight, glorot(2000, 1))
    for state in (rnn.initial_h, rnn.initial_c):
        if state is not None:
            assert abs(state.mean()) < 0.1 and abs(state.std() - 1) < 0.1
    assert module(3, 5).update_bias.tolist() == [1.0]
    zeros = module(3, 5, bidirectional=True, gate_init="zeros")
    assert not zeros.update_weight.any() and not zeros.update_weight_reverse.any()


@pytest.mark.parametrize("module", [SkipLSTM, SkipGRU, SkipRNN])
def test_reset_parameters_draws_again_and_repeats_by_seed(module):
    torch.manual_seed(0)
    rnn = module(3, 5, layer_norm=True, update_bias=2.0)
    first = {name: value.clone() for name, value in rnn.state_dict().items()}
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.fill_(7)
    torch.manual_seed(0)
    rnn.reset_parameters()
    torch.testing.assert_close(dict(rnn.state_dict()), first, rtol=0, atol=0)
    rnn.reset_parameters()
    assert not torch.equal(rnn.weight_ih_l0, first["weight_ih_l0"])


@pytest.mark.parametrize("module", [SkipLSTM, SkipGRU, SkipRNN])
def test_reset_parameters_of_what_a_parametrization_computes(module):
    rnn, same = (module(3, 5, update_bias=2.0, chrono_init=0) for _ in range(2))
    for name in ("weight_hh_l0", "update_weight", "initial_h"):
        parametrizations.weight_norm(rnn, name)
    for changed in (rnn, same):
        torch.manual_seed(1)
        changed.reset_parameters()
    for name, value in same.named_parameters():
        torch.testing.assert_close(getattr(rnn, name), value)


def test_dtype_and_device_of_parameters():
    rnn = SkipLSTM(3, 5, num_layers=2, layer_norm=True, dtype=torch.float64, device="cpu")
    assert {parameter.dtype for parameter in rnn.parameters()} == {torch.float64}
    assert {p.device.type for p in SkipGRU(3, 5, device="meta").parameters()} == {"meta"}
