"""The engine int8: recurrent weights that are rounded to 8 bits, for inference with the native engine's library."""

import pickle

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN
from skiprnn_plugin.ops.native import library

from ..int8_oracle import TOLERANCE, read

pytestmark = pytest.mark.skipif(library.missing() is not None, reason=str(library.missing()))
LEVELS = [] if library.missing() else library.levels()
MODULES = {
    "gru": lambda: SkipGRU(3, 9, update_bias=-0.5),
    "gru_reset_before": lambda: SkipGRU(40, 33, reset_after=False, update_bias=-0.5),
    "lstm": lambda: SkipLSTM(3, 32, 2, gate_layers=[0, 1], update_bias=-0.5),
    "rnn": lambda: SkipRNN(1, 5, update_bias=-0.5),
}
every_module = pytest.mark.parametrize("name", MODULES)


def make(name):
    torch.manual_seed(5)
    rnn = MODULES[name]()
    torch.nn.init.normal_(rnn.update_weight, std=0.3)
    torch.nn.init.normal_(rnn.initial_h, std=1.5)  # a state larger than 1, which the first updates read
    return rnn


@every_module
@pytest.mark.parametrize("level", LEVELS, indirect=True)
def test_results(name, level):
    rnn = make(name)
    x = torch.randn(60, rnn.input_size)
    expected, expected_updates = read(rnn, x)
    output, _, updates = rnn.quantized()(x[None])
    assert updates[0].bool().tolist() == expected_updates and 5 < sum(expected_updates) < 55
    torch.testing.assert_close(output[0], expected, atol=TOLERANCE, rtol=0)
    in_float32 = rnn(x[None], schedule=updates)[0][0]
    assert (in_float32 - expected).abs().max() > 4 * TOLERANCE


@every_module
def test_a_sequence_does_not_depend_on_the_others_nor_on_how_it_is_read(name):
    rnn = make(name).quantized()
    x = torch.randn(11, 50, rnn.input_size)
    output, state, updates = rnn(x)
    for row in range(len(x)):
        alone, _, alone_updates = rnn(x[row : row + 1])
        assert torch.equal(alone[0], output[row]) and torch.equal(alone_updates[0], updates[row])
    first, middle, _ = rnn(x[:, :17])
    second, end, _ = rnn(x[:, 17:], middle)
    assert torch.equal(torch.cat([first, second], 1), output) and torch.equal(end.acc, state.acc)
    stream = rnn.stream(len(x))
    stream.feed(x[:, :20])
    stream = pickle.loads(pickle.dumps(stream))
    assert stream.feed(x[:, 20:]) == updates[:, 20:].sum()
    assert torch.equal(stream.output, output[:, -1]) and torch.equal(stream.state.h, state.h)


def test_left_and_right_padding_and_two_directions():
    torch.manual_seed(6)
    rnn = SkipGRU(3, 20, bidirectional=True)
    x = torch.randn(2, 30, 3)
    mask = torch.zeros(2, 30, dtype=torch.bool)
    mask[0, :4] = mask[1, 25:] = True
    output, _, updates = rnn.quantized()(x, padding_mask=mask)
    expected = rnn(x, padding_mask=mask, schedule=updates)[0]
    torch.testing.assert_close(output, expected, atol=0.02, rtol=0)
    assert (output[mask] == 0).all() and not torch.equal(output, expected)


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_threads_share_a_large_product(threads):
    torch.manual_seed(7)
    rnn = SkipLSTM(4, 700, update_bias=100.0).quantized()
    x = torch.randn(1, 6, 4)
    shared = rnn(x)[0]
    torch.set_num_threads(1)
    assert torch.equal(rnn(x)[0], shared)


@pytest.mark.parametrize("level", LEVELS, indirect=True)
def test_the_largest_sum_does_not_overflow(level):
    rnn = SkipRNN(1, 1040, update_bias=100.0)
    for parameter in rnn.parameters():
        torch.nn.init.zeros_(parameter)
    torch.nn.init.constant_(rnn.weight_hh_l0, 0.7 / 1040)
    torch.nn.init.ones_(rnn.initial_h)
    output = rnn.quantized()(torch.zeros(1, 1, 1))[0]
    torch.testing.assert_close(output, torch.full_like(output, 0.7).tanh(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_stay_in_their_sequence(value):
    rnn = make("gru").quantized()
    x = torch.randn(3, 20, 3)
    expected = rnn(x)[0]
    state = rnn.initial_state(3)
    state.h.data = state.h.clone()
    state.h[0, 1, 4] = value
    output = rnn(x, state)[0]
    assert torch.equal(output[::2], expected[::2]) and output[1].isnan().all()
    rnn.weight_hh_l0[2, 3] = value
    assert rnn(x)[0][:, -1, 2].isnan().all()


def test_present_weights_are_used():
    rnn = make("gru").quantized()
    x = torch.randn(1, 20, 3)
    before = rnn(x)[0]
    rnn.weight_hh_l0.mul_(1.5)
    assert not torch.equal(rnn(x)[0], before)


def test_it_has_no_gradients():
    rnn = make("gru")
    rnn.engine = "int8"
    x = torch.randn(1, 5, 3)
    message = "engine: 'int8' has no gradients"
    with pytest.raises(ValueError, match=f"{message}; call it under torch.no_grad"):
        rnn(x)
    with pytest.raises(ValueError, match=f"{message}, it is for trained models; expected auto"):
        rnn.check_engine()
    with torch.no_grad():
        assert torch.equal(rnn(x)[0], rnn.quantized()(x)[0])
    assert not rnn.quantized().training and not any(p.requires_grad for p in rnn.quantized().parameters())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"layer_norm": True}, "layer_norm: expected False for int8 weights, got True"),
        ({"dtype": torch.float64}, "engine: 'int8' takes torch.float32 on the CPU, got torch.float64 on cpu"),
    ],
)
def test_modules_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SkipGRU(3, 4, **options).quantized()
    rnn = SkipGRU(3, 4, **options)
    rnn.engine = "int8"
    with torch.no_grad(), pytest.raises(ValueError, match="engine: 'int8' (has no layer_norm|takes torch.float32)"):
        rnn(torch.zeros(1, 2, 3, dtype=rnn.weight_ih_l0.dtype))
    with pytest.raises(ValueError, match="engine: 'int8' (has no layer_norm|takes torch.float32)"):
        rnn.stream()


@pytest.mark.thorough
def test_exported_program():
    rnn = make("gru").quantized()
    x, sizes = torch.randn(2, 9, 3), ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(rnn, (x,), dynamic_shapes=sizes).module()
    x = torch.randn(5, 20, 3)
    assert torch.equal(program(x)[0], rnn(x)[0])


def test_a_stream_is_not_restored_without_the_library(monkeypatch):
    """It would go on with other weights."""
    stored = pickle.dumps(SkipGRU(3, 5).quantized().stream(2))
    monkeypatch.setattr(library, "missing", lambda: "needs the library")
    with pytest.raises(ValueError, match="engine: 'int8' needs the library"):
        pickle.loads(stored)
