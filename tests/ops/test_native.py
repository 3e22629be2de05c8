"""What the ``native`` engine promises beyond equality with ``reference`` (``test_engines.py``)."""

import logging
import os
import random
import signal
import sys
import threading
import time
from ctypes import c_void_p

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU
from skiprnn_plugin.ops import CELLS, scan
from skiprnn_plugin.ops.native import areas, library, packing
from skiprnn_plugin.ops.native import engine as native_engine

from ..command_line import ROOT, run
from ..compare import assert_equal, assert_gradients_close, assert_results_close
from .problems import Problem, engine_param, every_cell, mixed_updates, uniform_noise

TIE = 1e-5  # a decision this close to the threshold may fall either way, by rounding
native = pytest.mark.parametrize("engine", [engine_param("native")])
measures_memory = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="reads /proc, and the address sanitizer keeps what is freed",
)


def levels():
    """Tests run with each instruction set of the library that this machine can run."""
    names = [None] if library.missing() else library.levels()
    return pytest.mark.parametrize(
        "engine, level", [engine_param("native", name) for name in names], indirect=["level"]
    )


@pytest.fixture
def level(request):
    """One of the library's instruction sets, in use during a test."""
    before = library.level()
    library.set_level(request.param)
    yield request.param
    library.set_level(before)


