"""Streams: sample by sample they compute what the module computes of the whole sequence."""

import copy
import gc
import pickle
import warnings

import numpy as np
import pytest
import torch

from skiprnn_plugin.modules import SkipGRU, SkipLSTM
from skiprnn_plugin.modules import stream as stream_module
from skiprnn_plugin.modules.stream import NEVER, NativeStream, TorchStream
from skiprnn_plugin.ops import SkipState, uniform
from skiprnn_plugin.ops.native import library

from .builders import MODULES, every_module

NATIVE = pytest.param("native", marks=pytest.mark.skipif(library.missing() is not None, reason="no library"))
native = pytest.mark.parametrize("engine", [NATIVE])
every_engine = pytest.mark.parametrize("engine", [NATIVE, "indexed", "float64"])


def make(module, engine, inputs=3, hidden=11, layers=1, **options):
    """A module in evaluation mode whose gate skips about half of the steps."""
    torch.manual_seed(0)
    rnn = module(inputs, hidden, layers, **{"update_bias": -1.5, **options}).eval().requires_grad_(False)
    with torch.no_grad():
        for name, value in rnn.named_parameters():
            if name.startswith("update_weight"):
                value.copy_(2 * torch.randn_like(value) * hidden**-0.5)
    if engine == "float64":
        return rnn.double()
    rnn.engine = engine
    return rnn


def draw(rnn, batch=5, steps=60):
    return torch.randn(batch, steps, rnn.input_size, dtype=rnn.weight_ih_l0.dtype)


def drive(stream, x):
    """Read what is wanted of x [B, T, D], one sample of each row at a time. Returns the updates and the outputs after
    them, 0 at the other steps."""
    steps, updates, outputs = x.shape[1], torch.zeros(x.shape[:2], dtype=x.dtype), None
    while len(rows := (stream.wanted < steps).nonzero().squeeze(1)) > 0:
        stream.skip(stream.wanted[rows] - stream.time[rows], rows)
        times = stream.time[rows].clone()
        stream.update(x[rows, times], rows)
        updates[rows, times] = 1
        outputs = x.new_zeros(*x.shape[:2], stream.output.shape[1]) if outputs is None else outputs
        outputs[rows, times] = stream.output[rows]
    stream.skip(steps - stream.time)
    return updates, outputs


def check(stream, rnn, x, exact=True, **options):
    """That driving the stream gives what the module does of ``x``."""
    output, state, updates = rnn(x, **options)
    assert 0.05 < updates.mean() < 0.9
    got = drive(stream, x)
    assert torch.equal(got[0], updates.to(x.dtype))
    assert_equal((got[1], stream.state), (output * updates.unsqueeze(-1).to(x.dtype), state), exact)
    assert torch.equal(output := stream.output, stream.state.h[-1])
    before = output.clone()
    stream.reset(state=stream.state._replace(h=stream.state.h + 1))
    assert torch.equal(output, before)  # it is a copy


def assert_equal(got, expected, exact=True):
    close = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(got, expected, equal_nan=True, **close)


@native
@every_module
@pytest.mark.parametrize("inputs, layers", [(1, 1), (3, 2), (40, 1), (300, 2)])
def test_bit_for_bit_the_whole_pass(module, engine, inputs, layers):
    rnn = make(module, engine, inputs, 21, layers)
    stream = rnn.stream(5)
    assert type(stream) is NativeStream
    check(stream, rnn, draw(rnn))


@every_module
@pytest.mark.parametrize("engine", ["indexed", "float64"])
def test_equal_to_the_whole_pass_in_torch(module, engine):
    rnn = make(module, engine, layers=2)
    stream = rnn.stream(5)
    assert type(stream) is TorchStream
    check(stream, rnn, draw(rnn), exact=False)


