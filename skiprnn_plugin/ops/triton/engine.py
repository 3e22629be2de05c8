"""The functions that the engine's row of :data:`skiprnn_plugin.ops.engines.ENGINES` names. This module imports triton
only when one of them runs."""

import importlib.util
from typing import Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..types import Operands, Options, Results
from .call import Records, describe

CELLS = ("lstm", "gru", "gru_reset_before", "rnn")
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

    with torch.cuda.device(operands.x.device) if operands.x.is_cuda else torch.no_grad():
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
    device = operands.x.device
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        with torch.cuda.device(device) if device.type == "cuda" else torch.no_grad():
            return run(call, Records(*saved), updates, gradients, need_dx)


def fake_saved(operands: Operands, options: Options, new_size: Callable) -> List[Tensor]:
    """Tensors like those that ``forward`` keeps; ``new_size`` makes a size that the data decides."""
    capacity, batch = new_size(), operands.x.shape[0]
    call = describe(operands, (), options)
    h, p = operands.h, operands.p
    return list(
        Records(
            states=h.new_empty(capacity, batch, call.num_states, call.width),
            p=p.new_empty(capacity, batch),
            acc=p.new_empty(capacity, batch),
            times=p.new_empty(capacity, batch, dtype=torch.int32),
            counts=p.new_empty(batch, dtype=torch.int32),
        )
    )
