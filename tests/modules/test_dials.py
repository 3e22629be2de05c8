"""Skips that are limited in evaluation: ``min_skip`` and ``max_skip`` are exact in whole passes and in streams."""

import copy

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN
from skiprnn_plugin.ops import ENGINES

from ..ops.problems import engine_param, for_engines

T, D, H = 23, 3, 5
LIMITS = [(2, None), (0, 1), (1, 4), (3, 3), (0, 0)]


def make(cls=SkipGRU, inputs=D, **options):
    torch.manual_seed(0)
    rnn = cls(inputs, H, update_bias=-2.0, **options).eval()
    for name, parameter in rnn.named_parameters():
        if name.startswith("update_weight"):
            torch.nn.init.normal_(parameter, std=4)
    return rnn


def expect(rnn, x, min_skip, max_skip):
    """The updates of one sequence [T, D], by the definition, and its last state; ``rnn`` has no limits."""
    state, skipped, updated, updates = rnn.initial_state(1).filled(), 0, False, []
    for sample in x:
        v = state.acc + torch.minimum(state.p, 1 - state.acc)
        u = bool(v > rnn.threshold)
        u = u and not (updated and skipped < min_skip) or max_skip is not None and skipped >= max_skip
        _, state, _ = rnn(sample[None, None], state, schedule=torch.tensor([[u]]))
        skipped, updated = 0 if u else skipped + 1, updated or u
        updates.append(float(u))
    return torch.tensor(updates), state


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize(
    "cls, options",
    [
        (SkipLSTM, {"num_layers": 2}),
        (SkipGRU, {"threshold": 0.3}),
        (SkipGRU, {"reset_after": False}),
        (SkipRNN, {}),
        (SkipGRU, {"inputs": 40}),
    ],
    ids=["lstm", "threshold", "gru", "rnn", "wide input"],
)
@torch.no_grad()
def test_whole_passes_and_streams_agree(cls, options, limits):
    plain = make(cls, **options)
    x, lengths = torch.randn(4, T, plain.input_size), torch.tensor([T, 9, 0, 17])
    limited = copy.deepcopy(plain)
    limited.min_skip, limited.max_skip = limits
    output, state, updates = limited(x, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        expected, last = expect(plain, x[row, :length], *limits)
        assert updates[row].tolist() == [*expected.tolist(), *[0] * (T - length)]
        torch.testing.assert_close(state.h[:, row], last.h[:, 0], rtol=1e-5, atol=1e-6)
        stream = limited.stream()
        stream.feed(x[row : row + 1, :length])
        for part, whole in zip(stream.state, limited(x[row : row + 1, :length])[1]):
            assert part is whole is None or part.equal(whole)
    gaps = (updates[0].nonzero().squeeze(1).diff() - 1).tolist()
    assert all(limits[0] <= gap <= (T if limits[1] is None else limits[1]) for gap in gaps)


@for_engines(name for name, engine in ENGINES.items() if engine.features >= {"min_skip", "max_skip"})
@torch.no_grad()
def test_every_engine_makes_the_updates_of_a_stream(engine):
    rnn = make(min_skip=1, max_skip=4, engine=engine)
    x = torch.randn(3, T, D)
    output, state, updates = rnn(x)
    stream = rnn.stream(3)
    for t in range(T):
        assert (stream.wanted == t).tolist() == updates[:, t].bool().tolist()
        stream.feed(x[:, t])
        torch.testing.assert_close(stream.output, output[:, t], rtol=1e-5, atol=1e-6)
    for part, whole in zip(stream.state, state):
        assert part is whole is None or torch.allclose(part, whole, rtol=1e-5, atol=1e-6)


@for_engines(["native"])
@torch.no_grad()
def test_int8_weights(engine):
    rnn = make(min_skip=1, max_skip=4).quantized()
    x = torch.randn(9, T, D)
    output, state, updates = rnn(x)
    stream = rnn.stream(9)
    assert stream.feed(x) == updates.sum() and stream.output.equal(output[:, -1]) and stream.state.acc.equal(state.acc)
    rnn.min_skip, rnn.max_skip = 0, None
    assert not rnn(x)[2].equal(updates)


def test_auto_leaves_triton_out_and_triton_says_that_it_has_no_limits():
    x = torch.randn(1, 4, D)
    for limits, name in (({"min_skip": 1}, "min_skip"), ({"max_skip": 4}, "max_skip")):
        rnn = make(**limits, engine="triton")
        with pytest.raises(ValueError, match=f"^engine: 'triton' has no {name}; expected auto or one of indexed, "):
            rnn(x)
        rnn.check_engine()  # in training there are no limits


@torch.no_grad()
def test_two_directions_and_padding_on_the_left():
    rnn = make(bidirectional=True, batch_first=False, min_skip=1, max_skip=4)
    x, lengths = torch.randn(T, 3, D), [T, 8, 0]
    updates = rnn(x, lengths=lengths)[2]
    forward = make(min_skip=1, max_skip=4)
    backward = make(min_skip=1, max_skip=4)
    state_dict = {name.replace("_reverse", ""): v for name, v in rnn.state_dict().items() if name.endswith("_reverse")}
    backward.load_state_dict(state_dict)
    forward.load_state_dict({name: v for name, v in rnn.state_dict().items() if not name.endswith("_reverse")})
    by_row = x.transpose(0, 1)
    for row, length in enumerate(lengths):
        sequence = by_row[row : row + 1, :length]
        assert updates[0, row, :length].equal(forward(sequence)[2][0])
        assert updates[1, row, :length].equal(backward(sequence.flip(1))[2][0].flip(0))
    padding = torch.arange(T) < torch.tensor([0, 9, T]).unsqueeze(1)
    left = forward(by_row, padding_mask=padding)[2]
    assert left[1, 9:].equal(forward(by_row[1:2, 9:])[2][0]) and left[padding].sum() == 0


@pytest.mark.parametrize(
    "options, dtype",
    [({}, torch.float32), ({"num_layers": 2}, torch.float64), ({"layer_norm": True}, torch.float32)],
    ids=["native", "float64", "layer norm"],
)
@torch.no_grad()
def test_padding_may_hold_anything_and_is_not_read(options, dtype):
    rnn = make(min_skip=1, max_skip=4, **options).to(dtype)
    lengths = [T, 8, 0, 3, *[5] * 40]  # more sequences than are updated together
    offsets = torch.tensor([0, 2, T, 4, *[1] * 40])
    x = torch.full((len(lengths), T, D), float("nan"), dtype=dtype)
    for row, (length, offset) in enumerate(zip(lengths, offsets)):
        x[row, offset : offset + length] = torch.randn(length, D, dtype=dtype)
    steps = torch.arange(T) - offsets.unsqueeze(1)
    real = (steps >= 0) & (steps < torch.tensor(lengths).unsqueeze(1))
    updates = rnn(x, padding_mask=~real)[2]
    assert updates[~real].sum() == 0
    for row in range(6):
        assert updates[row, real[row]].equal(rnn(x[row : row + 1, real[row]])[2][0])


@torch.no_grad()
def test_continues_from_a_state_and_counts_from_there():
    plain = make()
    x = torch.randn(1, T, D)
    start = int((plain(x)[2][0] == 0).nonzero()[0]) + 1  # after a skipped step
    state = plain(x[:, :start])[1]
    limited = copy.deepcopy(plain)
    limited.max_skip = 5
    stream = plain.stream(state=state, max_skip=5)
    stream.feed(x[:, start:])
    assert limited(x[:, start:], state)[1].h.equal(stream.state.h)


def test_without_limits_and_in_training_nothing_changes():
    plain, wide = make(), make(max_skip=10**30)
    x = torch.randn(2, T, D)
    for one, other in zip(plain(x), wide(x)):
        assert all(torch.equal(*pair) for pair in zip(one, other) if pair[0] is not None)
    limited = make(min_skip=3).train()
    assert limited(x)[2].equal(plain(x)[2]) and not limited.eval()(x)[2].equal(plain(x)[2])
    assert "min_skip=3" in repr(limited) and "skip=" not in repr(plain)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"min_skip": -1}, "^min_skip: expected an integer of at least 0, got -1"),
        ({"max_skip": 1.5}, "^max_skip: expected an integer of at least 0, got 1.5"),
        ({"min_skip": 3, "max_skip": 2}, "^max_skip: expected at least min_skip, 3, got 2"),
    ],
)
def test_wrong_limits(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_refuses_random_updates():
    x = torch.randn(1, 4, D)
    with pytest.raises(ValueError, match="^min_skip, max_skip: .*random updates"):
        make(min_skip=1, binarize="bernoulli")(x)
    with pytest.raises(ValueError, match="^min_skip, max_skip: .*random updates"):
        make(max_skip=1)(x, noise=torch.rand(1, 4))


def test_a_given_schedule_has_no_limits():
    """Nor is it refused, as for a model that skips at random."""
    x, schedule = torch.randn(1, 4, D), torch.tensor([[1, 1, 0, 0]])
    updates = make(min_skip=1, max_skip=1)(x, schedule=schedule)[2]
    assert updates.tolist() == schedule.tolist()


@pytest.mark.parametrize("engine", [engine_param("indexed"), engine_param("native", thorough=True)])
def test_compiled_it_follows_its_limits(engine):
    rnn, x, lengths = make(SkipLSTM, engine=engine), torch.randn(3, T, D), torch.tensor([T, 9, 0])
    torch.compiler.reset()
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    for rnn.min_skip, rnn.max_skip in ((0, None), (1, 4), (2, 3), (0, 2)):
        with torch.no_grad():
            assert compiled(x, lengths=lengths)[2].equal(rnn(x, lengths=lengths)[2])
    got, expected = (torch.autograd.grad(run(x)[0].sum(), rnn.weight_hh_l0)[0] for run in (compiled, rnn))
    torch.testing.assert_close(got, expected)


@torch.no_grad()
def test_a_program_of_torch_export():
    rnn, dynamic = make(bidirectional=True, min_skip=1, max_skip=4), torch.export.Dim.DYNAMIC
    program = torch.export.export(rnn, (torch.randn(2, 7, D),), dynamic_shapes={"x": {0: dynamic, 1: dynamic}}).module()
    for batch, steps in ((5, 30), (1, 1)):
        x = torch.randn(batch, steps, D)
        for got, expected in zip(program(x), rnn(x)):
            assert all(torch.equal(*pair) for pair in zip(got, expected) if pair[0] is not None)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@torch.no_grad()
def test_transforms_and_traces():
    rnn, x = make(min_skip=1, max_skip=4).requires_grad_(False), torch.randn(4, 2, T, D)
    together = torch.func.vmap(lambda x: rnn(x)[2])(x)
    assert together.equal(torch.stack([rnn(part)[2] for part in x]))
    traced = torch.jit.trace(lambda x: rnn(x)[2], x[0])
    assert traced(x[1]).equal(rnn(x[1])[2])
    assert make(min_skip=1, device="meta")(x[0].to("meta"))[2].shape == (2, T)


def test_a_module_without_a_gate_skips_as_its_stream_does():
    """It would update at every step, so only ``min_skip`` changes anything."""
    rnn, x = SkipGRU(D, H, gate=False).eval(), torch.randn(1, 9, D)
    for limits, expected in (((2, None), [1, 0, 0] * 3), ((0, 1), [1] * 9)):
        rnn.min_skip, rnn.max_skip = limits
        output, state, updates = rnn(x)
        stream = rnn.stream()
        assert updates[0].tolist() == expected and stream.feed(x) == sum(expected)
        assert stream.state.h.equal(state.h)


def test_no_limit_is_0_for_the_fewest():
    rnn = make()
    rnn.min_skip = None
    with pytest.raises(ValueError, match="min_skip: .* got None"):
        rnn(torch.randn(1, 4, D))