@native
@pytest.mark.parametrize("level", library.levels() if library.missing() is None else [])
@pytest.mark.parametrize("batch", [1, 3, 70])
def test_every_instruction_set_and_more_rows_than_slots(engine, level, batch):
    before = library.level()
    library.set_level(level)
    try:
        rnn = make(MODULES["gru-before"], engine, 40, 33, 2, gate_layers=(0, 1))
        check(rnn.stream(batch), rnn, draw(rnn, batch))
    finally:
        library.set_level(before)


@every_engine
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_fed_with_chunks(cell, engine):
    rnn = make(MODULES[cell], engine)
    x, stream, used = draw(rnn, 70), rnn.stream(70), 0
    output, state, updates = rnn(x)
    for first, last in [(0, 1), (1, 9), (9, 9), (9, 10), (10, 47), (47, 60)]:
        chunk = x[:, first:last] if last != first + 1 else x[:, first]
        used += stream.feed(chunk)
        assert_equal(stream.output, output[:, last - 1], engine == "native")
    assert used == updates.sum() and stream.time.tolist() == [60] * 70
    assert_equal(stream.state, state, engine == "native")


@native
def test_samples_with_gaps_in_memory(engine):
    rnn = make(SkipGRU, engine)
    x = draw(rnn)
    expected = rnn(x)[1]
    for strided in (x.transpose(0, 1).contiguous().transpose(0, 1), x.transpose(1, 2).contiguous().transpose(1, 2)):
        stream = rnn.stream(5)
        stream.feed(strided)
        assert_equal(stream.state, expected)


@every_engine
def test_state_is_that_of_the_module_at_any_time(engine):
    rnn = make(MODULES["lstm"], engine)
    x, stream = draw(rnn), rnn.stream(5)
    for t in range(30):
        stream.feed(x[:, t])
        assert_equal(stream.state, rnn(x[:, : t + 1])[1], engine == "native")
    state = stream.state
    assert (state.acc > 0).any() and state.acc.dtype == x.dtype
    check(rnn.stream(5, state), rnn, x[:, 30:], engine == "native", state=state)


@every_engine
@pytest.mark.parametrize("by", ["copy", "pickle"])
def test_copied_half_way(engine, by):
    rnn = make(MODULES["lstm"], engine, layers=2)
    x, stream = draw(rnn), rnn.stream(5, min_skip=1, max_skip=3)
    stream.feed(x[:, :30])
    other = copy.deepcopy(stream) if by == "copy" else pickle.loads(pickle.dumps(stream))
    for one in (stream, other):
        one.feed(x[:, 30:])
    assert_equal((stream.state, stream.time, stream.wanted), (other.state, other.time, other.wanted))


