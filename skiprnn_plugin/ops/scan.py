"""``skip_scan``: the one entry point to all engines. Inputs are checked here, once."""

import numbers
from functools import partial
from typing import Optional, Sequence, Tuple, Type, Union

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import kernels
from .cells import CELLS, Cell
from .engines import ENGINES, check_cell, choose_engine
from .types import Gate, LayerWeights, SkipState

Integers = Union[Tensor, Sequence[int]]


def skip_scan(
    x: Tensor,
    weights: Sequence[LayerWeights],
    state: SkipState,
    gate: Optional[Gate],
    *,
    cell: str,
    lengths: Optional[Integers] = None,
    offsets: Optional[Integers] = None,
    schedule: Optional[Tensor] = None,
    noise: Optional[Tensor] = None,
    threshold: float = 0.5,
    dropout_mask: Optional[Tensor] = None,
    zoneout_mask: Optional[Tensor] = None,
    recurrent_dropout_mask: Optional[Tensor] = None,
    last_only: bool = False,
    engine: str = "auto",
) -> Tuple[Tensor, SkipState, Tensor]:
    """Run a stack of Skip RNN layers over a batch of sequences (Campos et al. 2018, equations 2 to 9).

    Args:
        x: input, [B, T, D].
        weights: parameters of each layer, lowest first.
        state: state to start from; ``p`` None means 1 and ``acc`` None means 0, so that the first step updates.
        gate: what sets the update probability; None for no learned gate (every step updates, or ``schedule`` says).
        cell: a key of ``CELLS``.
        lengths: real steps of each sequence, [B] integers in 0..T; None means T. The rest is padding, which is not
            there at all: no update, output 0, no gradient, whatever it holds.
        offsets: where each sequence's real steps begin, [B] integers (left padding); None means 0.
        schedule: updates given from outside instead of the gate's, [B, T] of 0 and 1. ``p`` and ``acc`` go on as if
            the gate had decided so.
        noise: u_t = v_t > noise_t; uniform numbers, [B, T], make u_t a Bernoulli draw of v_t. None means ``threshold``.
        threshold: u_t = v_t > threshold, where no noise is given; 0.5 is rounding. A higher one skips more.
        dropout_mask: factors on what a layer passes to the next, one mask for all steps, [num_layers - 1, B, H].
        zoneout_mask: 1 where a unit of the candidate state keeps its old value (Krueger et al. 2017), one mask for each
            step, [num_layers, B, T, H]; of cells with ``c`` 2 H wide, that of ``h`` before that of ``c``. The layer
            above, and the gate, read what comes out. The probability itself as a mask is the paper's evaluation.
        recurrent_dropout_mask: factors on what a step would write into its state, an LSTM's g, a GRU's n, a plain
            RNN's h (Semeniuta et al. 2016), one mask for each step, [num_layers, B, T, H].
        last_only: return the last output alone.
        engine: a key of ``ENGINES``, or ``auto`` for the fastest that can do what is asked, which it logs.

    Returns:
        output: the top layer's hidden state after every step, [B, T, H] (0 at padding); with ``last_only`` after the
            last real step, [B, H].
        state: state after the last real step.
        updates: 1 where a step updated the state and 0 where it was skipped or is padding, [B, T], in the dtype of
            ``p``; carries the gate's straight-through gradient.

    Raises:
        ValueError: an argument of the wrong shape, type, device or value (the message names it), or an engine that
            cannot do what it is asked to: layer norm, zoneout and recurrent dropout, or x as it is.
    """
    check_cell(cell)
    cell_type = CELLS[cell]
    _check_input(x, weights, cell_type)
    batch, steps, _ = x.shape
    hidden = weights[0].weight_hh.shape[-1]
    state, wide = _check_state(state, len(weights), batch, hidden, x, cell_type)
    gate = _check_gate(gate, len(weights), hidden, x, wide)
    begin, end = _bounds(lengths, offsets, batch, steps, x.device)
    check_threshold(threshold)
    threshold = float(threshold)
    if noise is not None:
        if schedule is not None or gate is None:
            raise ValueError("noise: has no meaning beside a schedule or without a gate, as no gate decides then")
        _check_shape("noise", noise, (batch, steps))
        threshold = noise.to(x.device, wide)
    if schedule is not None:
        schedule = _check_schedule(schedule, batch, steps).to(x.device, torch.bool)
    elif gate is None:
        schedule = x.new_ones((batch, steps), dtype=torch.bool)
    if dropout_mask is not None:
        dropout_mask = _check_mask("dropout_mask", dropout_mask, (len(weights) - 1, batch, hidden), x)
    masks, features = {}, []
    if zoneout_mask is not None:
        shape = (len(weights), batch, steps, (2 if cell_type.has_c else 1) * hidden)
        masks["zoneout_mask"] = _check_mask("zoneout_mask", zoneout_mask, shape, x)
        features.append("zoneout")
    if recurrent_dropout_mask is not None:
        shape = (len(weights), batch, steps, hidden)
        masks["recurrent_dropout_mask"] = _check_mask("recurrent_dropout_mask", recurrent_dropout_mask, shape, x)
        features.append("recurrent_dropout")
    if weights[0].norm_weight is not None:
        features.append("layer_norm")
    engine = choose_engine(engine, features, x, cell)
    if ENGINES[engine].kernels is None:
        scan, cell = ENGINES[engine].scan, cell_type
    else:
        scan = partial(kernels.scan, engine)
    if steps == 0:  # as one step of padding, so that the parameters have a gradient, of 0
        x, schedule = pad(x, (0, 0, 0, 1)), None if schedule is None else pad(schedule, (0, 1))
        threshold = threshold if isinstance(threshold, float) else pad(threshold, (0, 1))
        masks = {name: pad(mask, (0, 0, 0, 1)) for name, mask in masks.items()}
        begin, end = None, torch.zeros(batch, dtype=torch.int64, device=x.device)
    if masks:
        scan = partial(scan, **masks)
    output, state, updates = scan(
        x,
        weights,
        state,
        gate,
        cell=cell,
        begin=begin,
        end=end,
        schedule=schedule,
        threshold=threshold,
        dropout_mask=dropout_mask,
        last_only=last_only,
    )
    if steps == 0:
        output, updates = output if last_only else output[:, :0], updates[:, :0]
    return output, state, updates


