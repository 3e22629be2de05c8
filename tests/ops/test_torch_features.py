"""What torch does to and around functions of tensors: transforms, tracing, tensors that are not plain ones."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from ..compare import assert_close, assert_equal, assert_gradients_close
from .problems import Problem, dtype_of, every_engine, every_other, uniform_noise


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@every_other
@pytest.mark.parametrize("how", ["torch.func", "forward mode", "torch.jit"])
def test_what_only_the_reference_can_auto_leaves_to_it(engine, how):
    problem = Problem("gru", dtype=dtype_of(engine))
    tensors = {name: tensor.detach() for name, tensor in problem.tensors.items()}
    x = tensors["x"]

    def derive(name):
        def total(x):
            output, _, updates = problem.run(name, tensors, x=x)
            return output.sum() + updates.sum()

        if how == "torch.func":
            return torch.func.grad(total)(x)
        if how == "forward mode":
            return torch.func.jvp(total, (x,), (torch.ones_like(x),))[1]
        with torch.no_grad():
            return torch.jit.trace(total, (x,))(2 * x)

    with pytest.raises(ValueError, match=f"^engine: '{engine}' (knows none|can't be traced).*reference"):
        derive(engine)
    assert_close(derive("auto"), derive("reference"))


class Wrapped(torch.Tensor):
    """A tensor whose values stand in another one, as a quantised or a distributed one's do; it has no memory."""

    @staticmethod
    def __new__(cls, inner):
        options = {"dtype": inner.dtype, "device": inner.device, "strides": inner.stride()}
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, **options)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        unwrapped = tree_map(lambda value: value.inner if isinstance(value, Wrapped) else value, (args, kwargs or {}))
        return function(*unwrapped[0], **unwrapped[1])


@every_other
@pytest.mark.parametrize("name", ["x", "h", "weight_hh_l1", "update_weight", "noise", "dropout_mask"])
def test_tensors_without_memory_of_their_own(engine, name):
    problem = Problem("gru", dtype=dtype_of(engine))
    options = {"noise": uniform_noise(4, 8), "dropout_mask": torch.full((1, 4, 5), 2.0, dtype=dtype_of(engine))}
    with torch.no_grad():
        expected = problem.run(engine, **options)
        tensors, given = ({**values} for values in (problem.tensors, options))
        where = given if name in given else tensors
        where[name] = Wrapped(where[name].detach())
        assert_equal(problem.run(engine, tensors, **given), expected)


@every_other
@pytest.mark.parametrize("inputs", [1, 3])
def test_a_minus_sign_that_torch_keeps_apart(engine, inputs):
    dtype = dtype_of(engine)
    problem = Problem("lstm", inputs=inputs, dtype=dtype)
    values = {name: problem.tensors[name].detach() for name in ("x", "h")}
    apart = {name: torch.complex(value, -value).conj().imag for name, value in values.items()}
    assert all(tensor.is_neg() for tensor in apart.values())
    assert_equal(problem.run(engine, {**problem.tensors, **apart}), problem.run(engine))


@every_other
@pytest.mark.parametrize("how", ["jacobian", "is_grads_batched"])
def test_batched_gradients_get_one_clear_error(engine, how):
    problem = Problem("gru", dtype=dtype_of(engine))
    tensors = {name: tensor.detach() for name, tensor in problem.tensors.items()}

    def derive(name):
        def output(x):
            return problem.run(name, tensors, x=x)[0]

        if how == "jacobian":
            return torch.autograd.functional.jacobian(output, tensors["x"], vectorize=True)
        x = tensors["x"].clone().requires_grad_()
        y = output(x)
        return torch.autograd.grad(y, x, torch.eye(y.numel(), dtype=y.dtype).view(-1, *y.shape), is_grads_batched=True)

    message = f"^engine '{engine}': takes no batched gradients.*expected engine='reference'"
    for name in (engine, "auto") if engine == "native" else (engine,):
        with pytest.raises(RuntimeError, match=message):
            derive(name)
    derive("reference")


@pytest.mark.parametrize("option", ["lengths", "schedule", "offsets"])
def test_gradients_of_each_sequence_by_vmap(option):
    problem = Problem("gru")
    tensors = {name: tensor.detach() for name, tensor in problem.tensors.items()}
    weight, x = tensors["weight_hh_l1"], tensors["x"]
    values = {
        "lengths": torch.tensor([3, 8, 0, 5]),
        "offsets": torch.tensor([0, 3, 8, 1]),
        "schedule": torch.arange(32).view(4, 8) % 3 // 2,
    }[option]

    def total(weight, x, value):
        states = {name: tensors[name][:, :1] for name in ("h", "c") if name in tensors}
        gates = {name: tensors[name][:1] for name in ("p", "acc") if name in tensors}
        one = {**tensors, **states, **gates, "x": x[None], "weight_hh_l1": weight}
        return problem.run("auto", one, **{option: value[None]})[0].square().sum()

    together = torch.func.vmap(torch.func.grad(total), in_dims=(None, 0, 0))(weight, x, values)
    alone = [torch.func.grad(total)(weight, sequence, value) for sequence, value in zip(x, values)]
    assert_close(together, torch.stack(alone))


class Watching(TorchDispatchMode):
    """Looks at every operation, and so has the engines run as registered ones."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@every_engine
@pytest.mark.parametrize("mode", [nullcontext, Watching])
def test_activation_checkpointing(engine, mode):
    problem = Problem("lstm", dtype=dtype_of(engine))
    expected = problem.gradients(problem.run(engine))
    with mode():
        output, state, updates = checkpoint(problem.run, engine, use_reentrant=False)
        assert_gradients_close(problem.gradients((output, state, updates)), expected)
