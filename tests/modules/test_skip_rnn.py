"""The Skip RNN modules: shapes, states, padding, thresholds and gates."""

import pytest
import torch
from torch import nn

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipState

from ..compare import assert_close, assert_equal
from .builders import build, every_module, sequences


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@every_module
def test_shapes_and_some_steps_skipped(module):
    output, state, updates = build(module)(sequences())
    assert output.shape == (4, 10, 5) and updates.shape == (4, 10)
    assert state.h.shape == (2, 4, 5) and (state.c is None or state.c.shape == (2, 4, 5))
    assert state.p.shape == state.acc.shape == (4,)
    assert set(updates.unique().tolist()) == {0, 1}


@every_module
@pytest.mark.parametrize("last_only", [False, True], ids=["all", "last"])
def test_time_first_is_batch_first_transposed(module, last_only):
    rnn, x, lengths = build(module), sequences(), [3, 10, 0, 7]
    expected = rnn(x, lengths=lengths, last_only=last_only)
    rnn.batch_first = False
    output, *rest = rnn(x.transpose(0, 1), lengths=lengths, last_only=last_only)
    assert_equal(output if last_only else output.transpose(0, 1), expected[0])
    assert_equal(rest, list(expected[1:]))
    assert module(3, 5, batch_first=False).double()(x)[0].shape == (4, 10, 5)


def test_code_for_torchs_modules_may_flatten_parameters():
    rnn, x = build(SkipGRU), sequences()
    expected = rnn(x)
    rnn.flatten_parameters()
    assert_equal(rnn(x), expected)


@every_module
@pytest.mark.parametrize("update_bias", [30.0, -0.5, -30.0], ids=["all-steps", "some-steps", "one-step"])
def test_forward_creates_no_parameters_and_all_get_a_gradient(module, update_bias):
    rnn = build(module, update_bias=update_bias, layer_norm=True, bidirectional=True)
    before = dict(rnn.named_parameters())
    output, state, updates = rnn(sequences())
    assert updates.mean() == {30.0: 1, -30.0: 0.1}.get(update_bias, updates.mean())
    (output.sum() + updates.sum()).backward()
    after = dict(rnn.named_parameters())
    assert before.keys() == after.keys() and all(before[name] is after[name] for name in before)
    assert all(parameter.grad is not None for parameter in after.values())


@every_module
@pytest.mark.parametrize("binarize", ["round", "bernoulli"])
def test_without_a_state_the_first_step_updates(module, binarize):
    _, _, updates = build(module, update_bias=-30.0, binarize=binarize)(sequences(batch=50))
    assert (updates[:, 0] == 1).all()


@every_module
def test_a_state_continues_a_sequence(module):
    rnn, x = build(module), sequences()
    output, state, updates = rnn(x)
    first = rnn(x[:, :4])
    second = rnn(x[:, 4:], first[1])
    assert_equal(torch.cat([first[0], second[0]], 1), output)
    assert_equal(torch.cat([first[2], second[2]], 1), updates)
    assert_equal(second[1], state)
    cut = first[1].detach()
    assert isinstance(cut, SkipState) and not any(value.requires_grad for value in cut if value is not None)
    assert_equal(rnn(x[:, 4:], cut)[0], second[0])


@every_module
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_padding_mask_equals_lengths_and_each_sequence_alone(module, side):
    rnn, x, lengths = build(module), sequences(), [3, 10, 0, 7]
    real = torch.arange(10) < torch.tensor(lengths).unsqueeze(1)
    expected = rnn(x, lengths=lengths)
    mask = ~real if side == "right" else ~real.flip(1)
    padded = torch.full_like(x, float("nan"))
    padded[~mask] = x[real]
    output, state, updates = rnn(padded, padding_mask=mask)
    assert_close(output[~mask], expected[0][real])
    assert_equal(updates[~mask], expected[2][real])
    assert not output[mask].any() and not updates[mask].any()
    assert_close(state.h, expected[1].h)
    for row, length in enumerate(lengths):
        alone = rnn(x[row : row + 1, :length])
        assert_close(output[row, ~mask[row]], alone[0][0])
        assert_equal(updates[row, ~mask[row]], alone[2][0])
        assert_close(state.h[:, row], alone[1].h[:, 0])


@every_module
def test_the_threshold_of_a_trained_model_can_be_changed(module):
    rnn, x = build(module), sequences(steps=40)
    used = []
    for rnn.threshold in (0.0, 0.5, 0.9):
        used.append(rnn(x)[2].sum().item())
    assert used[0] == 160 > used[1] > used[2]


@every_module
def test_without_a_gate_every_step_updates_or_as_scheduled(module):
    rnn, x = build(module, gate=False), sequences()
    assert rnn.update_weight is None and rnn.update_bias is None
    assert (rnn(x)[2] == 1).all()
    schedule = torch.rand(4, 10) < 0.5
    assert_equal(rnn(x, schedule=schedule)[2], schedule.double())


@every_module
@pytest.mark.parametrize("layers", [(0,), (1,), (0, 1), (1, 0)], ids=str)
def test_the_gate_reads_the_layers_it_is_told_to(module, layers):
    rnn = build(module, gate_layers=layers)
    _, state, _ = rnn(sequences(steps=1))
    gated = state.h if state.c is None else state.c
    read = torch.cat([gated[layer] for layer in layers], -1)
    assert_close(state.p, torch.sigmoid(read @ rnn.update_weight[0] + rnn.update_bias))


def test_modules_nest_in_others():
    net = nn.ModuleDict({"rnn": SkipLSTM(3, 5), "head": nn.Linear(5, 2)})
    assert "rnn.update_weight" in dict(net.named_parameters())


@pytest.mark.parametrize(
    "rnn, shown",
    [
        (SkipLSTM(3, 5), "SkipLSTM(3, 5)"),
        (SkipGRU(3, 5, 2, dropout=0.1), "SkipGRU(3, 5, num_layers=2, dropout=0.1)"),
        (SkipGRU(3, 5, gate=False, reset_after=False), "SkipGRU(3, 5, gate=False, reset_after=False)"),
        (
            SkipLSTM(3, 5, zoneout=0.1, recurrent_dropout=0.2),
            "SkipLSTM(3, 5, zoneout=0.1, recurrent_dropout=0.2)",
        ),
        (SkipLSTM(3, 5, 2, gate_layers=[0]), "SkipLSTM(3, 5, num_layers=2, gate_layers=(0,))"),
    ],
    ids=["default", "2-layers", "no-gate", "regularized", "gate-layers"],
)
def test_repr_says_what_differs_from_the_default(rnn, shown):
    assert repr(rnn) == shown


@pytest.mark.parametrize(
    "rnn, steps, encoder, paper",
    [
        (SkipLSTM(2, 110), 50, 0, 2.46e6),
        (SkipGRU(2, 110), 50, 0, 1.85e6),
        (SkipLSTM(1, 110), 784, 0, 3.83e7),
        (SkipGRU(1, 110, reset_after=False), 784, 0, 2.87e7),
        (SkipLSTM(2048, 512, num_layers=2), 250, 3.8e9, 9.52e11),
        (SkipGRU(2048, 512, num_layers=2), 250, 3.8e9, 9.51e11),
    ],
    ids=["adding-lstm", "adding-gru", "mnist-lstm", "mnist-gru", "ucf101-lstm", "ucf101-gru"],
)
def test_operations_are_counted_as_in_the_paper(rnn, steps, encoder, paper):
    assert float(f"{(rnn.flops_per_update + encoder) * steps:.2e}") == paper
