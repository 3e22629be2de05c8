"""The ``reference`` engine: Skip RNN step by step in plain torch. It specifies what the other engines compute.

In the paper's symbols, with S the state of all layers and u~ written v:

    v_t = acc + min(p, 1 - acc)              u_t = 1 if v_t > threshold_t else 0
    S~_t = cell(S, x_t), layer by layer      p~_t = sigmoid(w . q~_t + b)
    S <- u_t S~_t + (1 - u_t) S              p <- u_t p~_t + (1 - u_t) p              acc <- (1 - u_t) v_t

``min_skip`` and ``max_skip`` limit how many steps are skipped. With n_t the number of steps skipped since the last
update, or since the sequence began,

    u_t = 1 if n_t >= max_skip else 0 if n_t < min_skip, and there was an update, else 1 if v_t > threshold else 0

Zoneout and recurrent dropout, whose masks the caller gives, are part of S~: a skipped step copies S nevertheless.
Autograd then computes the gradients of the authors' program; it treats rounding as the identity (straight-through).
The candidate of every step is computed, even if the step is skipped, so this engine saves no time.
"""

from typing import List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .cells import CELLS, zone_out
from .clock import NEVER
from .types import Gate, LayerWeights, SkipState

FEW = 16  # steps whose gradients half precision sums well enough; autograd keeps a copy of the weights for that many


def scan(
    x: Tensor,
    weights: Sequence[LayerWeights],
    state: SkipState,
    gate: Optional[Gate],
    *,
    cell: str,
    begin: Optional[Tensor],
    end: Optional[Tensor],
    schedule: Optional[Tensor],
    noise: Optional[Tensor],
    threshold: float,
    dropout_mask: Optional[Tensor],
    last_only: bool,
    zoneout_mask: Optional[Tensor] = None,
    recurrent_dropout_mask: Optional[Tensor] = None,
    min_skip: int = 0,
    max_skip: int = NEVER,
) -> Tuple[Tensor, SkipState, Tensor]:
    """The arguments are those of :func:`skiprnn_plugin.ops.skip_scan`, checked and completed. ``begin`` is the first
    real step of every sequence (None: 0) and ``end`` the step after its last real one (None: T), int64 [B].
    ``schedule`` is bool. Without a gate there is a schedule. ``max_skip`` is ``NEVER`` for no limit; where there are
    limits, there is neither schedule nor noise. T is 1 or more."""
    cell = CELLS[cell]
    state = state.filled()
    if gate is not None and torch.is_grad_enabled():
        state = state.keep_in_graph([gate.weight, gate.bias])  # a gate beside a schedule decides nothing
    h = list(state.h.unbind(0))
    c = list(state.c.unbind(0)) if cell.has_c else [None] * len(h)
    p, acc = state.p, state.acc
    # Half precision would lose digits of what autograd sums over many steps, so the sums are in float32, like p and acc
    dtype, wide = h[0].dtype, p.dtype
    half = dtype != wide
    if half:
        h, c = _to(h, wide), _to(c, wide)
        wide_weights = [LayerWeights(*_to(w, wide)) for w in weights]
    real = real_steps(x, begin, end)
    seen = real if schedule is None else schedule if real is None else schedule & real
    schedule = schedule if schedule is None else schedule.to(p.dtype)
    if seen is not None:
        x = x.masked_fill(~seen.unsqueeze(-1), 0)  # values at padding and at steps left out, even NaN, have no effect
    limited = min_skip > 0 or max_skip < NEVER
    if limited:
        since = torch.zeros_like(p, dtype=torch.int64) if begin is None else begin  # the step after the last update
        least = torch.zeros_like(since)  # min_skip, but 0 before the first update
    outputs, updates = [], []
    for t in range(x.shape[1]):
        masks = dropout_mask, _at_step(zoneout_mask, t), _at_step(recurrent_dropout_mask, t)
        held = h, c
        if half:
            held = _to(h, dtype), _to(c, dtype)
            if t % FEW == 0:
                weights = [LayerWeights(*_to(w, dtype)) for w in wide_weights]
        v = acc + torch.where(p <= 1 - acc, p, 1 - acc)  # at a tie min's whole gradient goes to p
        if limited:
            n = t - since
            u = (((v > threshold) & (n >= least)) | (n >= max_skip)).to(p.dtype)
        elif schedule is None:
            u = binarize(v, threshold if noise is None else noise[:, t])
        else:
            u = schedule[:, t]
        if real is not None:
            u = u * real[:, t]
        x_t = x[:, t]
        if limited:
            updated = u > 0
            since, least = torch.where(updated, t + 1, since), torch.where(updated, min_skip, least)
            x_t = x_t.masked_fill(~updated.unsqueeze(-1), 0)  # as where a schedule leaves a step out
        new_h, new_c = _candidates(x_t, *held, weights, cell, *masks)
        if gate is not None:
            p = u * update_probability(new_c if cell.has_c else new_h, gate, p.dtype) + (1 - u) * p
            acc = (1 - u) * v if real is None else torch.where(real[:, t], (1 - u) * v, acc)
        read = u.unsqueeze(-1).to(wide if half else x.dtype)
        h = [read * new + (1 - read) * old for new, old in zip(new_h, h)]
        if cell.has_c:
            c = [read * new + (1 - read) * old for new, old in zip(new_c, c)]
        updates.append(u)
        outputs.append(h[-1].to(dtype) if half else h[-1])
    if half:
        h, c = _to(h, dtype), _to(c, dtype)
    p, acc = (new.clone() if new is old else new for new, old in ((p, state.p), (acc, state.acc)))
    state = SkipState(torch.stack(h), torch.stack(c) if cell.has_c else None, p, acc)
    updates = torch.stack(updates, 1)
    if last_only:
        return state.h[-1].clone(), state, updates
    output = torch.stack(outputs, 1)
    if real is not None:
        output = output.masked_fill(~real.unsqueeze(-1), 0)
    return output, state, updates


