"""The functions that the engine's row of :data:`skiprnn_plugin.ops.engines.ENGINES` names. This module imports triton
only when one of them runs."""

import importlib.util
from contextlib import nullcontext
from typing import Callable, ContextManager, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..types import Operands, Options, Results
from .call import KERNEL_CELLS, Records, describe

CELLS = tuple(KERNEL_CELLS)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def missing() -> Optional[str]:
    """Why triton cannot be used; None if it can."""
    if importlib.util.find_spec("triton") is None:
        return "needs triton, which is not installed"
    if torch.version.hip is not None:
        return "is for NVIDIA's GPUs"
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0):
        return "needs a GPU of compute capability 8.0 or later"
    return None


def forward(
    operands: Operands, weights: Sequence[Tensor], options: Options, keep: bool
) -> Tuple[Results, List[Tensor]]:
    """The results; and, if it is to ``keep`` what the backward needs, the fields of :class:`.call.Records`."""
    from .forward import forward as run

    with _device_of(operands.x):
        results, records = run(describe(operands, weights, options), keep)
    return results, list(records) if keep else []


def backward(
    operands: Operands,
    weights: Sequence[Tensor],
    options: Options,
    saved: Sequence[Tensor],
    updates: Tensor,
    gradients: Results,
    need_dx: bool,
) -> Tuple[Operands, List[Tensor]]:
    """The gradients of the operands and of the weights, from those of the results."""
    from .backward import backward as run

    call = describe(operands, weights, options)
    with torch.no_grad(), torch.autocast(operands.x.device.type, enabled=False), _device_of(operands.x):
        return run(call, Records(*saved), updates, gradients, need_dx)


def fake_saved(operands: Operands, options: Options, new_size: Callable) -> List[Tensor]:
    """Tensors like those that ``forward`` keeps; ``new_size`` makes a size that the data decides."""
    return list(Records.empty(describe(operands, (), options), new_size() - 1))


def _device_of(x: Tensor) -> ContextManager:
    """Makes the device of ``x`` the current one, on which triton launches."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
