"""Every check of an input. A check raises a ValueError that names the argument, what was expected and what was given.
Those that return something return the argument in the form in which the engines take it."""

import numbers
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import torch
from torch import Tensor

from ..arguments import check_count
from .cells import CELLS, Cell
from .clock import NEVER
from .tracing import has_values, is_autocast_enabled
from .types import Gate, LayerWeights, SkipState

Integers = Union[Tensor, Sequence[int]]


class Complete(NamedTuple):
    """What :func:`complete` returns.

    Attributes:
        state: with ``p`` and ``acc``.
        gate: its layers counted from 0; None for no learned gate.
        features: the optional features that this call uses, of :data:`skiprnn_plugin.ops.engines.FEATURES`.
        options: the keyword arguments of an engine's ``scan``, except ``last_only``.
    """

    state: SkipState
    gate: Optional[Gate]
    features: List[str]
    options: Dict[str, Any]


def complete(
    x: Tensor,
    weights: Sequence[LayerWeights],
    state: SkipState,
    gate: Optional[Gate],
    *,
    cell: str,
    lengths: Optional[Integers],
    offsets: Optional[Integers],
    schedule: Optional[Tensor],
    noise: Optional[Tensor],
    threshold: float,
    dropout_mask: Optional[Tensor],
    zoneout_mask: Optional[Tensor],
    recurrent_dropout_mask: Optional[Tensor],
    min_skip: int,
    max_skip: Optional[int],
) -> Complete:
    """Check the arguments of :func:`skiprnn_plugin.ops.scan.skip_scan`, and complete them for an engine."""
    cell_type = check_cell(cell)
    check_input(x, weights, cell_type)
    batch, steps, _ = x.shape
    layers, hidden = len(weights), weights[0].weight_hh.shape[-1]
    state = check_state(state, layers, batch, hidden, x, cell_type)
    wide = gate_dtype(state.h)
    gate = check_gate(gate, layers, hidden, x, wide)
    begin, end = check_span(lengths, offsets, batch, steps, x.device)
    threshold = check_threshold(threshold)
    limits = check_limits(min_skip, max_skip)
    if limits and (schedule is not None or noise is not None):
        other = "random updates" if schedule is None else "a schedule"
        raise ValueError(f"min_skip, max_skip: expected 0 and None beside {other}, which can't be limited")
    if noise is not None:
        if schedule is not None or gate is None:
            raise ValueError("noise: has no meaning beside a schedule or without a gate, as no gate decides then")
        noise = check_noise(noise, batch, steps).to(x.device, wide)
    if schedule is not None:
        schedule = check_schedule(schedule, batch, steps).to(x.device)
    elif gate is None:
        schedule = update_regularly(begin, min_skip, x)
        limits = {}
    if dropout_mask is not None:
        dropout_mask = check_mask("dropout_mask", dropout_mask, (layers - 1, batch, hidden), x)
    options = {
        "cell": cell,
        "begin": begin,
        "end": end,
        "schedule": schedule,
        "noise": noise,
        "threshold": threshold,
        "dropout_mask": dropout_mask,
    }
    features = []
    if limits:
        options.update(limits)
        features += limits
    if zoneout_mask is not None:
        shape = (layers, batch, steps, (2 if cell_type.has_c else 1) * hidden)
        options["zoneout_mask"] = check_mask("zoneout_mask", zoneout_mask, shape, x)
        features.append("zoneout")
    if recurrent_dropout_mask is not None:
        shape = (layers, batch, steps, hidden)
        options["recurrent_dropout_mask"] = check_mask("recurrent_dropout_mask", recurrent_dropout_mask, shape, x)
        features.append("recurrent_dropout")
    if weights[0].norm_weight is not None:
        features.append("layer_norm")
    return Complete(state, gate, features, options)


def check_cell(name: str) -> Type[Cell]:
    """The class of the cell ``name``, a key of ``CELLS``."""
    if name not in CELLS:
        raise ValueError(f"cell: unknown cell {name!r}; expected one of {', '.join(sorted(CELLS))}")
    return CELLS[name]


