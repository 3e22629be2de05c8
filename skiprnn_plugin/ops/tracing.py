"""What torch may do to a call instead of simply computing it: trace, compile, transform. Asks torch's private names,
which are in this file alone."""

from typing import Callable, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

PLAIN = {Tensor, Parameter, type(None)}  # a subclass may have no memory that an engine could read


def refuse_transforms() -> Optional[str]:
    """Why no engine with a backward of its own can run now; None if they can."""
    if torch.compiler.is_compiling():
        return None
    if torch.jit.is_tracing():
        return "can't be traced by torch.jit"
    if torch._C._are_functorch_transforms_active():
        return "knows none of the transforms of torch.func"
    if forward_ad._current_level >= 0:
        return "has no forward-mode derivatives"
    return None


def needs_registered_op(tensors: Sequence[Optional[Tensor]]) -> bool:
    """Whether the call must be one operation that torch knows by name, as someone looks at operations, or puts other
    objects in place of tensors."""
    return torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or not PLAIN.issuperset(map(type, tensors))


def constant_in_compiled_code(function: Callable) -> Callable:
    """Have torch.compile call ``function`` while it traces, and take the result for good. This is what
    torch.compiler.assume_constant_result does, which imports the compiler and so takes seconds."""
    function._dynamo_marked_constant = True
    return function
