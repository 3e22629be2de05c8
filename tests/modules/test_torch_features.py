"""Features of torch that work with the modules: hooks, autocast, other parameters, checkpointing, compilation."""

import sys

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipState
from skiprnn_plugin.ops import ENGINES

from ..command_line import ROOT, run
from ..compare import assert_close, assert_equal
from ..ops.problems import engine_param, for_engines
from .builders import MODULES, build, every_module, sequences

LENGTHS = [3, 10, 0, 7]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def loss(output, state, updates):
    return output.square().sum() + updates.sum() + sum(value.sum() for value in state if value is not None)


def gradients(rnn, results):
    values = torch.autograd.grad(loss(*results), list(rnn.parameters()))
    return {name: value for (name, _), value in zip(rnn.named_parameters(), values)}


@every_module
def test_forward_hooks_see_arguments_and_results(module):
    rnn, x, seen = build(module), sequences(), []
    expected = rnn(x, lengths=LENGTHS)
    rnn.register_forward_pre_hook(lambda rnn, args, kwargs: seen.append((args, kwargs)), with_kwargs=True)
    rnn.register_forward_hook(lambda rnn, args, result: seen.append(result))
    results = rnn(x, lengths=LENGTHS)
    (args, kwargs), hooked = seen
    assert args == (x,) and kwargs == {"lengths": LENGTHS}
    assert hooked is results and isinstance(hooked[1], SkipState)
    assert_equal(results, expected)
    assert [value.shape for value in (hooked[0], hooked[2])] == [(4, 10, 5), (4, 10)]


@every_module
def test_forward_hooks_may_replace_arguments_and_results(module):
    rnn, x = build(module), sequences()
    expected = rnn(2 * x)
    rnn.register_forward_pre_hook(lambda rnn, args: (2 * args[0],))
    rnn.register_forward_hook(lambda rnn, args, result: (result[0] + 1, *result[1:]))
    output, *rest = rnn(x)
    assert_equal(output, expected[0] + 1)
    assert_equal(rest, list(expected[1:]))


@every_module
def test_backward_hooks_see_the_gradients_of_output_and_updates(module):
    rnn, x, seen = build(module), sequences().requires_grad_(), []
    expected = torch.autograd.grad(loss(*rnn(x)), [x, *rnn.parameters()])
    rnn.register_full_backward_pre_hook(lambda rnn, grad_output: seen.append(grad_output))
    rnn.register_full_backward_hook(lambda rnn, grad_input, grad_output: seen.append((grad_input, grad_output)))
    output, state, updates = rnn(x)
    got = torch.autograd.grad(loss(output, state, updates), [x, *rnn.parameters()])
    for gradient, value in zip(got, expected):
        assert_close(gradient, value, "gradient")
    before, (grad_input, grad_output) = seen
    assert_equal(before, grad_output)
    assert_equal(grad_output[0], 2 * output.detach())
    assert grad_output[1] is None  # the state: torch's hooks take tensors, but do not look into tuples
    assert_equal(grad_output[2], torch.ones(4, 10, dtype=torch.float64))
    assert_close(grad_input[0], got[0], "gradient of x")


@every_module
@pytest.mark.parametrize("options", [{}, {"zoneout": 0.2, "recurrent_dropout": 0.2, "dropout": 0.2}], ids=["", "masks"])
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "norm"])
def test_autocast(module, options, layer_norm):
    rnn = build(module, bidirectional=True, layer_norm=layer_norm, **options).float()
    x, schedule = sequences(steps=4).float(), torch.rand(2, 4, 4) < 0.6
    results = []
    for enabled in (True, False):
        torch.manual_seed(1)
        with torch.autocast(x.device.type, torch.bfloat16, enabled):
            results.append(rnn(x, lengths=[3, 4, 0, 2], schedule=schedule))
    (_, state, updates), _ = results
    assert state.p.dtype == state.acc.dtype == updates.dtype == torch.float32
    assert not torch.equal(results[0][0], results[1][0]), "autocast changed nothing"
    got, expected = (gradients(rnn, result) for result in results)  # outside of autocast
    for name, value in expected.items():
        assert got[name].dtype == torch.float32
        assert torch.cosine_similarity(got[name].flatten(), value.flatten(), 0) > 0.98, f"gradient of {name}"


