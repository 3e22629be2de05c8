"""The ``indexed`` engine: by update, not by time step, in plain torch, with a backward of its own.

The algorithm is in :mod:`.by_update` and :mod:`.by_update_backward`.
"""

from contextlib import nullcontext
from typing import Optional

import torch
from torch import Tensor

from .cells import CELLS
from .indexed_autograd import Options, Scan
from .indexed_op import scan_op
from .types import SkipState


def scan(x, weights, state, gate, *, cell, real, schedule, threshold, dropout_mask, last_only):
    """As :func:`skiprnn_plugin.ops.reference.scan`."""
    if real is None:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    constant = isinstance(threshold, float)
    name = next(name for name, each in CELLS.items() if each is cell)
    layers = [] if gate is None else [layer % len(weights) for layer in gate.layers]
    options = Options(
        name, real, schedule, None if constant else threshold, threshold if constant else 0.5, layers, last_only
    )
    weights = [each for w in weights for each in w[:4]]
    autocast = torch.is_autocast_enabled(x.device.type)
    if autocast:  # as torch.nn's recurrent modules do: all in the lower precision, here but for the gate
        dtype = torch.get_autocast_dtype(x.device.type)
        x, h, c, dropout_mask, *weights = (_lower(each, dtype) for each in (x, *state[:2], dropout_mask, *weights))
        state = state._replace(h=h, c=c)
    tensors = (x, *state, *((None, None) if gate is None else gate[:2]), dropout_mask)
    keep = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (*tensors, *weights))
    with torch.autocast(x.device.type, enabled=False) if autocast else nullcontext():
        if torch.compiler.is_compiling():
            results = scan_op(*tensors, weights, *options, keep)[:6]
            c = results[2] if cell.has_c else None
            return results[0], SkipState(results[1], c, *results[3:5]), results[5]
        output, h, c, p, acc, updates = Scan.apply(options, keep, *tensors, *weights)
    return output, SkipState(h, c, p, acc), updates


def _lower(tensor: Optional[Tensor], dtype: torch.dtype) -> Optional[Tensor]:
    """In autocast's precision; it leaves float64 alone."""
    return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.to(dtype)
