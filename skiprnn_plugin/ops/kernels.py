"""The engines that have a backward of their own, as functions like ``reference.scan``."""

from contextlib import nullcontext
from typing import Optional

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from . import reference
from .autograd import Scan
from .cells import CELLS
from .custom_op import scan_op
from .engines import ENGINES
from .types import Operands, Options, SkipState

NOTHING = nullcontext()
PLAIN = {Tensor, Parameter, type(None)}  # others may have no memory that an engine could read


def scan(engine, x, weights, state, gate, *, cell, begin, end, schedule, threshold, dropout_mask, last_only):
    """As ``reference.scan``, by the engine of that name, which has kernels. ``cell`` is a key of ``CELLS``."""
    if x.shape[0] == 0:
        options = {"cell": CELLS[cell], "begin": begin, "end": end, "schedule": schedule, "threshold": threshold}
        return reference.scan(x, weights, state, gate, **options, dropout_mask=dropout_mask, last_only=last_only)
    constant = isinstance(threshold, float)
    layers = () if gate is None else gate.layers
    noise, threshold = (None, threshold) if constant else (threshold, 0.5)
    options = Options(cell, begin, end, schedule, noise, threshold, layers, last_only)
    weights = [each for w in weights for each in w[:4]]
    autocast = torch.is_autocast_enabled(x.device.type)
    if autocast:  # as torch.nn's recurrent modules do: all in the lower precision, here but for the gate
        dtype = torch.get_autocast_dtype(x.device.type)
        x, h, c, dropout_mask, *weights = (_lower(each, dtype) for each in (x, *state[:2], dropout_mask, *weights))
        state = state._replace(h=h, c=c)
    tensors = (x, *state, *((None, None) if gate is None else gate[:2]), dropout_mask, *options[1:5], *weights)
    # those who look at operations, or put others in place of tensors, as tracing does, see a registered one
    seen = torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or not PLAIN.issuperset(map(type, tensors))
    if seen or not ENGINES[engine].kernels.accepts_none:
        state = state.filled()
    operands = Operands(x, *state, *((None, None) if gate is None else gate[:2]), dropout_mask)
    keep = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (*operands, *weights))
    with torch.autocast(x.device.type, enabled=False) if autocast else NOTHING:
        if seen:
            output, h, c, p, acc, updates = scan_op(*operands, weights, *options, engine, keep)[:6]
            c = c if CELLS[cell].has_c else None
        elif keep:
            output, h, c, p, acc, updates = Scan.apply(engine, options, keep, *operands, *weights)
        else:
            output, h, c, p, acc, updates = ENGINES[engine].kernels.forward(operands, weights, options, keep)[0]
    return output, SkipState(h, c, p, acc), updates


def _lower(tensor: Optional[Tensor], dtype: torch.dtype) -> Optional[Tensor]:
    """In autocast's precision; it leaves float64 alone."""
    return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.to(dtype)
