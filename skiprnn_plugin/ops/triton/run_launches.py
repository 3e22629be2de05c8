"""Launches the kernels of :mod:`.forward_launches` and :mod:`.chain_launches`: a few for every update."""

import threading
from functools import lru_cache
from typing import Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from triton import cdiv, next_power_of_2

from ..types import Operands
from .call import (
    EMULATED,
    KERNEL_CELLS,
    Call,
    Chained,
    Prepared,
    Records,
    pad_gates,
    pad_units,
    weights_by_layer,
    weights_by_state,
)
from .chain_launches import chain_gate_kernel, chain_layer_kernel, chain_reset_kernel
from .forward_launches import decide_kernel, layer_kernel, reset_kernel
from .policy import Plan

DECIDED = 32  # sequences of a program that searches updates
SUMMED = 1024  # elements that a program of the gate's gradients adds up at once
REPLAYED = 32  # iterations of a CUDA graph
CHECKED = 16  # iterations without a graph after which to look whether all sequences have ended
LARGE = 1 << 20  # B * H from which on there is enough work for large tiles on every multiprocessor
CAPTURING = threading.Lock()  # torch's generator of random numbers bears one capture at a time, and no replay beside it
SLOTS = {"lstm": 4, "gru": 4, "gru_reset_before": 3, "rnn": 1}  # gradients of a layer's gates; GRUs have two for n


def run_launches(
    plan: Plan, call: Call, projected: Tensor, records: Optional[Records], capacity: int, updates: Tensor
) -> Tuple[Operands, Tensor, Tensor]:
    """Work through the sequences until they end or have ``capacity`` more updates. Without ``records`` only the last
    two states are kept.

    Returns:
        The operands with the state after that, the step at which each sequence is, int32 [B], and the updates made.
    """
    operands, layers, width, hidden = call.operands, len(call.layers), call.width, call.hidden
    h, c, device = operands.h, operands.c, operands.x.device
    batch, steps, _ = operands.x.shape
    if records is None:
        states, record_p, record_acc, record_times = h.new_zeros(2, batch, call.num_states, width), None, None, None
        counts = torch.zeros(batch, dtype=torch.int32, device=device)
    else:
        states, record_p, record_acc, record_times, counts = records
        record_p[0] = operands.p
        counts.zero_()
    parts = states.unbind(2)  # the layers' h, then their c
    initial = h if c is None else torch.cat([h, c])
    states[0, :, :, :hidden] = initial.transpose(0, 1)
    p, acc = operands.p.clone(), operands.acc.clone()
    times, status = operands.begin.to(torch.int32, copy=True), torch.zeros_like(counts)
    read = sorted(set(call.options.gate_layers)) if call.is_gated else []
    tile = choose_tile(plan, call)
    rows, units = tile["ROWS"], tile["UNITS"]
    blocks = cdiv(hidden, units)
    partials = p.new_empty(len(read), blocks, batch)
    gate_weights = weights_by_layer(call)
    mask = None if operands.dropout_mask is None else pad_units(call, operands.dropout_mask)
    packed = [_pack(call, layer) for layer in range(layers)]
    resets_before = call.options.cell == "gru_reset_before"
    reset_h, z_gates = (h.new_empty(batch, width), p.new_empty(batch, width)) if resets_before else (None, None)
    schedule = None if operands.schedule is None else operands.schedule.view(torch.uint8)
    shared = {
        "G": call.cell.num_gates,
        "S": call.num_states,
        "P": width,
        "ALTERNATES": records is None,
        **tile,
    }

    def iterate():
        decide_kernel[(cdiv(batch, DECIDED),)](
            partials,
            operands.gate_bias,
            p,
            acc,
            times,
            counts,
            status,
            operands.end,
            schedule,
            operands.noise,
            call.options.threshold,
            record_p,
            record_acc,
            record_times,
            updates,
            batch,
            steps,
            capacity,
            ROWS=DECIDED,
            READ=len(read),
            BLOCKS=blocks,
            BLOCKS_PADDED=next_power_of_2(blocks),
            SCHEDULED=schedule is not None,
            NOISY=operands.noise is not None,
            RECORDS=records is not None,
            num_warps=1,
            num_stages=1,
        )
        grid = (cdiv(batch, rows), blocks)
        for layer, (w_ih, bias, w_hh, bias_n) in enumerate(packed):
            below = parts[layer - 1] if layer > 0 else None
            dropout = mask[layer - 1] if layer > 0 and mask is not None else None
            options = {**shared, "LOWEST": layer == 0, "DROPS": dropout is not None}
            if resets_before:
                reset_kernel[grid](
                    projected,
                    w_ih,
                    bias,
                    w_hh,
                    parts[layer],
                    below,
                    dropout,
                    times,
                    counts,
                    status,
                    reset_h,
                    z_gates,
                    batch,
                    steps,
                    **options,
                )
            layer_kernel[grid](
                projected,
                w_ih,
                bias,
                w_hh,
                bias_n,
                parts[layer],
                parts[layers + layer] if c is not None else None,
                below,
                dropout,
                gate_weights[layer] if layer in read else None,
                partials[read.index(layer)] if layer in read else None,
                times,
                counts,
                status,
                reset_h,
                z_gates,
                batch,
                steps,
                CELL=KERNEL_CELLS[call.options.cell],
                H=hidden,
                READ=layer in read,
                **options,
            )

    # a sequence goes on by at least one step in every iteration; the one after the last finishes its update
    repeat(iterate, steps + 1, updates, lambda: not bool(status.any()))
    slots = counts.long() if records is not None else counts.long() % 2
    final = states[slots, torch.arange(batch, device=device), :, :hidden].transpose(0, 1)
    h, c = (final.contiguous(), None) if c is None else (part.contiguous() for part in final.split(layers))
    return operands._replace(h=h, c=c, p=p, acc=acc), times, counts


