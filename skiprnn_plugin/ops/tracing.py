"""What torch may do to a call instead of simply computing it: trace, compile, transform. Asks torch's private names,
which are in this file alone."""

import sys
from typing import Callable, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx import Proxy
from torch.nn import Module, Parameter
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

TRANSFORMED = "knows none of the transforms of torch.func"
PLAIN = {Tensor, Parameter, type(None)}  # a subclass may have no memory that an engine could read


def refuse_transforms() -> Optional[str]:
    """Why no engine with a backward of its own can run now; None if they can."""
    if torch.compiler.is_compiling():
        return TRANSFORMED if _is_transformed() else None
    if torch.jit.is_tracing():
        return "can't be traced by torch.jit"
    if _is_transformed():
        return TRANSFORMED
    if forward_ad._current_level >= 0:
        return "has no forward-mode derivatives"
    return None


def needs_registered_op(tensors: Sequence[Optional[Tensor]]) -> bool:
    """Whether the call must be one operation that torch knows by name, as someone looks at operations, or puts other
    objects in place of tensors."""
    return torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or not PLAIN.issuperset(map(type, tensors))


def constant_in_compiled_code(function: Callable) -> Callable:
    """Have torch.compile call ``function`` while it traces, and treat the result as a constant. This is what
    torch.compiler.assume_constant_result does, which imports the compiler and so takes seconds."""
    function._dynamo_marked_constant = True
    return function


@constant_in_compiled_code
def _is_transformed() -> bool:
    """Whether a transform of torch.func is at work. torch.compile compiles again where that changes."""
    return torch._C._are_functorch_transforms_active()


def never_compiled(function: Callable) -> Callable:
    """Have torch.compile leave calls of ``function`` out, where it would compile again for every new number that the
    function depends on. This is what torch.compiler.disable does, which imports the compiler and so takes seconds."""
    function._torchdynamo_disable = True
    return function


def is_batched(*tensors: Optional[Tensor]) -> bool:
    """Whether any of the tensors is a batch of tensors, as inside of vmap."""
    functorch, transformed = torch._C._functorch, torch._C._are_functorch_transforms_active()
    for tensor in tensors:
        if tensor is None:
            continue
        if transformed:
            while functorch.is_functorch_wrapped_tensor(tensor) and not functorch.is_batchedtensor(tensor):
                tensor = functorch.get_unwrapped(tensor)
            if functorch.is_batchedtensor(tensor):
                return True
        if functorch.is_legacy_batchedtensor(tensor):
            return True
    return False


def has_values(tensor: Tensor) -> bool:
    """Whether Python may look at the tensor's values. While a CUDA graph is captured there are none yet."""
    if torch.compiler.is_compiling() or has_only_shape(tensor) or is_batched(tensor):
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def has_only_shape(tensor: Tensor) -> bool:
    """Whether the tensor is on the meta device, or a fake one of a mode that has no sizes which depend on data, as
    compilers and tracers have."""
    if torch.compiler.is_compiling():
        return False
    if tensor.is_meta:
        return True
    if type(tensor) in PLAIN:
        return False
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    return fake is not None and isinstance(tensor, fake.FakeTensor) and tensor.fake_mode.shape_env is None


def is_autocast_enabled(device: str) -> bool:
    """As torch's function of that name, which raises an error for the meta device."""
    return device != "meta" and torch.is_autocast_enabled(device)


def refuse_unrolling(engine: str, steps: int) -> None:
    """Raise a ValueError if torch.export would unroll a loop over a number of steps that it was told to keep variable:
    it may not say so, and the program would then read that many steps, whatever it is given. With ``strict=True`` the
    number looks like any other, so that the loop is refused there."""
    if torch.compiler.is_exporting() and (torch.compiler.is_dynamo_compiling() or not isinstance(steps, int)):
        raise ValueError(
            f"engine: {engine!r} would fix the number of steps at that of the example in an exported program; expected "
            "auto without layer norm, native or indexed; or strict=False, and no dynamic dimension of the steps"
        )


def record_module(module: Module, proxy: Proxy, *arguments) -> Proxy:
    """The call of a module as one node of a graph, as ``torch.fx.symbolic_trace`` records those of torch.nn's modules;
    ``proxy`` is torch.fx's stand-in for the first argument."""
    return proxy.tracer.create_proxy("call_module", proxy.tracer.path_of_module(module), (proxy, *arguments), {})