@every_module
def test_autocast_with_a_learned_gate_and_a_carried_state(module):
    rnn, x = build(module, zoneout=0.2).float(), sequences().float()
    with torch.autocast(x.device.type, torch.bfloat16):
        _, state, _ = rnn(x)
        results = rnn(x.bfloat16(), state)
    assert results[1].p.dtype == results[1].acc.dtype == results[2].dtype == torch.float32
    assert 0 < results[2].mean() < 1
    assert not torch.equal(results[1].p, results[1].p.bfloat16().float()), "p was computed in bfloat16"
    for name, value in gradients(rnn, results).items():
        assert value.dtype == torch.float32 and value.isfinite().all(), name
        assert value.any(), name


@every_module
def test_functional_call(module):
    rnn, other, x = build(module), build(module), sequences()
    parameters = {name: value.detach().requires_grad_() for name, value in other.named_parameters()}
    results, expected = torch.func.functional_call(rnn, parameters, (x,), {"lengths": LENGTHS}), other(x, None, LENGTHS)
    assert_equal(results, expected)
    got = torch.autograd.grad(loss(*results), list(parameters.values()))
    for value, (name, gradient) in zip(got, gradients(other, expected).items()):
        assert_equal(value, gradient, name)
    assert all(parameter.grad is None for parameter in rnn.parameters())


@every_module
def test_weight_norm(module):
    rnn, x = build(module), sequences()
    plain = {name: value.detach().clone() for name, value in rnn.named_parameters()}
    nn.utils.parametrizations.weight_norm(rnn, "weight_hh_l0")
    magnitude, direction = (getattr(rnn.parametrizations.weight_hh_l0, f"original{index}") for index in (0, 1))
    with torch.no_grad():
        magnitude *= 2
    results = rnn(x)
    weight = (magnitude * direction / direction.norm(dim=1, keepdim=True)).detach().requires_grad_()
    assert_close(weight, 2 * plain["weight_hh_l0"])
    expected = torch.func.functional_call(build(module), {**plain, "weight_hh_l0": weight}, (x,))
    assert_close(results[0], expected[0], "output")
    assert_equal(results[2], expected[2], "updates")
    got = torch.autograd.grad(loss(*results), [magnitude, direction])
    dw = torch.autograd.grad(loss(*expected), weight)[0]
    unit = direction / direction.norm(dim=1, keepdim=True)
    along = (dw * unit).sum(1, keepdim=True)
    assert_close(got[0], along, "gradient of the magnitude")
    assert_close(got[1], magnitude / direction.norm(dim=1, keepdim=True) * (dw - along * unit), "of the direction")
    nn.utils.parametrize.remove_parametrizations(rnn, "weight_hh_l0")
    assert_close(rnn(x)[0], results[0], "output without the parametrization")


@every_module
@pytest.mark.parametrize("reentrant", [False, True], ids=["no-reentrant", "reentrant"])
def test_checkpointing(module, reentrant):
    rnn = build(module, dropout=0.3, zoneout=0.3, recurrent_dropout=0.3, binarize="bernoulli")
    x, results = sequences().requires_grad_(), []
    for call in (rnn, lambda x: checkpoint(rnn, x, use_reentrant=reentrant)):
        torch.manual_seed(1)
        rnn.zero_grad()
        x.grad = None
        output, state, updates = call(x)
        # with use_reentrant torch passes no gradient through tensors in a tuple, such as the state
        (output.square().sum() + updates.sum() if reentrant else loss(output, state, updates)).backward()
        results.append((output, updates, x.grad, [parameter.grad for parameter in rnn.parameters()]))
    assert_equal(results[1], results[0])


@pytest.mark.parametrize("engine", [engine_param("indexed"), engine_param("native", thorough=True)])
def test_compiled_it_follows_a_threshold_and_checks_lengths(engine):
    rnn, x = SkipLSTM(3, 5, update_bias=-0.5, engine=engine), torch.randn(3, 6, 3)
    torch.compiler.reset()
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for rnn.threshold in (0.5, 0.9, 0.2):
            assert_equal(compiled(x)[2], rnn(x)[2], f"updates at threshold {rnn.threshold}")
        for wrong in ([6, 7, 3], [-3, 2, 2]):
            with pytest.raises(ValueError, match="^lengths: expected .*6 steps of x"):
                compiled(x, lengths=torch.tensor(wrong))


def test_compiled_with_a_carried_state_of_any_layout():
    rnn, x = SkipLSTM(3, 5, 2, engine="indexed").double(), torch.randn(3, 4, 3).double()
    state = SkipState(*(torch.randn(3, 2, 5).double().transpose(0, 1) for _ in range(2)))
    torch.compiler.reset()
    got, expected = torch.compile(rnn, backend="aot_eager", fullgraph=True)(x, state), rnn(x, state)
    strides = [[value.stride() for value in result[1][:2]] for result in (got, expected)]
    assert strides == [[(15, 5, 1)] * 2] * 2
    assert_close(got[0], expected[0], "output")


