"""Dropout between layers, zoneout, recurrent dropout and Bernoulli updates."""

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU, SkipLSTM
from skiprnn_plugin.ops import ENGINES
from skiprnn_plugin.ops.engines import Engine

from ..compare import assert_close, assert_equal
from .builders import build, every_module, sequences

ALWAYS = 1 - 1e-15  # a probability in [0, 1) that is 1 in every draw
LENGTHS = [3, 10, 0, 7]
every_regularizer = pytest.mark.parametrize("regularizer", ["dropout", "zoneout", "recurrent_dropout"])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@every_module
@every_regularizer
def test_regularization_is_off_in_evaluation(module, regularizer):
    x = sequences()
    rnn = build(module, **{regularizer: 0.5}).eval()
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
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "norm"])
def test_zoneout_of_everything_keeps_the_state(module, bidirectional, layer_norm):
    options = {"bidirectional": bidirectional, "layer_norm": layer_norm}
    rnn, x = build(module, zoneout=ALWAYS, **options), sequences()
    start = build(module, **options)(x)[1]._replace(p=None, acc=None)
    output, state, updates = rnn(x, start, LENGTHS)
    assert updates.sum() > 0
    real = torch.arange(10) < torch.tensor(LENGTHS).unsqueeze(1)
    held = torch.cat(list(start.h[:, -1]), -1) if bidirectional else start.h[-1]
    assert_equal(output, held.unsqueeze(1) * real.unsqueeze(-1), "output")
    assert_equal(state[:2], start[:2], "state")


@every_module
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "norm"])
def test_recurrent_dropout_of_everything_writes_nothing(module, bidirectional, layer_norm):
    rnn = build(module, recurrent_dropout=ALWAYS, bidirectional=bidirectional, layer_norm=layer_norm)
    start, x = rnn.initial_state(4), sequences()
    silent = build(module, bidirectional=bidirectional, layer_norm=layer_norm, engine="reference")
    silent.load_state_dict(rnn.state_dict())
    block = {"lstm": slice(10, 15), "rnn": slice(0, 5)}.get(rnn.cell, slice(10, 15))  # the rows of g, n or tanh
    with torch.no_grad():
        for name, parameter in silent.named_parameters():
            if name.startswith(("weight_", "bias_", "norm_")) and len(parameter) > block.start:
                parameter[block] = 0
    assert_equal(rnn(x, start, LENGTHS), silent(x, start, LENGTHS))
    assert not torch.equal(rnn.eval()(x, start, LENGTHS)[0], silent(x, start, LENGTHS)[0])


def test_zoneout_draws_separately_for_h_and_c_and_for_each_step():
    rnn = SkipLSTM(3, 100, zoneout=0.3, gate=False).double()
    x, start = sequences(batch=50, steps=2), rnn.initial_state(50)
    first = rnn(x[:, :1], start)[1]
    second = rnn(x[:, 1:], first)[1]
    h, c = (first.h == start.h).double(), (first.c == start.c).double()
    assert h.mean().item() == pytest.approx(0.3, abs=0.03) and c.mean().item() == pytest.approx(0.3, abs=0.03)
    assert (h * c).mean().item() == pytest.approx(0.09, abs=0.02)
    output = rnn(x, start)[0]
    kept = torch.stack([output[:, 0] == start.h[0], output[:, 1] == output[:, 0]]).double()
    assert kept.prod(0).mean().item() == pytest.approx(0.09, abs=0.02)
    assert (second.h == first.h).double().mean().item() == pytest.approx(0.3, abs=0.03)


def test_recurrent_dropout_scales_what_it_leaves():
    rnn = SkipLSTM(3, 100, recurrent_dropout=0.25, gate=False).double()
    with torch.no_grad():  # input gate 1 and forget gate 0, so that c~ = d(g)
        rnn.bias_ih_l0[:100], rnn.bias_ih_l0[100:200] = 1000, -1000
    x = sequences(batch=50, steps=1)
    factors = rnn(x)[1].c / rnn.eval()(x)[1].c
    assert_close(factors[factors != 0], torch.full_like(factors[factors != 0], 4 / 3))
    assert (factors == 0).double().mean().item() == pytest.approx(0.25, abs=0.03)


@every_module
def test_chunks_with_regularization_continue_the_sequence(module):
    rnn, x = build(module, dropout=0.5, zoneout=0.3, recurrent_dropout=0.3), sequences()
    _, state, _ = rnn(x[:, :4])
    before = [value.clone() for value in state if value is not None]
    output, after, _ = rnn(x[:, 4:], state)
    (output.sum() + after.p.sum()).backward()
    assert_equal([value for value in state if value is not None], before)
    assert all(parameter.grad.isfinite().all() for parameter in rnn.parameters())
    assert rnn.initial_h.grad.any() and rnn.update_weight.grad.any()


@every_regularizer
def test_an_engine_without_regularization_refuses_to_train_and_evaluates(monkeypatch, regularizer):
    monkeypatch.setitem(ENGINES, "plain", Engine(ENGINES["reference"].scan))
    rnn, x = SkipLSTM(3, 5, 2, engine="plain", **{regularizer: 0.5}), torch.randn(2, 4, 3)
    if regularizer != "dropout":
        with pytest.raises(ValueError, match=f"^engine: 'plain' has no {regularizer}; .*reference"):
            rnn(x)
    assert rnn.eval()(x)[0].shape == (2, 4, 5)


@every_module
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_randomness_repeats_by_seed(module, bidirectional):
    rnn = build(
        module, dropout=0.5, zoneout=0.2, recurrent_dropout=0.2, binarize="bernoulli", bidirectional=bidirectional
    )
    x, results, gradients = sequences(), [], []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(rnn(x))
        total = results[-1][0].square().sum() + results[-1][2].sum()
        gradients.append(torch.autograd.grad(total, list(rnn.parameters())))
    assert_equal(results[1], results[0])
    assert_equal(gradients[1], gradients[0])
    assert not torch.equal(results[2][0], results[0][0]) and not torch.equal(results[2][2], results[0][2])


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


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_random_updates_do_not_depend_on_torchs_default_dtype(default):
    rnn, x = SkipLSTM(2, 3, binarize="bernoulli", update_bias=-6.0, gate_init="zeros"), torch.zeros(50, 400, 2)
    updates = []
    for dtype in (torch.float32, default):
        torch.manual_seed(0)
        torch.set_default_dtype(dtype)
        try:
            updates.append(rnn(x)[2])
        finally:
            torch.set_default_dtype(torch.float32)
    assert_equal(updates[1], updates[0])
    assert 1 < updates[0].sum(1).mean()


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
