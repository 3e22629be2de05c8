"""With an update at every step the modules equal ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN``."""

import pytest
import torch
from torch import nn

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN, SkipState

from ..compare import assert_close, assert_equal

PAIRS = [(SkipLSTM, nn.LSTM), (SkipGRU, nn.GRU), (SkipRNN, nn.RNN)]
OWN = ("update_weight", "update_bias", "initial_h", "initial_c")
every_pair = pytest.mark.parametrize("ours, theirs", PAIRS, ids=["lstm", "gru", "rnn"])
every_depth = pytest.mark.parametrize("layers", [1, 2], ids=["1-layer", "2-layers"])
every_layout = pytest.mark.parametrize("batch_first", [True, False], ids=["batch-first", "time-first"])


def build(ours, theirs, layers, batch_first=True, **options):
    """A module of each kind with the same weights, and an input."""
    torch.manual_seed(3)
    skip = ours(3, 5, layers, batch_first, init="torch", **options).double()
    peer = theirs(3, 5, layers, batch_first=batch_first).double()
    missing, unexpected = skip.load_state_dict(peer.state_dict(), strict=False)
    assert set(missing) <= set(OWN) and not unexpected
    x = torch.randn(2, 9, 3, dtype=torch.float64) if batch_first else torch.randn(9, 2, 3, dtype=torch.float64)
    return skip, peer, x


def as_torch_state(state):
    return state.h if state.c is None else (state.h, state.c)


def gradients(output, state, module, x):
    """Gradients of a loss with respect to the input and the weights that both kinds of modules have, by name."""
    wanted = {name: value for name, value in module.named_parameters() if name not in OWN}
    total = output.square().sum() + sum(value.square().sum() for value in state if value is not None)
    values = torch.autograd.grad(total, [x, *wanted.values()], retain_graph=True)
    return dict(zip(["x", *wanted], values))


def compare(skip, peer, x, state, options):
    """Compare the outputs, final states and gradients of both modules, from the same initial state."""
    x = x.clone().requires_grad_()
    output, final, updates = skip(x, state, **options)
    start = skip.initial_state(2) if state is None else state
    peer_start = SkipState(*(value if value is None else value.contiguous() for value in start[:2]))
    expected, peer_final = peer(x, as_torch_state(peer_start))
    peer_final = SkipState(*peer_final) if peer_start.c is not None else SkipState(peer_final)
    assert_equal(updates, torch.ones(2, 9, dtype=torch.float64))
    assert_close(output, expected, "output")
    assert_close(final.h, peer_final.h, "h")
    if peer_final.c is not None:
        assert_close(final.c, peer_final.c, "c")
    got = gradients(output, final[:2], skip, x)
    for name, gradient in gradients(expected, peer_final[:2], peer, x).items():
        assert_close(got[name], gradient, f"gradient of {name}")


@every_pair
@every_depth
@every_layout
@pytest.mark.parametrize("given", [False, True], ids=["learned-state", "given-state"])
def test_full_updates(ours, theirs, layers, batch_first, given):
    skip, peer, x = build(ours, theirs, layers, batch_first, gate=False)
    state = None
    if given:
        h0, c0 = torch.randn(2, layers, 2, 5, dtype=torch.float64)
        state = SkipState(h0, c0 if ours is SkipLSTM else None)
        assert_equal(skip(x, as_torch_state(state)), skip(x, state))
    compare(skip, peer, x, state, {})


@every_pair
@every_depth
def test_a_schedule_of_ones(ours, theirs, layers):
    skip, peer, x = build(ours, theirs, layers)
    compare(skip, peer, x, None, {"schedule": torch.ones(2, 9)})


@every_pair
@every_depth
def test_a_gate_that_is_always_open(ours, theirs, layers):
    skip, peer, x = build(ours, theirs, layers, update_bias=50.0)
    compare(skip, peer, x, None, {})


@every_pair
@every_depth
def test_weights_move_there_and_back(ours, theirs, layers):
    skip, peer, _ = build(ours, theirs, layers)
    fresh = theirs(3, 5, layers).double()
    fresh.load_state_dict({name: value for name, value in skip.state_dict().items() if name not in OWN})
    assert_equal(dict(fresh.state_dict()), dict(peer.state_dict()))


@every_pair
def test_padded_sequences_equal_packed_ones(ours, theirs):
    skip, peer, x = build(ours, theirs, 2, gate=False)
    start = skip.initial_state(2)
    packed = nn.utils.rnn.pack_padded_sequence(x, [4, 7], batch_first=True, enforce_sorted=False)
    start = SkipState(*(value if value is None else value.contiguous() for value in start[:2]))
    expected, final = peer(packed, as_torch_state(start))
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True, total_length=9)
    output, state, _ = skip(x, lengths=[4, 7])
    assert_close(output, expected, "output")
    assert_close(state.h, final[0] if ours is SkipLSTM else final, "h")
