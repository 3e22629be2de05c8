"""A bidirectional module equals two independent modules, of which the second reads the reversed sequences."""

import pytest
import torch
from torch import nn

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN, SkipState

from ..compare import assert_close, assert_equal
from .builders import every_module

STEPS = 9
LENGTHS = [4, 9, 0, 7]


def build(module, **options):
    """A bidirectional module, and for each of its directions a module with the same weights."""
    torch.manual_seed(0)
    both = module(3, 5, 2, bidirectional=True, update_bias=0.0, **options).double()
    single = [module(3, 5, 2, update_bias=0.0, **options).double() for _ in range(2)]
    for suffix, module in zip(("", "_reverse"), single):
        module.load_state_dict({name: both.state_dict()[name + suffix] for name in module.state_dict()})
    return both, single


def reverse(tensor, lengths):
    """Steps [B, T, ...] in reverse order within each length."""
    rows = [torch.cat([row[:length].flip(0), row[length:]]) for row, length in zip(tensor, lengths)]
    return torch.stack(rows)


def read_both(single, x, lengths, states=(None, None), schedules=(None, None)):
    """The result of the bidirectional module, from the single ones: output, both states, and updates [2, B, T]."""
    first = single[0](x, states[0], lengths, schedules[0])
    backward = None if schedules[1] is None else reverse(schedules[1], lengths)
    second = single[1](reverse(x, lengths), states[1], lengths, backward)
    output = torch.cat([first[0], reverse(second[0], lengths)], -1)
    return output, (first[1], second[1]), torch.stack([first[2], reverse(second[2], lengths)])


def example():
    return torch.randn(4, STEPS, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), device="cpu").to(
        torch.get_default_device()
    )


@every_module
@pytest.mark.parametrize("lengths", [[STEPS] * 4, LENGTHS], ids=["full", "padded"])
def test_equals_two_modules(module, lengths):
    both, single = build(module)
    x = example()
    output, state, updates = both(x, lengths=lengths)
    expected, states, expected_updates = read_both(single, x, lengths)
    assert output.shape == (4, STEPS, 10) and 0 < updates.mean() < 1
    assert_close(output, expected, "output")
    assert_equal(updates, expected_updates, "updates")
    for index, final in enumerate(states):
        for name, value in final._asdict().items():
            assert_close(getattr(state, name)[index], value, name) if value is not None else None
    (output.square().sum() + updates.sum()).backward()
    (expected.square().sum() + expected_updates.sum()).backward()
    for suffix, module in zip(("", "_reverse"), single):
        for name, parameter in module.named_parameters():
            assert_close(both.get_parameter(name + suffix).grad, parameter.grad, name + suffix)
    last = both(x, lengths=lengths, last_only=True)[0]
    assert_close(last, torch.cat([final.h[-1] for final in states], -1), "last output")


def test_left_padding_equals_right_padding():
    both, _ = build(SkipGRU)
    x = example()
    left = torch.stack([row.roll(STEPS - length, 0) for row, length in zip(x, LENGTHS)])
    mask = torch.arange(STEPS) < STEPS - torch.tensor(LENGTHS).unsqueeze(1)
    expected = both(x, lengths=LENGTHS)
    output, state, updates = both(left, padding_mask=mask)
    back = lambda value: torch.stack([row.roll(length - STEPS, 0) for row, length in zip(value, LENGTHS)])  # noqa: E731
    assert_close(back(output), expected[0], "output")
    assert_equal(torch.stack([back(direction) for direction in updates]), expected[2], "updates")
    assert_close(state.h, expected[1].h, "h")