def check_input(x: Tensor, weights: Sequence[LayerWeights], cell: Type[Cell]) -> None:
    """``x`` [B, T, D], and the weights of every layer."""
    if not isinstance(x, Tensor):
        raise ValueError(f"x: expected a tensor, got {type(x).__name__}")
    if x.dim() != 3:
        raise ValueError(f"x: expected 3 dimensions, [B, T, D], got shape {tuple(x.shape)}")
    if len(weights) == 0:
        raise ValueError("weights: expected at least one layer, got none")
    for layer, w in enumerate(weights):
        if not (isinstance(w, LayerWeights) and isinstance(w.weight_ih, Tensor) and isinstance(w.weight_hh, Tensor)):
            raise ValueError(f"weights[{layer}]: expected LayerWeights of tensors, got {type(w).__name__}")
    first, width = weights[0].weight_ih, x.shape[-1]
    if width != first.shape[-1]:
        raise ValueError(f"x: expected {first.shape[-1]} features (input_size), got {width}")
    if x.dtype != first.dtype or x.device != first.device:
        _check_tensor("x", x, x.shape, first)
    hidden = weights[0].weight_hh.shape[-1]
    rows, norm = cell.num_gates * hidden, cell.num_normalized * hidden
    normalized = False
    for w in weights:
        normalized = normalized or w.norm_weight is not None or w.norm_bias is not None
    for layer, w in enumerate(weights):
        shapes = ((rows, width if layer == 0 else hidden), (rows, hidden), (rows,), (rows,))
        if normalized:
            shapes = (*shapes, (norm,), (norm,))
        if not _agree(w, shapes, first):
            _check_tensors(f"weights[{layer}]", w, shapes, first)


def as_state(state, cell: Type[Cell]) -> SkipState:
    """``state``, whose parts must be those of a SkipState; of a cell without ``c``, a tensor alone is ``h``."""
    if type(state) is SkipState:
        return state
    if isinstance(state, Tensor) and not cell.has_c:
        return SkipState(state)
    if not isinstance(state, tuple) or not 0 < len(state) <= len(SkipState._fields):
        expected = "a tuple (h, c)" if cell.has_c else "a tensor h"
        parts = f" of {len(state)}" if isinstance(state, tuple) else ""
        raise ValueError(f"state: expected a SkipState or {expected}, got {type(state).__name__}{parts}")
    return SkipState(*state)


def check_state(state: SkipState, layers: int, batch: int, hidden: int, x: Tensor, cell: Type[Cell]) -> SkipState:
    """``state`` with ``p`` and ``acc`` in :func:`gate_dtype`, and without a ``c`` that the cell does not have."""
    h, c, p, acc = state = as_state(state, cell)
    full = (layers, batch, hidden)
    shapes = (full, full if cell.has_c else None, None if p is None else (batch,), None if acc is None else (batch,))
    if not _agree(state, shapes, x) or x.dtype not in (torch.float32, torch.float64):
        _check_tensors("state", state, shapes, x, any_dtype=("p", "acc"))
        dtype = gate_dtype(h)
        state = SkipState(h, c, *(value if value is None else value.to(dtype) for value in (p, acc)))
    _check_range("state.p", p)
    _check_range("state.acc", acc)
    return state if cell.has_c or c is None else state._replace(c=None)


def _check_range(argument: str, values: Optional[Tensor]) -> None:
    """0 to 1, checked only on the CPU: the check would wait for a GPU in every chunk of a stream."""
    if values is None or values.device.type != "cpu" or not has_values(values):
        return
    found = values.tolist()  # a few numbers, so that this is quicker than torch's comparisons
    if found and (min(found) < 0 or max(found) > 1):
        raise ValueError(f"{argument}: expected values from 0 to 1, got {min(found)} to {max(found)}")


def gate_dtype(h: Tensor) -> torch.dtype:
    """The dtype of ``p``, ``acc`` and all that the gate computes: float32, or float64 where ``h`` is."""
    return torch.float64 if h.dtype == torch.float64 else torch.float32