def real_steps(x: Tensor, begin: Optional[Tensor], end: Optional[Tensor]) -> Optional[Tensor]:
    """False at padding, bool [B, T]; None if there is no padding."""
    if begin is None and end is None:
        return None
    t = torch.arange(x.shape[1], device=x.device)
    if begin is None:
        return t < end.unsqueeze(1)
    return t >= begin.unsqueeze(1) if end is None else (begin.unsqueeze(1) <= t) & (t < end.unsqueeze(1))


def _to(tensors: Sequence[Optional[Tensor]], dtype: torch.dtype) -> List[Optional[Tensor]]:
    return [tensor if tensor is None else tensor.to(dtype) for tensor in tensors]


def _at_step(mask: Optional[Tensor], t: int) -> Optional[Tensor]:
    return None if mask is None else mask[:, :, t]


def _candidates(x, h, c, weights, cell, dropout_mask, zoneout_mask, recurrent_dropout_mask):
    """The candidate states of all layers after reading ``x``; a layer reads the candidate of the layer below."""
    new_h, new_c = [], []
    for layer, w in enumerate(weights):
        if layer > 0:
            x = new_h[-1] if dropout_mask is None else new_h[-1] * dropout_mask[layer - 1]
        written = None if recurrent_dropout_mask is None else recurrent_dropout_mask[layer]
        h_layer, c_layer = cell.step(x, h[layer], c[layer], w, written)
        if zoneout_mask is not None:
            kept = zoneout_mask[layer].split(h_layer.shape[-1], -1)
            h_layer = zone_out(h[layer], h_layer, kept[0])
            c_layer = zone_out(c[layer], c_layer, kept[1]) if cell.has_c else None
        new_h.append(h_layer)
        new_c.append(c_layer)
    return new_h, new_c


def binarize(v: Tensor, threshold: Union[float, Tensor] = 0.5) -> Tensor:
    """1 where ``v > threshold``, otherwise 0 (so 0.5 becomes 0); its gradient is 1 everywhere (straight-through)."""
    return (v > threshold).to(v.dtype) + (v - v.detach())


def update_probability(q: Sequence[Tensor], gate: Gate, dtype: torch.dtype) -> Tensor:
    """sigmoid(w . q + b), [B], from the candidate states of all layers, computed in ``dtype``."""
    chosen = q[gate.layers[0]] if len(gate.layers) == 1 else torch.cat([q[layer] for layer in gate.layers], -1)
    return torch.sigmoid(torch.mv(chosen.to(dtype), gate.weight[0].to(dtype)) + gate.bias.to(dtype))