def run_chain_launches(
    plan: Plan, call: Call, records: Records, prepared: Prepared, d_h: Tensor, d_c: Optional[Tensor]
) -> Chained:
    """The backward's chain over the updates, from the gradients of the final h and c, [L, B, H], which include that of
    the last output."""
    operands, layers, width, hidden = call.operands, len(call.layers), call.width, call.hidden
    p, states, cell, has_c = operands.p, records.states, call.options.cell, d_c is not None
    count, batch = records.p.shape
    wide = torch.zeros_like(states, dtype=torch.float32)
    resets_before = cell == "gru_reset_before"
    resets = torch.zeros_like(wide) if resets_before else None
    logits = torch.zeros_like(records.p) if call.is_gated else None
    d_p, d_acc = (torch.empty_like(p) if call.is_gated else None for _ in range(2))
    held = wide.new_zeros(wide.shape[1:])
    held[..., :hidden] = (torch.cat([d_h, d_c]) if has_c else d_h).transpose(0, 1)
    e = torch.zeros_like(p)
    left = records.counts + 1
    slots = SLOTS[cell]
    gates = states.new_zeros(layers, batch, slots, width)
    d_h_before, d_h_new = held.unbind(1), wide.unbind(2)
    d_c_before, d_c_new = (part[layers:] if has_c else part for part in (d_h_before, d_h_new))
    factors = prepared.factors.unbind(2)
    mask = None if operands.dropout_mask is None else pad_units(call, operands.dropout_mask)
    packed = [_pack_transposed(call, layer) for layer in range(layers)]
    gate_weights = weights_by_state(call)
    tile = choose_tile(plan, call)
    sizes = {"L": layers, "C": prepared.factors.shape[-2], "H": hidden, "P": width}
    grid = (cdiv(batch, tile["ROWS"]), cdiv(hidden, tile["UNITS"]))

    def iterate():
        chain_gate_kernel[(batch,)](
            left,
            held,
            e,
            prepared.through_p,
            prepared.through_acc,
            prepared.scalars,
            prepared.outputs,
            factors[-1],
            gate_weights,
            wide,
            logits,
            gates[-1],
            d_p,
            d_acc,
            batch,
            CELL=KERNEL_CELLS[cell],
            S=call.num_states,
            SLOTS=slots,
            BLOCK=min(SUMMED, next_power_of_2(call.num_states * width)),
            GATED=call.is_gated,
            EVERY=prepared.outputs is not None,
            **sizes,
            num_warps=4,
            num_stages=1,
        )
        for layer in reversed(range(layers)):
            w_hh, w_n, w_ih = packed[layer]
            below = max(layer - 1, 0)  # the lowest layer reads nothing of one below
            drops = mask is not None and layer > 0
            if resets_before:
                chain_reset_kernel[grid](
                    left,
                    gates[layer],
                    w_n,
                    factors[layer],
                    d_h_before[layer],
                    resets[:, :, layer],
                    batch,
                    **sizes,
                    **tile,
                )
            chain_layer_kernel[grid](
                left,
                gates[layer],
                w_hh,
                d_h_before[layer],
                w_ih,
                mask[below] if drops else None,
                d_h_new[below],
                d_c_new[below],
                factors[below],
                gates[below],
                d_h_before[below],
                d_c_before[below],
                batch,
                CELL=KERNEL_CELLS[cell],
                S=call.num_states,
                G=call.cell.num_gates,
                SLOTS=slots,
                LOWEST=layer == 0,
                DROPS=drops,
                **sizes,
                **tile,
            )

    repeat(iterate, count, p)  # the last iteration is run 0 of a sequence with all updates
    if prepared.outputs is not None:
        held[:, layers - 1] += prepared.outputs[0]
    before = held[..., :hidden].transpose(0, 1)
    d_h_0, d_c_0 = (part.contiguous() for part in before.split(layers)) if has_c else (before.contiguous(), None)
    return Chained(wide, logits, resets, d_h_0, d_c_0, d_p, d_acc)