@pytest.fixture
def threads(request):
    """So many threads during a test."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def drawn_problem(seed):
    """A random problem in float32 and the options of its run."""
    draw = random.Random(seed)
    cell, layers = draw.choice(sorted(CELLS)), draw.choice([1, 1, 2, 3])
    batch, steps = draw.choice([1, 2, 5, 8, 13, 20]), draw.randint(1, 40)
    inputs, hidden = draw.choice([1, 2, 5, 17, 200]), draw.choice([1, 3, 8, 16, 21, 40])
    problem = Problem(
        cell,
        batch,
        steps,
        inputs,
        hidden,
        layers,
        dtype=torch.float32,
        gate_layers=tuple(sorted(draw.sample(range(layers), draw.randint(1, layers)))),
        resumed=draw.random() < 0.5,
        scale=0.8 * max(inputs, hidden) ** -0.5,
    )
    with torch.no_grad():
        problem.tensors["update_bias"].fill_(draw.uniform(-3, 2))
    options = {"last_only": draw.random() < 0.3}
    if draw.random() < 0.5:
        offsets = [draw.randint(0, steps) if draw.random() < 0.5 else 0 for _ in range(batch)]
        options["offsets"] = offsets if draw.random() < 0.5 else None
        options["lengths"] = [draw.randint(0, steps - (begin if options["offsets"] else 0)) for begin in offsets]
    kind = draw.choice(["round", "threshold", "noise", "schedule", "no gate"])
    if kind == "threshold":
        options["threshold"] = draw.choice([0.0, 0.2, 0.8, 1.0, float("inf")])
    elif kind == "noise":
        options["noise"] = uniform_noise(batch, steps, seed)
    elif kind == "schedule":
        options["schedule"] = uniform_noise(batch, steps, seed) < draw.random()
    elif kind == "no gate":
        options["gate"] = None
        options["schedule"] = mixed_updates(batch, steps) if draw.random() < 0.5 else None
    if layers > 1 and draw.random() < 0.5:
        options["dropout_mask"] = 2.0 * (uniform_noise((layers - 1) * batch, hidden, seed + 1) < 0.5)
        options["dropout_mask"] = options["dropout_mask"].view(layers - 1, batch, hidden)
    return problem, options


def decided_rows(problem, options):
    """Rows without a decision so near the threshold that rounding may turn it over, bool [B]."""
    sides = []
    for side in (-TIE, TIE):
        moved = dict(options)
        if options.get("noise") is None:
            moved["threshold"] = options.get("threshold", 0.5) + side
        else:
            moved["noise"] = options["noise"] + side
        with torch.no_grad():
            sides.append(problem.run("reference", **moved)[2])
    return (sides[0] == sides[1]).all(1)


def only_rows(problem, options, rows):
    """The problem and the options for those rows of the batch alone."""
    of = {"x": 0, "h": 1, "c": 1, "p": 0, "acc": 0}
    for name, dim in of.items():
        if name in problem.tensors:
            problem.tensors[name] = problem.tensors[name].detach().index_select(dim, rows).requires_grad_()
    options = dict(options)
    for name in ("offsets", "lengths", "noise", "schedule"):
        if options.get(name) is not None:
            options[name] = torch.as_tensor(options[name])[rows]
    if options.get("dropout_mask") is not None:
        options["dropout_mask"] = options["dropout_mask"][:, rows]
    return problem, options


@native
@pytest.mark.parametrize("seed", range(200))
def test_random_problems(engine, seed, monkeypatch):
    if seed % 2:  # as for large problems, whose backward computes anew what others keep
        monkeypatch.setattr(native_engine, "NEAR", 0)
    problem, options = drawn_problem(seed)
    problem, options = only_rows(problem, options, decided_rows(problem, options).nonzero().squeeze(1))
    expected, got = (problem.run(name, **options) for name in ("reference", engine))
    assert_results_close(got, expected)
    assert_gradients_close(problem.gradients(got), problem.gradients(expected))


@native
@pytest.mark.parametrize("seed", range(0, 200, 2))
def test_inference_and_training_make_the_same_bits(engine, seed):
    problem, options = drawn_problem(seed)
    training = problem.run(engine, **options)
    with torch.no_grad():
        assert_equal(bitwise_parts(problem.run(engine, **options)), bitwise_parts(training))


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


def bitwise_parts(results):
    output, state, updates = results
    return [value for value in (output, *state, updates) if value is not None]


@levels()
@every_cell
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("inputs, hidden, layers", [(2, 13, 2), (200, 9, 1), (1, 110, 1)])
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
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
                of_row = (
                    whole[:, row : row + 1] if whole.dim() == 3 and whole is not together[0] else whole[row : row + 1]
                )
                assert_equal(got, of_row, f"row {row}")


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
        of_rows = {name: gradients[name] for name in ("x", "h", "c", "p", "acc") if name in gradients}
        runs.append(dict(enumerate(bitwise_parts(results))) | of_rows)
    rows = torch.arange(40) % 3 != 0
    for name, value in runs[0].items():
        whole, got = ((value[:, rows] if len(value) == 2 else value[rows]) for value in (value, runs[1][name]))
        assert_equal(got, whole, str(name))


@native
@every_cell
def test_an_infinite_input_saturates_its_own_row(cell, engine):
    problem = Problem(cell, 3, 6, 2, 5, 2, dtype=torch.float32)
    with torch.no_grad():
        problem.tensors["x"][1, 0, 0] = torch.inf  # of the first step, which every sequence reads
    expected, got = (problem.run(name) for name in ("reference", engine))
    assert_results_close(got, expected)
    expected, got = (problem.gradients(each) for each in (expected, got))
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


@levels()
@every_cell
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


@native
@every_cell
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("inputs", [2, 200])
def test_two_runs_are_bitwise_equal_with_any_number_of_threads(cell, engine, threads, inputs):
    runs = []
    for _ in range(2):
        problem = Problem(cell, 40, 60, inputs, 64, 2, dtype=torch.float32, scale=0.1)
        results = problem.run(engine)
        runs.append((bitwise_parts(results), problem.gradients(results)))
    assert_equal(*runs)


@native
@every_cell
@pytest.mark.parametrize("inputs", [2, 200])
def test_one_thread_and_two_agree(cell, engine, inputs):
    runs = []
    before = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        problem = Problem(cell, 40, 60, inputs, 64, 2, dtype=torch.float32, scale=0.1)
        results = problem.run(engine)
        runs.append((bitwise_parts(results), problem.gradients(results)))
    torch.set_num_threads(before)
    assert_equal(runs[1][0], runs[0][0])
    assert_gradients_close(runs[1][1], runs[0][1])


@native
@every_cell
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_threads_that_share_products_change_no_bit(cell, engine, batch):
    runs = []
    before = torch.get_num_threads()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        problem = Problem(cell, batch, 20, 3000, 200, 2, dtype=torch.float32, scale=0.02)
        problem.tensors["update_bias"].detach().fill_(-1.0)
        results = problem.run(engine, lengths=[20, 11, 18][:batch])
        runs.append((bitwise_parts(results), problem.gradients(results)))
    torch.set_num_threads(before)
    assert 0 < runs[0][0][-1].mean() < 1
    for run_of_threads in runs[1:]:
        assert_equal(run_of_threads, runs[0])


@native
def test_the_saved_records_grow_with_the_updates(engine):
    problem = Problem("lstm", 8, 400, 2, 64, 1, dtype=torch.float32, scale=0.1)
    most, fewer = (largest_saved(problem, engine, (torch.arange(400) % every == 0).expand(8, -1)) for every in (1, 4))
    assert 3.5 < most / fewer < 4.5


def largest_saved(problem, engine, schedule):
    """Numbers in the largest tensor that a backward keeps beside the problem's own."""
    own, sizes = {id(value) for value in problem.tensors.values()}, []

    def note(value):
        if id(value) not in own:
            sizes.append(value.numel())
        return value

    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        problem.run(engine, schedule=schedule)
    return max(sizes)


