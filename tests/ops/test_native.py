"""What the ``native`` engine promises besides the values of ``reference`` (which ``test_engines.py`` compares)."""

import pytest
import torch

from skiprnn_plugin.ops import CELLS
from skiprnn_plugin.ops.native import engine as native_engine
from skiprnn_plugin.ops.native import library

from ..compare import assert_equal, assert_gradients_close, assert_results_close
from ..selection import quick_in, quick_of
from .native_problems import bitwise_parts, decided_rows, drawn_problem, levels, native, only_rows
from .problems import Problem, every_cell, uniform_noise


@native
@pytest.mark.parametrize("seed", quick_in(3, range(200)))
def test_random_problems(engine, seed, monkeypatch):
    if seed % 2:  # as for large problems, whose backward computes again what small ones keep
        monkeypatch.setattr(native_engine, "KEEP_LIMIT", 0)
    problem, options = drawn_problem(seed)
    problem, options = only_rows(problem, options, decided_rows(problem, options).nonzero().squeeze(1))
    expected, got = (problem.run(name, **options) for name in ("reference", engine))
    assert_results_close(got, expected)
    assert_gradients_close(problem.gradients(got), problem.gradients(expected))


@native
@pytest.mark.parametrize("seed", quick_in(3, range(0, 200, 2)))
def test_inference_and_training_make_the_same_bits(engine, seed):
    problem, options = drawn_problem(seed)
    training = problem.run(engine, **options)
    with torch.no_grad():
        assert_equal(bitwise_parts(problem.run(engine, **options)), bitwise_parts(training))


@pytest.mark.thorough
def test_random_problems_are_compared_in_nearly_all_rows():
    decided = torch.cat([decided_rows(*drawn_problem(seed)) for seed in range(200)])
    assert len(decided) > 1500 and decided.float().mean() > 0.95


@levels()
@every_cell
@pytest.mark.parametrize("hidden", [7, 33])
@pytest.mark.parametrize("inputs", [3, 200])
def test_every_instruction_set(cell, engine, level, hidden, inputs):
    scale = 0.8 * max(inputs, hidden) ** -0.5
    problem = Problem(cell, 9, 12, inputs, hidden, 2, dtype=torch.float32, resumed=True, scale=scale)
    expected, got = (problem.run(name, lengths=[12, 0, 5] * 3) for name in ("reference", engine))
    assert 0 < expected[2].mean() < 1
    assert_results_close(got, expected)
    assert_gradients_close(problem.gradients(got), problem.gradients(expected))


@native
def test_an_unknown_instruction_set_is_answered_with_the_known_ones(engine):
    with pytest.raises(ValueError, match=f"^level: unknown instruction set 'mmx'; .*{library.levels()[-1]}"):
        library.set_level("mmx")


def special_values():
    """float32 over its whole range: evenly, by exponent, denormals, zeros, infinities and NaN."""
    powers = torch.logspace(-44.5, 38.4, 20001, dtype=torch.float64).float()
    tiny = torch.arange(1, 2000, dtype=torch.int32).view(torch.float32)
    parts = [torch.linspace(-120, 120, 200001), torch.linspace(-1, 1, 200001), powers, -powers, tiny, -tiny]
    return torch.cat([*parts, torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 3.4e38, -3.4e38])])


@levels()
@pytest.mark.parametrize("kind", ["sigmoid", "tanh"])
def test_activations(engine, level, kind):
    x = special_values()
    y = torch.empty_like(x)
    library.load().skiprnn_activation(["sigmoid", "tanh"].index(kind), len(x), x.data_ptr(), y.data_ptr())
    expected = getattr(torch, kind)(x.double())
    assert_equal(y.isnan(), x.isnan(), "NaN")
    number = ~x.isnan()
    error = (y.double() - expected).abs()[number]
    allowed = 1e-6 * expected.abs()[number] + 2.0**-149  # a result below 2^-126 has fewer digits
    assert (error <= allowed).all(), f"{x[number][(error - allowed).argmax()]}: off by {(error / allowed).max()} times"
    assert (y[number].abs() <= 1).all()


@levels()
@every_cell
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("inputs, hidden, layers", [(2, 13, 2), (200, 9, 1), (1, 110, 1)])
@pytest.mark.parametrize("threads", quick_of([1, 2], 2), indirect=True)
def test_the_bits_of_a_row_do_not_depend_on_the_batch(cell, engine, level, grad, inputs, hidden, layers, threads):
    problem = Problem(cell, 20, 15, inputs, hidden, layers, dtype=torch.float32, resumed=True)
    lengths = [15, 3, 0, 9, 14] * 4
    with torch.set_grad_enabled(grad):
        together = problem.run(engine, lengths=lengths)
        for row in range(0, 20, 3):
            tensors = {
                name: value[:, row : row + 1] if name in ("h", "c") else value[row : row + 1]
                for name, value in problem.tensors.items()
                if name in ("x", "h", "c", "p", "acc")
            }
            alone = problem.run(engine, {**problem.tensors, **tensors}, lengths=lengths[row : row + 1])
            for got, whole in zip(bitwise_parts(alone), bitwise_parts(together)):
                expected = (
                    whole[:, row : row + 1] if whole.dim() == 3 and whole is not together[0] else whole[row : row + 1]
                )
                assert_equal(got, expected, f"row {row}")