def check_gate(gate: Optional[Gate], layers: int, hidden: int, x: Tensor, dtype: torch.dtype) -> Optional[Gate]:
    """``gate`` in ``dtype``, its layers counted from 0."""
    if gate is None:
        return None
    if type(gate) is not Gate:
        gate = Gate(*gate)
    weight, bias, chosen = gate
    if len(chosen) == 0 or min(chosen) < -layers or max(chosen) >= layers:
        raise ValueError(f"gate.layers: expected layers within 0..{layers - 1}, got {tuple(chosen)}")
    shapes = ((1, len(chosen) * hidden), (1,))
    if not _agree(gate, shapes, x) or x.dtype != dtype:
        _check_tensors("gate", gate, shapes, x, any_dtype=("weight", "bias"))
        gate = Gate(weight.to(dtype), bias.to(dtype), chosen)
    return gate._replace(layers=tuple([layer % layers for layer in chosen])) if min(chosen) < 0 else gate


def check_threshold(threshold: float) -> float:
    """Infinities always or never update."""
    number = type(threshold) is float or (isinstance(threshold, numbers.Real) and not isinstance(threshold, bool))
    if not number or threshold != threshold:  # math.isnan would break a graph of torch.compile, where it is symbolic
        raise ValueError(f"threshold: expected a number, got {threshold!r}")
    return float(threshold)


def check_skips(min_skip: int, max_skip: Optional[int]) -> Tuple[int, Optional[int]]:
    """The fewest and the most steps to skip; None for no limit."""
    check_count("min_skip", min_skip)
    if max_skip is not None and check_count("max_skip", max_skip) < min_skip:
        raise ValueError(f"max_skip: expected at least min_skip, {min_skip}, got {max_skip}")
    return min_skip, max_skip


def check_limits(min_skip: int, max_skip: Optional[int]) -> Dict[str, int]:
    """Those of the two that limit anything, by name, no larger than int64 holds."""
    if max_skip is None and type(min_skip) is int and min_skip == 0:  # the usual case
        return {}
    check_skips(min_skip, max_skip)
    limits = {} if min_skip == 0 else {"min_skip": min(min_skip, NEVER)}
    return limits if max_skip is None else {**limits, "max_skip": min(max_skip, NEVER)}


def update_regularly(begin: Optional[Tensor], min_skip: int, x: Tensor) -> Tensor:
    """The updates where there is no gate, bool [B, T]: the step ``begin`` [B] (None: 0) of each sequence, and those
    after it with ``min_skip`` skipped steps between them."""
    batch, steps, _ = x.shape
    if min_skip == 0:
        return x.new_ones((batch, steps), dtype=torch.bool)
    time = torch.arange(steps, device=x.device).expand(batch, steps)
    time = time if begin is None else time - begin.unsqueeze(1)
    return time % min(min_skip + 1, NEVER) == 0


def check_noise(noise: Tensor, batch: int, steps: int) -> Tensor:
    """[B, T]."""
    _check_shape("noise", noise, (batch, steps))
    return noise


def check_schedule(schedule: Tensor, batch: int, steps: int) -> Tensor:
    """[B, T] of 0 and 1, as bool."""
    _check_shape("schedule", schedule, (batch, steps))
    if schedule.dtype == torch.bool:
        return schedule
    if any_of((schedule != 0) & (schedule != 1)):
        raise ValueError("schedule: expected 0 and 1 alone, got other values")
    return schedule.to(torch.bool)


def check_mask(argument: str, mask: Tensor, shape: Tuple[int, ...], x: Tensor) -> Tensor:
    """The mask in the dtype and on the device of ``x``."""
    _check_shape(argument, mask, shape)
    return mask.to(x.device, x.dtype)


def check_span(
    lengths: Optional[Integers], offsets: Optional[Integers], batch: int, steps: int, device: torch.device
) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """Where each sequence's real steps begin, and the step after its last one, int64 [B]; None for 0 and for T."""
    begin = None if offsets is None else _check_integers("offsets", offsets, batch, steps, device)
    count = None if lengths is None else _check_integers("lengths", lengths, batch, steps, device)
    if begin is None or count is None:
        return begin, count
    end = begin + count
    if any_of(end > steps):
        raise ValueError(
            f"lengths: expected offsets + lengths within the {steps} steps of x, got up to {int(end.max())}"
        )
    return begin, end