@measures_memory
@native
def test_records_take_memory_as_they_are_written(engine):
    before, kept = resident(), []
    problem = Problem("lstm", 64, 2000, 1, 64, 1, dtype=torch.float32, scale=0.1)
    schedule = (torch.arange(2000) % 50 == 0).expand(64, -1)
    for _ in range(2):
        kept.append(problem.run(engine, schedule=schedule, last_only=True)[0])
    sizes = library.Problem(library.Shape(0, 1, 1, 64), 64, 2000, near=native_engine.NEAR // 4)
    record = library.load().skiprnn_record_size(sizes) * 4
    assert resident() - before < 2 * 64 * 2000 * record / 4


def resident():
    """Bytes of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_areas_are_used_again_but_never_by_two():
    def room():
        return torch.frombuffer(areas.take(1 << 26), dtype=torch.float32, count=1000)

    first = room()
    part, place = first[:10], first.data_ptr()
    del first
    second = room()
    assert second.data_ptr() != place
    del part
    assert room().data_ptr() == place
    held = [room() for _ in range(areas.MOST + 2)]
    assert len({each.data_ptr() for each in [second, *held]}) == areas.MOST + 3
    assert len(areas._areas) == areas.MOST


@measures_memory
@native
def test_500_training_steps_at_flat_memory(engine):
    rnn, draw, sizes = SkipGRU(2, 48, 2, engine=engine), random.Random(0), []
    optimizer = torch.optim.SGD(rnn.parameters(), 1e-3)
    for step in range(500):
        x = torch.randn(16, draw.randint(1, 120), 2)
        optimizer.zero_grad()
        output, _, updates = rnn(x)
        (output.square().mean() + 1e-4 * updates.sum()).backward()
        optimizer.step()
        if step % 50 == 49:
            sizes.append(resident())
    assert sizes[-1] - sizes[1] < 8e6, sizes


@native
@pytest.mark.parametrize("how", ["optimizer", "data", "copy_", "another tensor"])
def test_changed_weights_are_laid_out_anew(engine, how):
    torch.manual_seed(0)
    rnn, x = SkipGRU(3, 9, 2, engine=engine), torch.randn(4, 12, 3)
    optimizer = torch.optim.SGD(rnn.parameters(), 0.05)
    for _ in range(3):
        results = rnn(x)
        expected = skip_by("reference", rnn, x)
        assert_results_close(results, expected)
        gradients, reference = (
            dict(zip(names(rnn), torch.autograd.grad(each[0].sum() + each[2].sum(), list(rnn.parameters()))))
            for each in (results, expected)
        )
        assert_gradients_close(gradients, reference)
        with torch.no_grad():
            weight = rnn.weight_hh_l1
            if how == "optimizer":
                for name, parameter in rnn.named_parameters():
                    parameter.grad = gradients[name]
                optimizer.step()
            elif how == "data":
                weight.data[3, 5] += 1.0  # as fairseq's optimizers write; no version counter moves
            elif how == "copy_":
                weight.copy_(weight.flip(0))
            else:
                rnn.weight_hh_l1 = torch.nn.Parameter(weight.flip(0))


def names(module):
    return [name for name, _ in module.named_parameters()]


def skip_by(engine, rnn, x):
    """The module's results by another engine."""
    own, rnn.engine = rnn.engine, engine
    try:
        return rnn(x)
    finally:
        rnn.engine = own


@native
def test_two_models_do_not_mix_and_the_cache_is_bounded(engine):
    x = torch.randn(2, 6, 3)
    models = [SkipGRU(3, 5, engine=engine) for _ in range(packing.CAPACITY + 3)]
    with torch.no_grad():
        for _ in range(2):
            for rnn in models:
                assert_results_close(rnn(x), skip_by("reference", rnn, x))
    assert len(packing._cache) <= packing.CAPACITY


def wide_model(engine, seed=0):
    """A model, and one sequence, for whose scan it is worth to wake up threads."""
    torch.manual_seed(seed)
    return SkipGRU(300, 128, engine=engine), torch.randn(1, 80, 300)


@native
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_many_threads_of_python_may_run_it(engine, threads):
    problems = [wide_model(engine, seed) for seed in range(2)]
    with torch.no_grad():
        expected = [rnn(x) for rnn, x in problems]
    wrong = []

    def work(problem, results):
        rnn, x = problem
        with torch.no_grad():
            for _ in range(50):
                if not torch.equal(rnn(x)[0], results[0]):
                    wrong.append(rnn)

    running = [threading.Thread(target=work, args=pair) for pair in list(zip(problems, expected)) * 2]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert not wrong


class Outputs(torch.utils.data.Dataset):
    """A model's outputs, computed where they are asked for, by two threads."""

    def __init__(self, rnn, x):
        self.rnn, self.x = rnn, x

    def __len__(self):
        return 2

    def __getitem__(self, index):
        torch.set_num_threads(2)
        with torch.no_grad():
            return self.rnn(self.x)[0]


def made_by_fork(outputs, folder):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            torch.save(outputs[0], folder / "output.pt")
            os._exit(len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 2)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2  # the thread that forks, and a new one
    return torch.load(folder / "output.pt")


def made_by_data_loader(outputs, folder):
    loader = torch.utils.data.DataLoader(outputs, None, num_workers=2, multiprocessing_context="fork", timeout=60)
    return torch.stack(list(loader)).unique(dim=0).squeeze(0)


@native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("threads", [2], indirect=True)
@pytest.mark.parametrize("made", [made_by_fork, made_by_data_loader])
def test_a_fork_has_threads_of_its_own(engine, threads, made, tmp_path):
    outputs = Outputs(*wide_model(engine))
    expected = outputs[0]
    assert_equal(made(outputs, tmp_path), expected)
    assert_equal(outputs[0], expected)


@native
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_threads_without_work_sleep(engine, threads):
    rnn, x = wide_model(engine)
    with torch.no_grad():
        rnn(x)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


@native
def test_a_process_ends_though_its_threads_wait(engine):
    code = """
import torch
from skiprnn_plugin.modules import SkipGRU
torch.set_num_threads(2)
output = SkipGRU(300, 128, engine="native")(torch.randn(1, 80, 300))[0]
output.sum().backward()
print(*output.shape)
"""
    process = run(sys.executable, "-c", code, cwd=ROOT)
    assert (process.returncode, process.stdout, process.stderr) == (0, "1 80 128\n", "")


@native
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_get_no_signals_but_those_of_their_faults(engine):
    code = """
import os, signal, time, torch
from skiprnn_plugin.modules import SkipGRU
torch.set_num_threads(2)
rnn, x = SkipGRU(300, 128, engine="native"), torch.randn(1, 80, 300)
before = set(os.listdir("/proc/self/task"))
rnn(x)
(thread,) = set(os.listdir("/proc/self/task")) - before
names = ("SIGINT", "SIGTERM", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
found, end = None, time.monotonic() + 10
while found != ["SIGINT", "SIGTERM"] and time.monotonic() < end:  # a thread begins with all of them blocked
    status = dict(line.split(":", 1) for line in open(f"/proc/self/task/{thread}/status"))
    found = [name for name in names if int(status["SigBlk"], 16) >> (getattr(signal, name) - 1) & 1]
print(*found)
"""
    process = run(sys.executable, "-c", code, cwd=ROOT)
    assert (process.returncode, process.stdout, process.stderr) == (0, "SIGINT SIGTERM\n", "")


@native
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_library_stays_for_its_threads_when_it_is_closed(engine):
    code = """
import _ctypes, os
from skiprnn_plugin.ops.native import library
opened = library.load()
_ctypes.dlclose(opened._handle)
print(os.path.realpath(opened._name) in open("/proc/self/maps").read())
"""
    process = run(sys.executable, "-c", code, cwd=ROOT)
    assert (process.returncode, process.stdout, process.stderr) == (0, "True\n", "")


@native
def test_results_have_memory_of_their_own(engine):
    problem = Problem("lstm", dtype=torch.float32)
    with torch.no_grad():
        parts = bitwise_parts(problem.run(engine))
    assert len({part.untyped_storage().data_ptr() for part in parts}) == len(parts)


REFUSED = {
    "float64": ({"dtype": torch.float64}, "takes torch.float32 on the CPU, got torch.float64 on .*one of indexed, ref"),
    "bfloat16": ({"dtype": torch.bfloat16}, "takes torch.float32 on the CPU, got torch.bfloat16"),
    "layer norm": ({"layer_norm": True}, "has no layer_norm; expected auto or one of reference"),
}


@native
@pytest.mark.parametrize("changes, message", REFUSED.values(), ids=REFUSED.keys())
def test_what_it_cannot_do_is_an_error(engine, changes, message):
    problem = Problem("gru", **{"dtype": torch.float32, **changes})
    with pytest.raises(ValueError, match=f"^engine: 'native' {message}"):
        problem.run(engine)


@native
def test_autocast_is_an_error(engine):
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError, match="^engine: 'native' .*got autocast"):
        Problem("gru", dtype=torch.float32).run(engine)