@native
@every_cell
@pytest.mark.parametrize("inputs", [2, 200])
def test_the_bits_of_a_rows_gradients_do_not_depend_on_the_batch(cell, engine, inputs):
    problem = Problem(cell, 20, 30, inputs, 21, 2, dtype=torch.float32, resumed=True)
    options = {"lengths": [30, 3, 0, 17, 29] * 4, "dropout_mask": 2.0 * (uniform_noise(20, 21)[None] < 0.5)}
    problem.tensors["dropout_mask"] = options["dropout_mask"].requires_grad_()
    whole = problem.gradients(problem.run(engine, **options))
    for rows in (torch.tensor([3]), torch.arange(2, 5), torch.arange(20)[::2]):
        part = Problem(cell, 20, 30, inputs, 21, 2, dtype=torch.float32, resumed=True)
        part, fewer = only_rows(part, options, rows)
        part.tensors["dropout_mask"] = fewer["dropout_mask"] = fewer["dropout_mask"].detach().requires_grad_()
        got = part.gradients(part.run(engine, **fewer))
        for name, dim in {"x": 0, "h": 1, "c": 1, "p": 0, "acc": 0, "dropout_mask": 1}.items():
            if name in got:
                assert_equal(got[name], whole[name].index_select(dim, rows), f"gradient of {name}")


@levels()
@every_cell
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("inputs, hidden", [(2, 5), (2, 16), (40, 5)])
def test_a_row_that_is_not_finite_does_not_reach_others(cell, engine, level, value, inputs, hidden):
    runs = []
    for bad in (False, True):
        problem = Problem(cell, 40, 6, inputs, hidden, 2, dtype=torch.float32, resumed=True)
        if bad:
            with torch.no_grad():
                problem.tensors["x"][::3, 2:] = value
        results = problem.run(engine)
        gradients = problem.gradients(results)
        by_row = {name: gradients[name] for name in ("x", "h", "c", "p", "acc") if name in gradients}
        runs.append(dict(enumerate(bitwise_parts(results))) | by_row)
    rows = torch.arange(40) % 3 != 0
    for name, value in runs[0].items():
        whole, got = ((value[:, rows] if len(value) == 2 else value[rows]) for value in (value, runs[1][name]))
        assert_equal(got, whole, str(name))


@native
@every_cell
def test_an_infinite_input_saturates_its_own_row(cell, engine):
    problem = Problem(cell, 3, 6, 2, 5, 2, dtype=torch.float32)
    with torch.no_grad():
        problem.tensors["x"][1, 0, 0] = torch.inf  # at the first step, which every sequence reads
    expected, got = (problem.run(name) for name in ("reference", engine))
    assert_results_close(got, expected)
    expected, got = (problem.gradients(results) for results in (expected, got))
    assert expected.pop("weight_ih_l0").isnan().any() and got.pop("weight_ih_l0").isnan().any()  # 0 times infinity
    assert_gradients_close(got, expected)


@native
@every_cell
@pytest.mark.parametrize("last_only", [False, True])
@pytest.mark.parametrize(
    "batch, steps, inputs, hidden, layers",
    [
        (0, 3, 2, 5, 1),
        (0, 3, 200, 5, 2),
        (2, 0, 2, 5, 2),
        (2, 0, 200, 5, 1),
        (2, 3, 0, 5, 2),
        (2, 3, 2, 0, 2),
        (1,) * 5,
    ],
)
def test_empty_and_smallest_sizes(cell, engine, batch, steps, inputs, hidden, layers, last_only):
    problem = Problem(cell, batch, steps, inputs, hidden, layers, dtype=torch.float32)
    expected, got = (problem.run(name, last_only=last_only) for name in ("reference", engine))
    assert_results_close(got, expected)
    assert_gradients_close(problem.gradients(got), problem.gradients(expected))


@pytest.mark.thorough
@levels()
@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=() if cell == "gru" else pytest.mark.thorough) for cell in sorted(CELLS)]
)
def test_gradients_of_weights_stay_exact_over_200_000_updates(cell, engine, level):
    runs = []
    for name, dtype in ((engine, torch.float32), ("indexed", torch.float64)):
        problem = Problem(cell, 256, 784, 1, 8, 1, dtype=torch.float32, scale=0.3)
        problem.tensors = {name: value.detach().to(dtype).requires_grad_() for name, value in problem.tensors.items()}
        runs.append(problem.gradients(problem.run(name, schedule=torch.ones(256, 784))))
    for name, expected in runs[1].items():
        if name not in ("x", "h", "c"):
            error = (runs[0][name] - expected).abs().max() / expected.abs().max()
            assert error < 2e-6, f"{name}: {error:.1e}"