def _check_shape(argument: str, tensor: Tensor, shape: Tuple[int, ...]) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{argument}: expected a tensor of shape {shape}, got {type(tensor).__name__}")
    if tensor.shape != shape:
        raise ValueError(f"{argument}: expected shape {tuple(shape)}, got {tuple(tensor.shape)}")


def _check_tensors(
    argument: str,
    tensors: tuple,
    shapes: Sequence[Optional[Tuple[int, ...]]],
    like: Tensor,
    any_dtype: Sequence[str] = (),
) -> bool:
    """:func:`_check_tensor` for the fields of a NamedTuple that have a shape, of which some may have ``any_dtype``.
    Returns whether all have ``like``'s."""
    dtype, device = like.dtype, like.device
    for tensor, shape in zip(tensors, shapes):  # a quick look, as mostly all is well
        if shape is not None and not (
            isinstance(tensor, Tensor) and tensor.shape == shape and tensor.dtype == dtype and tensor.device == device
        ):
            break
    else:
        return True
    for field, tensor, shape in zip(tensors._fields, tensors, shapes):
        if shape is not None:
            _check_tensor(f"{argument}.{field}", tensor, shape, like, field not in any_dtype)
    return False


def _check_tensor(argument: str, tensor: Tensor, shape: Tuple[int, ...], like: Tensor, dtype: bool = True) -> None:
    """Raise ValueError unless ``tensor`` has the shape and ``like``'s device and ``dtype`` (autocast brings dtypes
    together)."""
    _check_shape(argument, tensor, shape)
    whats = ("device", "dtype") if dtype and not torch.is_autocast_enabled(like.device.type) else ("device",)
    for what in whats:
        got, expected = getattr(tensor, what), getattr(like, what)
        if got != expected:
            raise ValueError(f"{argument}: expected the weights' {what}, {expected}, got {got}")


def _check_mask(argument: str, mask: Tensor, shape: Tuple[int, ...], x: Tensor) -> Tensor:
    _check_shape(argument, mask, shape)
    return mask.to(x.device, x.dtype)


def check_threshold(threshold: float) -> None:
    """Raise ValueError unless it is a number (infinities always or never update)."""
    number = type(threshold) is float or (isinstance(threshold, numbers.Real) and not isinstance(threshold, bool))
    if not number or threshold != threshold:  # math.isnan would break a graph of torch.compile, where it is symbolic
        raise ValueError(f"threshold: expected a number, got {threshold!r}")


def any_of(wrong: Tensor) -> bool:
    """Whether some value is wrong; False in compiled code, which cannot look at values."""
    return not torch.compiler.is_compiling() and bool(wrong.any())