@native
def test_another_device_is_an_error(engine):
    problem = Problem("gru", dtype=torch.float32)
    tensors = {name: value.detach().to("meta") for name, value in problem.tensors.items()}
    with pytest.raises(ValueError, match="^engine: 'native' .*got torch.float32 on meta"):
        problem.run(engine, tensors)


@pytest.fixture
def find_again(monkeypatch):
    """The library as it is found with another environment."""
    monkeypatch.setattr(library, "_found", None)
    monkeypatch.setattr(scan, "_announced", set())
    return monkeypatch.setenv


@pytest.mark.parametrize("content", [None, b"", b"no library"], ids=["missing", "empty", "broken"])
def test_without_the_library_auto_says_so_once_and_native_is_an_error(tmp_path, find_again, caplog, content):
    path = tmp_path / "libskiprnn.so"
    if content is not None:
        path.write_bytes(content)
    find_again("SKIPRNN_NATIVE_LIBRARY", str(path))
    problem = Problem("gru", dtype=torch.float32)
    with caplog.at_level(logging.INFO, logger="skiprnn_plugin.ops.scan"):
        for _ in range(2):
            assert_equal(problem.run("auto"), problem.run("indexed"))
    (message,) = caplog.messages
    assert message.startswith(f"engine auto: chose indexed; native cannot use {path} (SKIPRNN_NATIVE_LIBRARY)")
    with pytest.raises(
        ValueError, match=r"^engine: 'native' cannot use .*; expected auto or one of indexed, reference"
    ):
        problem.run("native")