@every_engine
def test_a_state_begins_at_time_0(engine, tmp_path):
    """As docs/streaming.md says: only a pickled stream continues exactly where there are limits. A file with a state is
    read without code, one with a stream is not."""
    rnn = make(SkipGRU, engine, update_bias=-6.0)  # which skips long
    stream = rnn.stream(1, min_skip=4, max_skip=9)
    stream.feed(draw(rnn, 1, 1))
    stream.skip(3)
    assert (stream.time.item(), stream.wanted.item()) == (4, 10)
    torch.save(stream.state, tmp_path / "state.pt")
    other, restored = rnn.stream(1, min_skip=4, max_skip=9), pickle.loads(pickle.dumps(stream))
    other.reset(state=torch.load(tmp_path / "state.pt", weights_only=True))
    assert (other.time.item(), other.wanted.item()) == (0, 9)  # max_skip counts from there
    assert (restored.time.item(), restored.wanted.item()) == (4, 10)
    other.reset(state=stream.state._replace(p=torch.ones(1), acc=torch.ones(1)))
    assert other.wanted.item() == 0  # and min_skip from the next update
    torch.save(stream, tmp_path / "stream.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "stream.pt", weights_only=True)


@every_engine
def test_rows_join_and_leave(engine):
    rnn = make(SkipGRU, engine)
    x, stream = draw(rnn), rnn.stream(5)
    stream.feed(x[:, :20])
    stream.reset([1, 3])
    assert stream.time.tolist() == [20, 0, 20, 0, 20]
    stream.feed(x[[1, 3], :40], rows=[1, 3])
    stream.feed(x[[4, 0], 20:], rows=torch.tensor([4, 0]))  # row 2 has left
    assert stream.time.tolist() == [60, 40, 20, 40, 60]
    expected, early = rnn(x)[1], rnn(x[:, :40])[1]
    assert_equal(stream.state.h[:, [0, 4]], expected.h[:, [0, 4]], engine == "native")
    assert_equal(stream.state.h[:, [1, 3]], early.h[:, [1, 3]], engine == "native")
    given = SkipState(*(part if part is None else part[..., :1, :] for part in expected[:2]))
    stream.reset(2, given)
    assert torch.equal(stream.state.h[:, 2], given.h[:, 0]) and stream.wanted[2] == 0


@every_engine
def test_a_single_row_begins_again(engine):
    """The initial state is not the memory of the present one."""
    rnn = make(MODULES["lstm"], engine)
    x, stream = draw(rnn, 1), rnn.stream()
    for _ in range(2):
        assert_equal(stream.state, rnn.initial_state(1).filled())
        check(stream, rnn, x, engine == "native")
        stream.reset()


@every_engine
@pytest.mark.parametrize("skips", [(0, 2), (2, None), (1, 1), (3, 5)], ids=str)
def test_limits_of_skips(engine, skips):
    rnn = make(MODULES["gru-before"], engine)
    x, (least, most) = draw(rnn, steps=200), skips
    updates, _ = drive(rnn.stream(5, min_skip=least, max_skip=most), x)
    gaps = torch.cat([row.nonzero().squeeze(1).diff() for row in updates]) - 1
    free = torch.cat([row.nonzero().squeeze(1).diff() - 1 for row in rnn(x)[2]])
    assert gaps.min() == max(least, int(free.min())) and gaps.max() == (most or max(least, int(free.max())))
    assert gaps.min() > free.min() or gaps.max() < free.max()
    check(rnn.stream(5, min_skip=least, max_skip=most), rnn, x, engine == "native", schedule=updates)


@every_engine
@pytest.mark.parametrize("skips", [(0, None), (1, 4)], ids=str)
def test_bernoulli_updates(engine, skips):
    rnn = make(SkipGRU, engine, binarize="bernoulli")
    x, seeds = draw(rnn), [3, 1, 4, 1, 2**62]
    stream = rnn.stream(5, None, *skips, seeds=seeds)
    if skips == (0, None):
        check(stream, rnn, x, engine == "native", noise=uniform(torch.tensor(seeds), 60))
    else:
        updates, _ = drive(stream, x)
        gaps = torch.cat([row.nonzero().squeeze(1).diff() for row in updates]) - 1
        assert (gaps.min(), gaps.max()) == skips
    other = pickle.loads(pickle.dumps(rnn.stream(5, None, *skips, seeds=seeds)))
    stream.reset(seeds=seeds)
    assert torch.equal(drive(stream, x)[0], drive(other, x)[0])
    stream.reset(0, seeds=[1000])
    assert not torch.equal(drive(stream, x)[0][0], drive(other, x)[0][0])


@native
@pytest.mark.parametrize("bias", [-5.0, -12.0, -17.0, -200.0])
def test_rare_bernoulli_updates(engine, bias):
    """As the library finds them, which goes step by step."""
    found = []
    for name in (engine, "indexed"):
        rnn = make(SkipGRU, name, binarize="bernoulli", update_bias=bias)
        for options in ({}, {"min_skip": 40}, {"max_skip": 50}):
            stream = rnn.stream(20, seeds=range(20), **options)
            stream.update(torch.zeros(20, 3))
            found.append(stream.wanted.tolist())
    assert found[:3] == found[3:]
    assert max(found[0]) > (NEVER - 1 if bias == -200 else 20) and min(found[1]) > 40 and max(found[2]) <= 51


@every_engine
def test_a_closed_gate_never_wants_a_sample_again(engine):
    rnn = make(SkipGRU, engine, update_bias=-200.0)
    for limit, wanted in ((None, NEVER), (7, 8)):
        stream = rnn.stream(2, max_skip=limit)
        stream.update(torch.randn(2, 3))
        assert stream.wanted.tolist() == [wanted] * 2
    stream = rnn.stream()
    assert stream.feed(torch.randn(1, 50, 3)) == 1
    with pytest.raises(ValueError, match="row 0 is at sample 50, and wants no further sample; it can't skip 9223"):
        stream.skip(stream.wanted - stream.time)
    with pytest.raises(ValueError, match="^x: row 0 is at sample 50, and wants no further sample"):
        stream.update(torch.randn(1, 3))


@every_engine
def test_without_a_gate_every_sample_is_wanted(engine):
    rnn = make(SkipGRU, engine, gate=False)
    x, stream = draw(rnn), rnn.stream(5)
    assert stream.feed(x) == 300
    assert_equal(stream.state, rnn(x)[1], engine == "native")
    assert rnn.stream(5, min_skip=2).feed(x) == 100


@pytest.mark.parametrize("option", [{"layer_norm": True}, {"threshold": 0.8}, {"batch_first": False}], ids=str)
def test_options_of_the_module(option):
    rnn = make(MODULES["lstm"], "auto", layers=2, **option)
    x = draw(rnn)
    if not rnn.batch_first:
        whole, rnn.batch_first = rnn(x.transpose(0, 1))[1], True
        stream = rnn.stream(5)
        stream.feed(x)
        assert_equal(stream.state, whole, exact=False)
    else:
        check(rnn.stream(5), rnn, x, exact=False)


@every_engine
def test_arrays_and_what_is_not_a_number(engine):
    rnn = make(SkipGRU, engine)
    x = draw(rnn)
    x[2, 0, 1] = float("nan")
    expected = rnn(x)[1]
    array, stream = x.numpy().copy(), rnn.stream(5)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.update(array[:, 0].astype(np.float64))
        stream.feed(array[:, 1:20])
        stream.feed(array[:, 39:19:-1][:, ::-1])
        stream.feed(array[:, 40:].astype(">f8"))
    assert_equal(stream.state, expected, engine == "native")
    assert stream.output[2].isnan().all() and stream.output[3].isfinite().all()


@native
def test_later_training_changes_nothing(engine):
    rnn = make(SkipGRU, engine)
    x, stream = draw(rnn), rnn.stream(5)
    expected = rnn(x)[1]
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.mul_(1.5)
    stream.feed(x)
    assert_equal(stream.state, expected)


@pytest.mark.parametrize("name", ["l1_unstructured", "weight_norm", "spectral_norm"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weights_that_hooks_compute_are_the_present_ones(name):
    """Also between a training update and the next forward."""
    rnn = make(SkipGRU, "auto")
    if name == "l1_unstructured":
        torch.nn.utils.prune.l1_unstructured(rnn, "weight_hh_l0", 0.5)
    else:
        getattr(torch.nn.utils, name)(rnn, "weight_hh_l0")
    x = draw(rnn)
    before = rnn(x)[1]
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    stream = rnn.stream(5)
    stream.feed(x)
    expected = rnn(x)[1]
    assert not torch.allclose(before.h, expected.h)
    assert_equal(stream.state, expected, exact=False)


@every_engine
def test_inference_mode(engine):
    rnn = make(MODULES["lstm"], engine)
    x = draw(rnn)
    with torch.inference_mode():
        stream = rnn.stream(5, rnn.initial_state(5))
        stream.feed(x[:, :20])
        stream = copy.deepcopy(stream)
    stream.feed(x[:, 20:40])
    with torch.inference_mode():
        stream.feed(x[:, 40:])
    assert_equal(stream.state, rnn(x)[1], engine == "native")
    stream.reset()


@native
def test_times_live_as_long_as_someone_has_them(engine):
    wanted = make(SkipGRU, engine, hidden=200).stream(1000).wanted
    gc.collect()
    junk = [torch.full((1 << 18,), 7.0) for _ in range(4)]
    assert wanted.tolist() == [0] * 1000 and len(junk) == 4


@native
def test_without_the_library_a_stream_continues_in_torch(engine, monkeypatch):
    rnn = make(SkipGRU, engine)
    x, stream = draw(rnn), rnn.stream(5)
    stream.feed(x[:, :30])
    stored = pickle.dumps(stream)
    monkeypatch.setattr(library, "_found", library._Found(None, "gone"))
    stream = pickle.loads(stored)
    assert type(stream) is TorchStream
    stream.feed(x[:, 30:])
    monkeypatch.undo()
    assert_equal(stream.state, rnn(x)[1], exact=False)


WRONG = {
    "width": (lambda s: s.update(torch.zeros(4, 4)), r"^x: expected real numbers \[4, 3\], got shape \(4, 4\)"),
    "rank": (lambda s: s.update(torch.zeros(3)), r"^x: expected real numbers \[4, 3\], got shape \(3,\)"),
    "feed": (lambda s: s.feed(torch.zeros(4)), r"^x: expected real numbers \[4, 3\] or \[4, T, 3\], got shape \(4,\)"),
    "complex": (lambda s: s.update(torch.zeros(4, 3) * 1j), "^x: expected real numbers .*complex64"),
    "text": (lambda s: s.update("abc"), "^x: expected real numbers .*got 'abc'"),
    "none": (lambda s: s.update([[1, 2, None]] * 4), "^x: expected real numbers .*got None"),
    "texts": (lambda s: s.update([[1, "2", 3]] * 4), "^x: expected real numbers .*got '2'"),
    "ragged": (lambda s: s.update([[1, 2, 3], [1, 2]]), "^x: expected real numbers .*got list"),
    "count": (lambda s: s.update(torch.zeros(4, 3), [0]), r"^x: expected real numbers \[1, 3\], got shape \(4, 3\)"),
    "early": (lambda s: s.update(torch.zeros(4, 3)), "^x: row 1 is at sample 1, and wants sample"),
    "early row": (lambda s: s.update(torch.zeros(2, 3), [0, 1]), "^x: row 1 is at sample 1, and wants sample"),
    "late": (lambda s: s.skip(1), r"^n: row 0 is at sample (.*), and wants sample \1; it can't skip 1 samples"),
    "back": (lambda s: s.skip(-1), "^n: row 0 is at sample .*can't skip -1 samples"),
    "late row": (lambda s: s.skip([1, 1], [1, 0]), "^n: row 0 is at sample"),
    "late, another row": (lambda s: s.skip([0, 9], [0, 1]), "^n: row 1 is at sample .*can't skip 9 samples"),
    "too far": (lambda s: s.skip(2**63), "^n: expected integers, got"),
    "half": (lambda s: s.skip(0.5), "^n: expected integers, got"),
    "counts": (lambda s: s.skip([1, 1]), "^n: expected 4 integers, got 2"),
    "no row": (lambda s: s.skip(0, [4]), "^rows: expected rows from 0 to 3, got 4"),
    "before": (lambda s: s.update(torch.zeros(1, 3), -1), "^rows: expected rows from 0 to 3, got -1"),
    "twice": (lambda s: s.feed(torch.zeros(2, 3), [1, 1]), r"^rows: expected every row once, got \[1, 1\]"),
    "mask": (lambda s: s.skip(0, torch.ones(4) > 0), "^rows: expected integers"),
    "state": (lambda s: s.reset([0, 1], s.state), r"^state.h: expected shape \(1, 2, 11\), got \(1, 4, 11\)"),
    "state of no row": (lambda s: s.reset([9]), "^rows: expected rows from 0 to 3, got 9"),
    "seeds": (lambda s: s.reset(seeds=[1, 2, 3, 4]), "^seeds: has no meaning, .*expected binarize='bernoulli'"),
}


@every_engine
@pytest.mark.parametrize("call, message", WRONG.values(), ids=WRONG.keys())
def test_an_error_changes_nothing(engine, call, message):
    rnn = make(SkipGRU, engine)
    stream = rnn.stream(4, min_skip=2, max_skip=9)
    stream.update(torch.zeros(4, 3))
    stream.skip(stream.wanted[0] - 1, 0)  # row 0 wants its next sample, the others a later one
    before = stream.state, stream.time.clone(), stream.wanted.clone()
    with pytest.raises(ValueError, match=message):
        call(stream)
    assert_equal((stream.state, stream.time, stream.wanted), before)
    stream.feed(torch.zeros(4, 7, 3))


def test_what_cannot_be_a_stream():
    with pytest.raises(ValueError, match="^bidirectional: expected False for a stream"):
        SkipGRU(3, 4, bidirectional=True).stream()
    with pytest.raises(ValueError, match="^engine: 'native' .*float64.*; expected auto"):
        SkipGRU(3, 4, engine="native").double().stream()
    rnn = SkipGRU(3, 4)
    for options, message in (
        ({"batch_size": 0}, "^batch_size: expected an integer of at least 1, got 0"),
        ({"min_skip": -1}, "^min_skip: expected an integer of at least 0, got -1"),
        ({"min_skip": 3, "max_skip": 2}, "^max_skip: expected at least min_skip, 3, got 2"),
        ({"state": 3}, "^state: expected a SkipState or a tensor h, got int"),
        ({"seeds": [1]}, "^seeds: has no meaning"),
    ):
        with pytest.raises(ValueError, match=message):
            rnn.stream(**options)


@every_engine
@pytest.mark.parametrize(
    "call",
    [lambda s: s.skip(2**63), lambda s: s.skip(0, [0.5] * 1000), lambda s: s.feed(torch.zeros(1000, 1, 3), [1] * 1000)],
    ids=["n", "rows", "twice"],
)
def test_messages_about_many_rows_are_short(engine, call):
    with pytest.raises(ValueError) as caught:
        call(make(SkipGRU, engine).stream(1000))
    assert len(str(caught.value)) < 200


def test_rare_bernoulli_updates_draw_few_numbers_at_once(monkeypatch):
    """Rows that have found their next update are drawn for no longer."""
    sizes = []

    def count(seeds, steps, first):
        sizes.append(len(seeds) * steps)
        return uniform(seeds, steps, first)

    monkeypatch.setattr(stream_module, "uniform", count)
    rnn = make(SkipGRU, "indexed", binarize="bernoulli", update_bias=-18.0)
    stream = rnn.stream(200, seeds=range(200))
    stream.update(torch.zeros(200, 3))
    waits = stream.wanted - 1
    assert (waits < NEVER - 1).all() and waits.max() > 5000
    assert max(sizes) <= 1 << 20 and sum(sizes) < 4 * int(waits.sum()) + 200 * 16


def test_a_tensor_as_the_state():
    """A call of the module takes one too: h alone, for a cell without c."""
    rnn, h = SkipGRU(3, 4).eval(), torch.randn(1, 2, 4)
    stream = rnn.stream(2, h)
    assert_equal(stream.state.h, h)
    stream.reset(state=2 * h)
    assert_equal(stream.state.h, 2 * h)
    with pytest.raises(ValueError, match=r"^state: expected a SkipState or a tuple \(h, c\), got Tensor"):
        SkipLSTM(3, 4).stream(2, h)