@pytest.mark.parametrize("given", ["gate", "lengths and schedule", "no gate"])
def test_compiled_without_a_graph_break(given):
    rnn, x = SkipLSTM(3, 5, update_bias=-0.5, gate=given != "no gate"), torch.randn(2, 3, 3)
    schedule = {"lengths": torch.tensor([2, 3]), "schedule": torch.tensor([[0, 1, 1], [1, 1, 0]])}
    options = schedule if given == "lengths and schedule" else {}
    torch.compiler.reset()
    results, expected = torch.compile(rnn, backend="aot_eager", fullgraph=True)(x, **options), rnn(x, **options)
    assert_close(results[0], expected[0], "output")
    assert_equal(results[2], expected[2], "updates")
    got = gradients(rnn, results)
    for name, value in gradients(rnn, expected).items():
        assert_close(got[name], value, f"gradient of {name}")


@for_engines(set(ENGINES) - {"int8"})
@pytest.mark.parametrize("gate", [False, True], ids=["no-gate", "gate"])
def test_trains_while_a_mode_counts_operations(engine, gate):
    rnn, x = SkipLSTM(3, 5, gate=gate, engine=engine), torch.randn(2, 3, 3)
    with FlopCounterMode(display=False):
        counted = gradients(rnn, rnn(x))
    for name, value in gradients(rnn, rnn(x)).items():
        assert_close(counted[name], value, f"gradient of {name}")


@pytest.mark.parametrize("transform", ["grad", pytest.param("vmap", marks=pytest.mark.thorough)])
def test_compiled_transforms_of_an_auto_module(transform):
    rnn, x = SkipLSTM(3, 4, update_bias=-0.5), torch.randn(2, 2, 6, 3)
    parameters = {name: parameter.detach() for name, parameter in rnn.named_parameters()}

    def total(parameters, x):
        return torch.func.functional_call(rnn, parameters, (x,))[0].square().sum()

    if transform == "grad":
        function, arguments = torch.func.grad(total), (parameters, x[0])
    else:
        function, arguments = torch.func.vmap(total, (None, 0)), (parameters, x)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(function, backend="aot_eager")(*arguments), function(*arguments))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("no_grad", [False, True], ids=["grad", "no-grad"])
@every_module
def test_traced_in_another_module(module, no_grad):
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = build(module)

        def forward(self, x):
            return self.rnn(x, self.rnn.initial_state(len(x)))[0][:, -1]

    classifier, x = Classifier().eval(), sequences()
    with torch.set_grad_enabled(not no_grad):
        traced = torch.jit.trace(classifier, x)
    assert_close(traced(2 * x), classifier(2 * x))


@pytest.mark.parametrize("limits", [{}, {"max_skip": 3}, {"min_skip": 1}], ids=str)
@pytest.mark.parametrize("engine", ["auto", "indexed"])
@every_module
def test_autocasts_state_continues(module, engine, limits):
    """Its state is in half precision, the weights of a stream are not."""
    rnn, x = build(module, engine=engine, **limits).float().eval(), sequences().float()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        _, state, _ = rnn(x)
        rnn(x, state)
        stream = rnn.stream(4)
        stream.reset(state=state)
        assert stream.state.h.dtype == torch.float32
        assert_equal(stream.state.h, state.h.float())
        assert_equal(rnn.stream(4, state).state.h, state.h.float())


def test_compiled_without_fullgraph_the_documented_switch_leaves_one_graph():
    rnn, x = SkipLSTM(3, 5, update_bias=-0.5), torch.randn(2, 3, 3)
    torch.compiler.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        explained = torch._dynamo.explain(rnn)(x)
    assert explained.graph_break_count == 0, explained