def test_a_library_that_was_not_built_is_named_with_what_to_do(find_again, monkeypatch, caplog):
    monkeypatch.delenv("SKIPRNN_NATIVE_LIBRARY", raising=False)
    monkeypatch.setattr(library, "FILES", ())
    problem = Problem("gru", dtype=torch.float32)
    with caplog.at_level(logging.INFO, logger="skiprnn_plugin.ops.scan"):
        problem.run("auto")
    assert caplog.messages == [f"engine auto: chose indexed; native {library.NOT_BUILT}"]
    with pytest.raises(ValueError, match="^engine: 'native' needs its library, which is not built: install .*compiler"):
        problem.run("native")


@native
def test_a_library_with_another_interface_is_not_used(engine, find_again, monkeypatch):
    monkeypatch.setattr(library, "ABI", 999)
    with pytest.raises(ValueError, match=r"^engine: 'native' cannot use .*: interface \d+, expected 999; "):
        Problem("gru", dtype=torch.float32).run(engine)


@native
@pytest.mark.parametrize("engine_name", ["native", "auto"])
def test_an_unknown_instruction_set_in_the_environment_is_an_error(engine, engine_name, find_again):
    find_again("SKIPRNN_LEVEL", "mmx")
    with pytest.raises(ValueError, match="^SKIPRNN_LEVEL: unknown instruction set 'mmx'; expected one of .*baseline"):
        Problem("gru", dtype=torch.float32).run(engine_name)


@native
def test_the_environment_names_the_instruction_set(engine):
    code = """
import sys, torch, skiprnn_plugin.ops
from skiprnn_plugin.ops.native import library
assert library._found is None and "torch._dynamo" not in sys.modules
print(library.level())
"""
    for name in library.levels():
        process = run(sys.executable, "-c", code, cwd=ROOT, SKIPRNN_LEVEL=name)
        assert process.stdout.strip() == name, process.stderr


@native
def test_the_library_says_when_memory_runs_out(engine, monkeypatch):
    for fault, text in native_engine.FAULTS.items():
        with pytest.raises(RuntimeError, match=f"^engine 'native': {text}"):
            native_engine._check(fault)
    assert native_engine._check(0) is None


@native
def test_packing_tells_whether_anything_changed(engine):
    rnn = SkipGRU(3, 5)
    weights = [each.detach() for each in rnn._weights("")[0][:4]]
    packed = packing.pack((1, 1, 3, 5), weights, library.FORWARD)
    array = (c_void_p * 4)(*(each.data_ptr() for each in weights))
    again = (packed.struct, array, library.FORWARD, 1, packed.address, packed.known)
    assert library.load().skiprnn_pack(*again) == 0
    weights[1][0, 0] += 1
    assert library.load().skiprnn_pack(*again) == 1
    assert packing.pack((1, 1, 3, 5), weights, library.FORWARD) is packed