def repeat(iterate: Callable[[], None], most: int, like: Tensor, ended: Optional[Callable[[], bool]] = None) -> None:
    """Call ``iterate`` until ``ended()``, which looks at values on the device, or about ``most`` times: calls after the
    last one that is needed must have no effect.

    On a GPU the calls after the first are replays of a CUDA graph of many. While the stream of ``like``'s device is
    captured, nothing can look at values, and ``iterate`` is called ``most`` times.
    """
    if not like.is_cuda:
        for _ in range(most):
            iterate()
            if ended is not None and ended():
                return
    elif most <= 2 * REPLAYED or torch.cuda.is_current_stream_capturing():
        can_look = ended is not None and not torch.cuda.is_current_stream_capturing()
        for done in range(most):
            if can_look and done and done % CHECKED == 0 and ended():
                return
            iterate()
    else:
        iterate()  # compiles the kernels, which must not happen during a capture
        with CAPTURING:
            graph, done = _capture(iterate), 1
            while done < most and (ended is None or not ended()):
                graph.replay()
                done += REPLAYED
            torch.cuda.current_stream().synchronize()  # the graph must exist as long as it runs


@lru_cache
def _stream(device: int) -> torch.cuda.Stream:
    """The stream to capture on; always the same one, as torch reserves memory on every stream that captures."""
    return torch.cuda.Stream(device)


def _capture(iterate: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """A graph of ``REPLAYED`` calls. ``torch.cuda.graph`` would wait for the device and empty the allocator's cache."""
    graph, stream, current = torch.cuda.CUDAGraph(), _stream(torch.cuda.current_device()), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")  # other threads may allocate, as data loaders do
        try:
            for _ in range(REPLAYED):
                iterate()
        finally:
            graph.capture_end()
    current.wait_stream(stream)
    return graph


def choose_tile(plan: Plan, call: Call) -> Dict[str, object]:
    """The options of the kernels that multiply: how many units, sequences and columns a program works on at once, its
    warps, and how many blocks of columns are on their way."""
    large = plan.precision != "ieee" and len(call.operands.p) * call.hidden >= LARGE and _is_hopper(call.operands.p)
    if plan.precision == "ieee":
        units, rows, columns, warps, stages = 16, 32, 16, 4, 1
    elif large:
        units, rows, columns, warps, stages = 64, 64, 64 if plan.precision == "half" else 32, 8, 3
    else:
        units, rows, columns, warps, stages = 16, 32, 64, 4, 4
    return {
        "UNITS": units,
        "ROWS": rows,
        "BLOCK": min(columns, next_power_of_2(call.width)),
        "PRECISION": plan.precision,
        "EMULATED": EMULATED,
        "num_warps": warps,
        "num_stages": stages,
    }


def _is_hopper(like: Tensor) -> bool:
    """Where large tiles fit: on others, they spill registers, or need more shared memory than there is."""
    return like.is_cuda and torch.cuda.get_device_capability(like.device)[0] == 9


def _pack(call: Call, layer: int) -> List[Optional[Tensor]]:
    """Weights [G * P, P] and biases as the kernels read them: input weights and bias (None in the lowest layer),
    recurrent weights, and the bias that r multiplies (None for the other cells)."""
    weights = call.layers[layer]
    w_ih = bias = bias_n = None
    if layer > 0:
        w_ih = pad_units(call, pad_gates(call, weights.weight_ih))
        bias = pad_gates(call, call.cell.bias(weights))
    if call.options.cell == "gru":
        bias_n = pad_units(call, weights.bias_hh[2 * call.hidden :].contiguous())
    return [w_ih, bias, pad_units(call, pad_gates(call, weights.weight_hh)), bias_n]


def _pack_transposed(call: Call, layer: int) -> List[Optional[Tensor]]:
    """Weights as the kernels of the chain read them, [P, gates * P]: recurrent weights, those of n alone (None for
    cells that do not reset before the product), and input weights (None in the lowest layer)."""
    weights, width = call.layers[layer], call.width
    w_hh, w_n, w_ih = pad_units(call, pad_gates(call, weights.weight_hh)), None, None
    if call.options.cell == "gru_reset_before":
        w_hh, w_n = w_hh.split([2 * width, width])
        w_n = w_n.t().contiguous()
    elif call.options.cell == "gru":
        w_hh = w_hh.roll(width, 0)  # n, r, z
    if layer > 0:
        w_ih = pad_units(call, pad_gates(call, weights.weight_ih)).t().contiguous()
    return [w_hh.t().contiguous(), w_n, w_ih]
