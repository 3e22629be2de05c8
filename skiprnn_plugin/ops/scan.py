"""``skip_scan``: the one entry point to all engines. Inputs are checked here, once."""

from contextlib import nullcontext
from typing import Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import autograd, checks, reference
from .checks import Integers
from .engines import check_engine, choose_engine, find_engine
from .tracing import has_only_shape, is_autocast_enabled, refuse_unrolling
from .types import Gate, LayerWeights, SkipState

PER_STEP = {"schedule": 1, "noise": 1, "zoneout_mask": 2, "recurrent_dropout_mask": 2}  # the dimension of T
MASKS = ("dropout_mask", "zoneout_mask", "recurrent_dropout_mask")
NOTHING = nullcontext()


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
    min_skip: int = 0,
    max_skip: Optional[int] = None,
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
        lengths: real steps of each sequence, [B] integers in 0..T; None means T. The rest is padding, which has no
            effect, whatever it holds: no update, output 0, no gradient.
        offsets: where each sequence's real steps begin, [B] integers (left padding); None means 0.
        schedule: updates given from outside instead of the gate's, [B, T] of 0 and 1. ``p`` and ``acc`` change as if
            the gate had decided so. The output's gradient with respect to the gate is 0 then, and not None.
        noise: u_t = v_t > noise_t; uniform numbers, [B, T], make u_t a Bernoulli draw of v_t. None means that
            ``threshold`` decides.
        threshold: u_t = v_t > threshold, where no noise is given; 0.5 is rounding. A higher one skips more.
        dropout_mask: factors on what a layer passes to the next, one mask for all steps, [num_layers - 1, B, H].
        zoneout_mask: 1 where a unit of the candidate state keeps its old value (Krueger et al. 2017), one mask for each
            step, [num_layers, B, T, H]; for a cell with ``c``, [num_layers, B, T, 2 H], the part of ``h`` first. The
            layer above and the gate read the result. The paper evaluates with the probability itself as the mask.
        recurrent_dropout_mask: factors on what a step would write into its state, an LSTM's g, a GRU's n, a plain
            RNN's h (Semeniuta et al. 2016), one mask for each step, [num_layers, B, T, H].
        min_skip: how many steps are skipped after an update at least, whatever the gate says.
        max_skip: how many steps are skipped at most; None for no limit. Steps before the first one of the call do not
            count, for either. ``p`` and ``acc`` change, and gradients are, as if a schedule had prescribed the updates
            that are found.
        last_only: return only the last output.
        engine: a key of ``ENGINES``, or ``auto`` for the fastest that can do what is asked, which it logs;
            or a key of ``INFERENCE_ENGINES``: ``int8``, which is faster and only for trained models.

    Returns:
        output: the top layer's hidden state after every step, [B, T, H] (0 at padding); with ``last_only`` after the
            last real step, [B, H].
        state: state after the last real step.
        updates: 1 where a step updated the state and 0 where it was skipped or is padding, [B, T], in the dtype of
            ``p``; carries the gate's straight-through gradient.

    Raises:
        ValueError: an argument has a wrong shape, type, device or value (the message names it); limits are given beside
            a schedule or noise; or the engine does not support layer norm, zoneout, recurrent dropout, limits, or this
            ``x``.
    """
    state, gate, features, options = checks.complete(
        x,
        weights,
        state,
        gate,
        cell=cell,
        lengths=lengths,
        offsets=offsets,
        schedule=schedule,
        noise=noise,
        threshold=threshold,
        dropout_mask=dropout_mask,
        zoneout_mask=zoneout_mask,
        recurrent_dropout_mask=recurrent_dropout_mask,
        min_skip=min_skip,
        max_skip=max_skip,
    )
    options["last_only"] = last_only
    device = x.device.type
    autocast = is_autocast_enabled(device)
    if autocast:
        x, weights, state, options = _lower(x, weights, state, options, torch.get_autocast_dtype(device))
    with torch.autocast(device, enabled=False) if autocast else NOTHING:
        if has_only_shape(x):
            check_engine(engine, features)
            return _scan_shapes(x, weights, state, gate, **options)
        engine = choose_engine(engine, features, x, cell)
        if find_engine(engine).kernels is None:
            refuse_unrolling(engine, x.shape[1])
        if 0 in x.shape[:2]:
            return _scan_nothing(x, weights, state, gate, **options)
        if find_engine(engine).kernels is not None:
            return autograd.scan(engine, x, weights, state, gate, **options)
        return find_engine(engine).scan(x, weights, state, gate, **options)


def _lower(
    x: Tensor, weights: Sequence[LayerWeights], state: SkipState, options: Dict[str, object], dtype: torch.dtype
) -> Tuple[Tensor, List[LayerWeights], SkipState, Dict[str, object]]:
    """Everything but the gate in autocast's precision, as in torch.nn's recurrent modules; float64 stays as it is. No
    engine needs to know of autocast then, and all return the same."""

    def lower(tensor: Optional[Tensor]) -> Optional[Tensor]:
        return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.to(dtype)

    lowered = {name: lower(value) if name in MASKS else value for name, value in options.items()}
    layers = [LayerWeights(*map(lower, layer)) for layer in weights]
    return lower(x), layers, state._replace(h=lower(state.h), c=lower(state.c)), lowered


def _scan_shapes(x, weights, state, gate, *, last_only, **options):
    """As ``reference.scan``, for tensors without values. The first step is enough to find the shapes, which are the
    same with every engine."""
    steps = x.shape[1]
    if steps == 0:
        return _scan_nothing(x, weights, state, gate, last_only=last_only, **options)
    for name, dimension in PER_STEP.items():
        if options.get(name) is not None:
            options[name] = options[name].narrow(dimension, 0, 1)
    output, state, updates = reference.scan(x[:, :1], weights, state, gate, last_only=last_only, **options)
    if not last_only:
        output = output.repeat(1, steps, 1)
    return output, state, updates.repeat(1, steps)


def _scan_nothing(x, weights, state, gate, *, last_only, **options):
    """As ``reference.scan``, where there is no sequence or no step: there is nothing to compute, so that all engines
    agree. The parameters have a gradient, of 0."""
    batch, steps, _ = x.shape
    if steps == 0:  # one step of padding in place of none
        x = pad(x, (0, 0, 0, 1))
        options.update(begin=None, end=torch.zeros(batch, dtype=torch.int64, device=x.device))
        for name, dimension in PER_STEP.items():
            if options.get(name) is not None:
                shape = list(options[name].shape)
                shape[dimension] = 1
                options[name] = options[name].new_zeros(shape)
    output, state, updates = reference.scan(x, weights, state, gate, last_only=last_only, **options)
    return output if last_only else output[:, :steps], state, updates[:, :steps]
