"""Modules and states are copied, saved and loaded."""

import copy
import io
import pickle

import pytest
import torch

from skiprnn_plugin.modules import SkipState

from ..compare import assert_equal
from .builders import build, every_module, sequences


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def saved(value, **options):
    """``value`` after ``torch.save`` and ``torch.load``."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda rnn: pickle.loads(pickle.dumps(rnn)),
    "save": lambda rnn: saved(rnn, weights_only=False),
}


@every_module
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_copies_are_equal(module, copied, used):
    rnn, x = build(module, gate_layers=(0, 1), layer_norm=True, bidirectional=True, zoneout=0.2), sequences()
    if used:
        output, _, updates = rnn(x)
        (output.sum() + updates.sum()).backward()
    other = copied(rnn)
    assert repr(other) == repr(rnn) and other.training
    assert other.weight_ih_l0 is not rnn.weight_ih_l0
    assert_equal(other.eval()(x), rnn.eval()(x))
    with torch.no_grad():
        other.weight_hh_l0.zero_()
    assert rnn.weight_hh_l0.any()


@every_module
@pytest.mark.parametrize("through", [lambda state: state, saved], ids=["memory", "file"])
def test_a_state_dict_restores_a_model(module, through):
    rnn, other, x = build(module), build(module), sequences()
    assert not torch.equal(other(x)[0], rnn(x)[0])
    other.load_state_dict(through(rnn.state_dict()))
    assert_equal(other(x), rnn(x))


@every_module
def test_a_saved_state_continues_a_sequence(module):
    rnn, x = build(module), sequences()
    state = rnn(x)[1].detach()
    restored = saved(state)  # with weights_only, torch's default
    assert isinstance(restored, SkipState)
    assert_equal(rnn(x, restored), rnn(x, state))