@for_engines(ENGINES)
@pytest.mark.parametrize("way", ["carried state", "schedule"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_every_parameter_has_a_gradient_however_the_module_is_called(engine, way, bidirectional):
    rnn, x = SkipLSTM(3, 5, engine=engine, bidirectional=bidirectional), torch.randn(4, 6, 3)
    lead = (2,) if bidirectional else ()
    given = {"state": rnn(x)[1].detach()} if way == "carried state" else {"schedule": torch.ones(*lead, 4, 6)}
    plain = rnn(x, **given)
    plain[0].sum().backward()
    unused = "initial_" if way == "carried state" else "update_"
    for name, parameter in rnn.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()) == (not name.startswith(unused)), name
    with torch.no_grad():  # whatever the unused parameters hold
        for name, parameter in rnn.named_parameters():
            if name.startswith("initial_") and way == "carried state":
                parameter.fill_(float("nan"))
    assert_equal(rnn(x, **given)[0], plain[0])


@pytest.fixture
def process_group(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@for_engines(ENGINES)
def test_distributed_data_parallel_trains_with_a_carried_state(process_group, engine):
    rnn = SkipLSTM(3, 5, engine=engine)
    parallel, state = nn.parallel.DistributedDataParallel(rnn), None
    for _ in range(3):
        output, state, _ = parallel(torch.randn(4, 6, 3), state)
        state = state.detach()
        output.sum().backward()
        assert all(parameter.grad is not None for parameter in rnn.parameters())


class Classifier(nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn, self.head = rnn, nn.Linear(5, 2)

    def forward(self, x, lengths):
        output, state, updates = self.rnn(x, lengths=lengths, last_only=True)
        return self.head(output), state[0], updates.sum(1)


@every_module
def test_symbolic_tracing_takes_it_for_one_operation(module):
    model = Classifier(module(3, 5))
    traced = torch.fx.symbolic_trace(model)
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == ["rnn", "head"]
    x, lengths = torch.randn(3, 6, 3), torch.tensor([6, 2, 4])
    assert_equal(list(traced(x, lengths)), list(model(x, lengths)))


@every_module
def test_skip_init(module):
    cls, options = (SkipGRU, {"reset_after": False}) if module is MODULES["gru-before"] else (module, {})
    rnn = nn.utils.skip_init(cls, 3, 5, **options)
    assert {str(parameter.device) for parameter in rnn.parameters()} == {"cpu"}
    rnn.reset_parameters()
    assert rnn(torch.randn(2, 4, 3))[0].isfinite().all()


@pytest.mark.parametrize("where", ["meta", pytest.param("fake", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "module, options",
    [
        (SkipLSTM, {"num_layers": 2, "bidirectional": True, "dropout": 0.1, "zoneout": 0.1}),
        (SkipGRU, {"binarize": "bernoulli"}),
        *((SkipLSTM, {"engine": engine}) for engine in ENGINES),
    ],
    ids=["masks", "bernoulli", *ENGINES],
)
def test_without_values_it_gives_shapes(module, options, where):
    sizes = [7, 0, 3, 1]
    rnn, x = module(3, 5, **options), torch.empty(4, 7, 3)
    expected = [describe(results(rnn, x, torch.tensor(sizes), last_only)) for last_only in (False, True)]
    with FakeTensorMode() if where == "fake" else torch.device("meta"):
        rnn, x = module(3, 5, **options), torch.empty(4, 7, 3)
        got = [describe(results(rnn, x, torch.tensor(sizes), last_only)) for last_only in (False, True)]
    assert got == expected


def results(rnn, x, lengths, last_only):
    """What ``rnn`` returns, and the gradients of its parameters."""
    output, state, updates = rnn(x, lengths=lengths, last_only=last_only)
    (output.sum() + updates.sum() + state.p.sum()).backward()
    return [output, updates, *state, *(parameter.grad for parameter in rnn.parameters())]


def describe(tensors):
    return [None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors]


LOAD = """
import sys, torch
import skiprnn_plugin.ops
program = torch.export.load(sys.argv[1]).module()
inputs = torch.load(sys.argv[2])
torch.save([program(*arguments) for arguments in inputs], sys.argv[3])
"""


@pytest.mark.parametrize("module", ["gru", "lstm"])
def test_a_saved_program_of_torch_export(tmp_path, module):
    """Another process loads it. It takes a state, and other sizes than the example's."""
    rnn, dynamic = build(MODULES[module]).eval(), torch.export.Dim.DYNAMIC
    inputs = [(x, rnn(x)[1]) for x in (sequences(2, 7), sequences(5, 11), sequences(1, 1))]
    # B is dimension 1 of [L, B, H] and 0 of [B]
    state_sizes = [None if value is None else {value.dim() // 2: dynamic} for value in inputs[0][1]]
    sizes = {"x": {0: dynamic, 1: dynamic}, "state": SkipState(*state_sizes)}
    with torch.no_grad():
        torch.export.save(torch.export.export(rnn, inputs[0], dynamic_shapes=sizes), tmp_path / "rnn.pt2")
        torch.save(inputs, tmp_path / "inputs.pt")
        files = (tmp_path / name for name in ("rnn.pt2", "inputs.pt", "results.pt"))
        process = run(sys.executable, "-c", LOAD, *files, cwd=ROOT)
        assert process.returncode == 0, process.stderr
        for arguments, results in zip(inputs, torch.load(tmp_path / "results.pt")):
            assert_equal(results, rnn(*arguments))