def check_compiled_span(begin: Optional[Tensor], end: Optional[Tensor], steps: int) -> None:
    """The part of :func:`check_span` that looks at values, which is left out while torch.compile traces; for when the
    compiled code runs."""
    before = 0 if begin is None else begin
    if begin is not None and any_of((begin < 0) | (begin > steps)):
        low, high = int(begin.min()), int(begin.max())
        raise ValueError(f"offsets: expected values from 0 to the {steps} steps of x, got {low} to {high}")
    if end is not None and any_of((end < before) | (end > steps)):
        low, high = int((end - before).min()), int(end.max())
        raise ValueError(
            f"lengths: expected values from 0, and none beyond the {steps} steps of x, got {low} as the smallest, and "
            f"{high} as the last step"
        )


def any_of(wrong: Tensor) -> bool:
    """Whether some value is wrong; False where Python cannot look at values, as in compiled code."""
    return has_values(wrong) and bool(wrong.any())


def _check_shape(argument: str, tensor: Tensor, shape: Tuple[int, ...]) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{argument}: expected a tensor of shape {shape}, got {type(tensor).__name__}")
    if tensor.shape != shape:
        raise ValueError(f"{argument}: expected shape {tuple(shape)}, got {tuple(tensor.shape)}")


def _agree(tensors: tuple, shapes: Sequence[Optional[Tuple[int, ...]]], like: Tensor) -> bool:
    """Whether the tensors that should have a shape have it, and the dtype and device of ``like``. This is a fast path:
    the arguments are usually valid."""
    dtype, device = like.dtype, like.device
    try:
        for tensor, shape in zip(tensors, shapes):
            if shape is not None and (tensor.shape != shape or tensor.dtype != dtype or tensor.device != device):
                return False
    except AttributeError:  # not a tensor
        return False
    return True


def _check_tensors(
    argument: str,
    tensors: tuple,
    shapes: Sequence[Optional[Tuple[int, ...]]],
    like: Tensor,
    any_dtype: Sequence[str] = (),
) -> None:
    """:func:`_check_tensor` for the fields of a NamedTuple that have a shape; those named in ``any_dtype`` may have a
    dtype of their own."""
    for field, tensor, shape in zip(tensors._fields, tensors, shapes):
        if shape is not None:
            _check_tensor(f"{argument}.{field}", tensor, shape, like, field not in any_dtype)


def _check_tensor(argument: str, tensor: Tensor, shape: Tuple[int, ...], like: Tensor, dtype: bool = True) -> None:
    """The shape, and ``like``'s device and ``dtype`` (autocast brings dtypes together, but for float64)."""
    _check_shape(argument, tensor, shape)
    lowered = is_autocast_enabled(like.device.type) and torch.float64 not in (tensor.dtype, like.dtype)
    for attribute in ("device", "dtype") if dtype and not lowered else ("device",):
        got, expected = getattr(tensor, attribute), getattr(like, attribute)
        if got != expected:
            raise ValueError(f"{argument}: expected the weights' {attribute}, {expected}, got {got}")


def _check_integers(argument: str, values: Integers, batch: int, steps: int, device: torch.device) -> Tensor:
    """int64 [B], from 0 to ``steps``."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{argument}: expected integers, got {values!r}") from None
    if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
        if tensor.numel() > 0:  # an empty list becomes an empty float tensor
            raise ValueError(f"{argument}: expected integers, got {tensor.dtype}")
    tensor = tensor.to(device, torch.int64)
    if tensor.dim() == 0:
        tensor = tensor.expand(batch)
    _check_shape(argument, tensor, (batch,))
    if any_of((tensor < 0) | (tensor > steps)):
        low, high = int(tensor.min()), int(tensor.max())
        raise ValueError(f"{argument}: expected values from 0 to the {steps} steps of x, got {low} to {high}")
    return tensor
