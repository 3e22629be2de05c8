"""What torch may do to a call that an engine with a backward of its own cannot follow. Asks torch's private names."""

from typing import Optional

import torch
from torch.autograd import forward_ad


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