def test_states_and_schedules_of_each_direction():
    both, single = build(SkipLSTM)
    x, lengths = example(), [STEPS] * 4
    schedules = torch.rand(2, 4, STEPS) < 0.5
    _, start, _ = both(x)
    states = [SkipState(*values) for values in zip(*(value.unbind(0) for value in start))]
    output, state, updates = both(x, start, schedule=schedules)
    expected, _, expected_updates = read_both(single, x, lengths, states, schedules)
    assert_close(output, expected, "output")
    assert_equal(updates, schedules.double(), "updates")
    assert_equal(expected_updates, updates)
    assert state.h.shape == state.c.shape == (2, 2, 4, 5) and state.p.shape == state.acc.shape == (2, 4)


def test_noise_of_each_direction():
    both, _ = build(SkipGRU, binarize="bernoulli")
    x, noise = example(), torch.rand(2, 4, STEPS)
    updates = both(x, noise=noise)[2]
    assert_equal(both(x, noise=noise)[2], updates)
    changed = noise.clone()
    changed[1] = 1 - noise[1]
    other = both(x, noise=changed)[2]
    assert_equal(other[0], updates[0])
    assert not torch.equal(other[1], updates[1])
    torch.manual_seed(5)
    drawn = both(x)[2]
    torch.manual_seed(5)
    assert_equal(both(x)[2], drawn)


def test_rows_do_not_mix():
    both, _ = build(SkipGRU)
    x, order = example(), torch.tensor([2, 0, 3, 1])
    output, state, updates = both(x, lengths=LENGTHS)
    permuted = both(x[order], lengths=torch.tensor(LENGTHS)[order])
    assert_close(permuted[0], output[order], "output")
    assert_close(permuted[1].h, state.h[:, :, order], "h")
    assert_equal(permuted[2], updates[:, order], "updates")


@pytest.mark.parametrize("ours, theirs", [(SkipLSTM, nn.LSTM), (SkipGRU, nn.GRU), (SkipRNN, nn.RNN)])
@pytest.mark.parametrize("batch_first", [True, False], ids=["batch-first", "time-first"])
def test_one_layer_of_full_updates_is_torchs(ours, theirs, batch_first):
    torch.manual_seed(0)
    peer = theirs(3, 5, bidirectional=True, batch_first=batch_first).double()
    skip = ours(3, 5, bidirectional=True, batch_first=batch_first, gate=False).double()
    assert not skip.load_state_dict(peer.state_dict(), strict=False).unexpected_keys
    state = tuple(value.squeeze(1).contiguous() for value in skip.initial_state(4)[:2] if value is not None)
    x = example() if batch_first else example().transpose(0, 1)
    assert_close(skip(x)[0], peer(x, state if ours is SkipLSTM else state[0])[0], "output")
    start = skip.initial_state(4)
    assert_equal(skip(x, start.h if start.c is None else start[:2])[0], skip(x)[0])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
def test_lengths_in_a_type_that_ends_before_the_steps_do(dtype):
    rnn = SkipGRU(2, 4, bidirectional=True)
    x = torch.randn(2, 784, 2)
    lengths = torch.tensor([100, 120])
    assert_equal(rnn(x, lengths=lengths.to(dtype)), rnn(x, lengths=lengths))


@pytest.mark.parametrize(
    "argument, changes",
    [
        ("schedule", {"schedule": torch.ones(4, STEPS)}),
        ("schedule", {"schedule": [[1] * STEPS] * 4}),
        ("state.h", {"state": torch.zeros(4, 4, 5).double()}),  # as nn.GRU has it
        ("state.h", {"state": torch.zeros(2, 4, 5).double()}),  # and with one layer
        ("state", {"state": (torch.zeros(2, 2, 4, 5).double(),) * 5}),
        ("noise", {"noise": torch.rand(4, STEPS)}),
        ("state.h", {"state": SkipState(torch.zeros(4, 4, 5))}),
        ("state.p", {"state": SkipState(torch.zeros(2, 2, 4, 5).double(), p=torch.ones(4))}),
        ("lengths", {"lengths": [1, 2, 3, STEPS + 1]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input(argument, changes):
    both, _ = build(SkipGRU)
    with pytest.raises(ValueError, match=f"^{argument}: "):
        both(example(), **changes)
