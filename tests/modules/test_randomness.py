"""Dropout between layers and Bernoulli updates."""

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU

from ..compare import assert_close, assert_equal
from .builders import build, every_module, sequences


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@every_module
def test_dropout_is_off_in_evaluation(module):
    x = sequences()
    rnn = build(module, dropout=0.5).eval()
    plain = build(module)
    plain.load_state_dict(rnn.state_dict())
    assert_equal(rnn(x), plain(x))
    assert not torch.equal(rnn.train()(x)[0], plain(x)[0])


def test_dropout_drops_the_same_units_at_every_step_of_a_sequence():
    rnn = SkipGRU(3, 64, num_layers=2, dropout=0.25, gate=False).double()
    with torch.no_grad():  # make the upper layer tanh of its input: z = 0, n = tanh(x)
        for name in ("weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1"):
            getattr(rnn, name).zero_()
        rnn.weight_ih_l1[128:] = torch.eye(64)
        rnn.bias_ih_l1[64:128] = -100
        rnn.initial_h[1] = 0
    x = sequences(batch=32)
    passed_on = torch.atanh(rnn(x)[0]) / torch.atanh(rnn.eval()(x)[0])
    mask = passed_on[:, :1]
    assert_close(passed_on, mask.expand(-1, 10, -1))
    assert_close(mask[mask != 0], torch.full_like(mask[mask != 0], 4 / 3))
    assert (mask == 0).double().mean().item() == pytest.approx(0.25, abs=0.04)
    assert len(mask.squeeze(1).unique(dim=0)) == 32


@every_module
def test_randomness_repeats_by_seed(module):
    rnn, x = build(module, dropout=0.5, binarize="bernoulli"), sequences()
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(rnn(x))
    assert_equal(results[1], results[0])
    assert not torch.equal(results[2][2], results[0][2])


@every_module
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_bernoulli_updates_with_the_accumulated_probability(module, dtype):
    rnn = module(3, 5, binarize="bernoulli", update_bias=-0.5).to(dtype)
    batch = 20000
    state = rnn.initial_state(batch)._replace(p=torch.full((batch,), 0.2), acc=torch.full((batch,), 0.1))
    _, _, updates = rnn(torch.zeros(batch, 2, 3, dtype=dtype), state)
    first, second = updates.unbind(1)
    assert first.mean().item() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / batch) ** 0.5)
    second = second[first == 0]
    assert second.mean().item() == pytest.approx(0.5, abs=4 * (0.5 * 0.5 / len(second)) ** 0.5)


@every_module
@pytest.mark.parametrize("binarize", ["round", "bernoulli"])
def test_given_noise_is_used(module, binarize):
    rnn, x = build(module, binarize=binarize), sequences()
    noise = torch.rand(4, 10)
    first, second = rnn(x, noise=noise), rnn(x, noise=noise)
    assert_equal(first, second)
    assert_equal(first[2][:, 0], torch.ones(4, dtype=torch.float64))
    assert (rnn(x, noise=torch.ones(4, 10))[2] == 0).all()
    assert (rnn(x, noise=torch.zeros(4, 10))[2] == 1).all()
