"""A cell and an engine that a user registers from outside the package."""

import pytest
import torch

from skiprnn_plugin.modules.skip_rnn import SkipRNNBase
from skiprnn_plugin.ops import CELLS, ENGINES, Cell
from skiprnn_plugin.ops.engines import Engine
from skiprnn_plugin.ops.indexed import engine as indexed

from .problems import Problem


class MinimalGatedUnit(Cell):
    """f = sigmoid(W_f x + U_f h + b_f), n = tanh(W_n x + U_n h + b_n), h~ = h + f (n - h)."""

    num_gates = 2
    num_normalized = 0
    num_kept = 2
    matrices = (2,)
    start_bias = (0, 0)

    @staticmethod
    def combine(x, u, h, c, w, mask=None):
        f, n = (x + u).chunk(2, -1)
        f, n = torch.sigmoid(f), torch.tanh(n)
        return h + f * (n - h), None, (f, n)

    @staticmethod
    def backward(dh, dc, kept, h, c, w):
        f, n = kept
        du = torch.cat([dh * (n - h) * f * (1 - f), dh * f * (1 - n * n)], -1)
        return du, du, dh * (1 - f) + du @ w.weight_hh, None


class SkipMinimalGatedUnit(SkipRNNBase):
    cell = "minimal_gated_unit"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(CELLS, "minimal_gated_unit", MinimalGatedUnit)


@pytest.fixture
def counted(monkeypatch):
    """The engine ``counting``, which is ``indexed`` and writes down what it is asked for; the list of that."""
    calls = []

    def note(name):
        def function(*arguments):
            calls.append(name)
            return getattr(indexed, name)(*arguments)

        return function

    kernels = ENGINES["indexed"].kernels._replace(forward=note("forward"), backward=note("backward"))
    monkeypatch.setitem(ENGINES, "counting", Engine(kernels=kernels))
    return calls


def run(engine, dtype=torch.float64, **options):
    """Outputs of a module and the gradients of all its parameters."""
    torch.manual_seed(0)
    options = {"num_layers": 2, "update_bias": 0.0, "engine": engine, **options}
    rnn = SkipMinimalGatedUnit(3, 5, dtype=dtype, **options)
    output, state, updates = rnn(torch.randn(4, 12, 3, dtype=dtype), lengths=[12, 7, 1, 10])
    assert 0 < updates.sum() < 30
    (output.square().sum() + state.h.sum() + 0.1 * updates.sum()).backward()
    return {"output": output, "h": state.h, "updates": updates, **{k: p.grad for k, p in rnn.named_parameters()}}


@pytest.mark.parametrize("engine", ["indexed", "auto"])
def test_a_cell_from_outside_is_the_same_with_every_engine_that_takes_any_cell(engine):
    expected, got = run("reference"), run(engine)
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, msg=lambda message, name=name: f"{name}: {message}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_native_says_that_it_has_no_such_cell(dtype):
    message = "^engine: 'native' has no cell 'minimal_gated_unit'; expected auto or one of indexed, reference$"
    with pytest.raises(ValueError, match=message):
        run("native", dtype)


def test_a_cell_from_outside_learns(caplog):
    """Which of two inputs came first: auto trains it, in float32, where native has no such cell."""
    torch.manual_seed(0)
    rnn, head = SkipMinimalGatedUnit(1, 16), torch.nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.02)
    labels = torch.randint(2, (64,))
    x = torch.zeros(64, 6, 1)
    x[:, 0, 0] = labels * 2.0 - 1
    losses = []
    for _ in range(40):
        output, _, updates = rnn(x, last_only=True)
        loss = torch.nn.functional.cross_entropy(head(output), labels) + 1e-3 * updates.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_compiled_code_takes_a_cell_from_outside():
    torch._dynamo.reset()
    torch.manual_seed(0)
    rnn, x = SkipMinimalGatedUnit(3, 5), torch.randn(2, 6, 3)
    expected = rnn(x)[0]
    torch.testing.assert_close(torch.compile(rnn, backend="aot_eager", fullgraph=True)(x)[0], expected)


def test_an_engine_from_outside_is_used_by_its_name(counted):
    problem = Problem("gru")
    expected, got = problem.run("indexed"), problem.run("counting")
    assert torch.equal(got[0], expected[0]) and counted == ["forward"]
    got[0].sum().backward()
    assert counted == ["forward", "backward"]


def test_auto_tries_engines_in_the_order_of_the_table(counted):
    problem = Problem("gru")
    problem.run("auto")
    assert counted == []  # its row is the last one
    rows = dict(ENGINES)
    ENGINES.clear()
    ENGINES.update({"counting": rows["counting"], **rows})
    try:
        problem.run("auto")
    finally:
        ENGINES.clear()
        ENGINES.update(rows)
    assert counted == ["forward"]