def _check_input(x: Tensor, weights: Sequence[LayerWeights], cell: Type[Cell]) -> None:
    if not isinstance(x, Tensor):
        raise ValueError(f"x: expected a tensor, got {type(x).__name__}")
    if x.dim() != 3:
        raise ValueError(f"x: expected 3 dimensions, [B, T, D], got shape {tuple(x.shape)}")
    if len(weights) == 0:
        raise ValueError("weights: expected at least one layer, got none")
    first, width = weights[0].weight_ih, x.shape[-1]
    if width != first.shape[-1]:
        raise ValueError(f"x: expected {first.shape[-1]} features (input_size), got {width}")
    if x.dtype != first.dtype or x.device != first.device:
        _check_tensor("x", x, x.shape, first)
    hidden = weights[0].weight_hh.shape[-1]
    rows, norm = cell.num_gates * hidden, cell.num_normalized * hidden
    normalized = [each for w in weights for each in w[4:] if each is not None]
    for layer, w in enumerate(weights):
        shapes = ((rows, width if layer == 0 else hidden), (rows, hidden), (rows,), (rows,), (norm,), (norm,))
        _check_tensors(f"weights[{layer}]", w, shapes if normalized else shapes[:4], first)


def as_state(state) -> SkipState:
    """``state``, if its parts are a SkipState's. Raises ValueError."""
    if type(state) is SkipState:
        return state
    if not isinstance(state, tuple) or not 0 < len(state) <= len(SkipState._fields):
        parts = f" of {len(state)}" if isinstance(state, tuple) else ""
        raise ValueError(f"state: expected a SkipState, got {type(state).__name__}{parts}")
    return SkipState(*state)


def _check_state(
    state: SkipState, layers: int, batch: int, hidden: int, x: Tensor, cell: Type[Cell]
) -> Tuple[SkipState, torch.dtype]:
    """``state``, and the dtype of its ``p`` and ``acc``, float32 or wider."""
    h, c, p, acc = state = as_state(state)
    full = (layers, batch, hidden)
    shapes = (full, full if cell.has_c else None, None if p is None else (batch,), None if acc is None else (batch,))
    same = _check_tensors("state", state, shapes, x, any_dtype=("p", "acc"))
    dtype = torch.float64 if h.dtype == torch.float64 else torch.float32
    if not same or x.dtype != dtype:
        state = SkipState(h, c, *(each if each is None else each.to(dtype) for each in (p, acc)))
    return state if cell.has_c or c is None else state._replace(c=None), dtype


def _check_gate(gate: Optional[Gate], layers: int, hidden: int, x: Tensor, dtype: torch.dtype) -> Optional[Gate]:
    """``gate`` in ``dtype``, its layers counted from 0."""
    if gate is None:
        return None
    if type(gate) is not Gate:
        gate = Gate(*gate)
    weight, bias, chosen = gate
    if len(chosen) == 0 or min(chosen) < -layers or max(chosen) >= layers:
        raise ValueError(f"gate.layers: expected layers within 0..{layers - 1}, got {tuple(chosen)}")
    same = _check_tensors("gate", gate, ((1, len(chosen) * hidden), (1,)), x, any_dtype=("weight", "bias"))
    if not same or x.dtype != dtype:
        gate = Gate(weight.to(dtype), bias.to(dtype), chosen)
    return gate._replace(layers=tuple([layer % layers for layer in chosen])) if min(chosen) < 0 else gate


def _check_schedule(schedule: Tensor, batch: int, steps: int) -> Tensor:
    _check_shape("schedule", schedule, (batch, steps))
    if schedule.dtype != torch.bool and any_of((schedule != 0) & (schedule != 1)):
        raise ValueError("schedule: expected 0 and 1 alone, got other values")
    return schedule


def _bounds(
    lengths: Optional[Integers], offsets: Optional[Integers], batch: int, steps: int, device: torch.device
) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """Where each sequence's real steps begin, and the step after its last one, int64 [B]; None for 0 and for T."""
    begin = None if offsets is None else _integers("offsets", offsets, batch, steps, device)
    count = None if lengths is None else _integers("lengths", lengths, batch, steps, device)
    if begin is None or count is None:
        return begin, count
    end = begin + count
    if any_of(end > steps):
        raise ValueError(
            f"lengths: expected offsets + lengths within the {steps} steps of x, got up to {int(end.max())}"
        )
    return begin, end


def _integers(argument: str, values: Integers, batch: int, steps: int, device: torch.device) -> Tensor:
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
