"""The backward pass: the candidates of all steps, the compressed runs, the chain over updates, and the products for the
weights, each for as many sequences at once as memory allows."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import linear
from triton import cdiv, next_power_of_2

from ..types import PER_LAYER, LayerWeights, Operands, Results, flatten_weights
from . import policy
from .call import (
    KERNEL_CELLS,
    Call,
    Chained,
    Prepared,
    Records,
    fit_rows,
    pad_gates,
    project,
    tile_units,
    weights_by_state,
)
from .candidates import NUM_FACTORS, candidates_kernel
from .prepare import prepare_kernel
from .run_chip import run_chain_chip
from .run_launches import run_chain_launches

TILE = 512  # elements of a layer at some steps that a program of the candidates' kernel works on


def backward(
    call: Call, records: Records, updates: Tensor, gradients: Results, need_dx: bool
) -> Tuple[Operands, List[Tensor]]:
    """The gradients of the operands and of the weights, from those of the results."""
    if call.operands.c is None:
        gradients = gradients._replace(c=None)  # a registered op has an empty tensor instead
    batch = len(updates)
    at_once = fit_rows(updates, _bytes_per_row(call, records))
    sums = [
        LayerWeights(*(torch.zeros_like(w, dtype=torch.float32) for w in layer[:PER_LAYER])) for layer in call.layers
    ]
    parts = []
    for first in range(0, batch, at_once):
        some = slice(first, first + at_once)
        whole = at_once == batch
        parts.append(
            _Rows(
                call if whole else call.rows(some),
                records if whole else Records(*(tensor.contiguous() for tensor in records.rows(some))),
                updates[some],
                _rows(gradients, some),
            ).run(sums, need_dx)
        )
    operands = parts[0] if len(parts) == 1 else _join(parts)
    d_weights = [
        LayerWeights(*(total.to(w.dtype) for total, w in zip(s[:PER_LAYER], w))) for s, w in zip(sums, call.layers)
    ]
    sources = call.operands.differentiable()
    operands = Operands(*(d if d is None else d.to(source.dtype) for d, source in zip(operands, sources)))
    return operands, flatten_weights(d_weights)


def _bytes_per_row(call: Call, records: Records) -> int:
    """About what the backward of a sequence takes: the tensors of :class:`_Rows` for each update and for each step."""
    layers, states, gates = len(call.layers), call.num_states, call.cell.num_gates
    _, steps, features = call.operands.x.shape
    per_update = call.width * (layers * (3 * gates + NUM_FACTORS[call.options.cell]) + 3 * states + 1) + 2 * features
    return 4 * (per_update * len(records.p) + (call.width * (layers * gates + states) + features) * steps)


def count_warps(size: int) -> int:
    """Warps of a program that works on vectors of ``size``; a power of two."""
    return max(1, min(8, next_power_of_2(size // 512)))


def _rows(gradients: Results, some: slice) -> Results:
    output, h, c, *others = gradients
    h, c = (None if tensor is None else tensor[:, some] for tensor in (h, c))
    return Results(output[some], h, c, *(tensor[some] for tensor in others))


def _join(parts: List[Operands]) -> Operands:
    """The gradients of all sequences; those of the gate's parameters are sums."""
    columns = list(zip(*parts))
    joined = []
    for name, column in zip(Operands._fields, columns):
        if column[0] is None:
            joined.append(None)
        elif name in ("gate_weight", "gate_bias"):
            joined.append(sum(column))
        else:
            joined.append(torch.cat(column, 1 if name in ("h", "c", "dropout_mask") else 0))
    return Operands(*joined)


class _Rows:
    """The backward of some sequences."""

    def __init__(self, call: Call, records: Records, updates: Tensor, gradients: Results):
        self.call, self.records, self.updates, self.gradients = call, records, updates, gradients
        self.plan = policy.choose(call)
        made = updates.to(torch.int32)  # the sum of integers is deterministic on CUDA
        self.held = made.cumsum(1, dtype=torch.int32) - made

    def run(self, sums: List[LayerWeights], need_dx: bool) -> Operands:
        """The gradients of the operands; those of the weights are added to ``sums``."""
        call, operands, gradients = self.call, self.call.operands, self.gradients
        candidates, factors = self._candidates()
        prepared = self._prepare(candidates, factors)
        del candidates
        d_h = gradients.h.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        d_c = None if operands.c is None else gradients.c.to(torch.float32).contiguous()
        if call.options.last_only:
            d_h[-1] += gradients.output
        run_chain = run_chain_chip if self.plan.on_chip else run_chain_launches
        chained = run_chain(self.plan, call, self.records, prepared, d_h, d_c)
        dx, d_mask = self._multiply(chained, prepared.factors, sums, need_dx)
        d_weight, d_bias = self._gate(chained)
        if call.is_gated:
            d_p, d_acc = chained.p, chained.acc
        else:  # p and acc stay as they are
            d_p, d_acc = gradients.p.clone(), gradients.acc.clone()
        return Operands(dx, chained.h, chained.c, d_p, d_acc, d_weight, d_bias, d_mask)

    def _candidates(self) -> Tuple[Tensor, Tensor]:
        """The candidates of all steps, [B, T, S, P], and the factors of the updates, [K + 1, B, L, C, P]."""
        call, records, operands = self.call, self.records, self.call.operands
        batch, steps, _ = operands.x.shape
        layers, width, cell = len(call.layers), call.width, call.options.cell
        candidates = operands.h.new_empty(batch, steps, call.num_states, width, dtype=torch.float32)
        factors = records.p.new_zeros(*records.p.shape, layers, NUM_FACTORS[cell], width)
        padded = tile_units(call.hidden)
        steps_at_once = max(1, TILE // padded)
        below = operands.x
        for layer, weights in enumerate(call.layers):
            if layer > 0:
                below = candidates[:, :, layer - 1, : call.hidden].to(operands.x.dtype)
                if operands.dropout_mask is not None:
                    below = below * operands.dropout_mask[layer - 1].unsqueeze(1)
            h = records.states[:, :, layer, : call.hidden]
            after = cell != "gru_reset_before"
            recurrent = pad_gates(call, weights.weight_hh if after else weights.weight_hh[: 2 * call.hidden])
            arguments = {
                "projected": project(call, layer, below),
                "recurrent": linear(h, recurrent),
                "reset_product": None,
                "bias_n": weights.bias_hh[2 * call.hidden :] if cell == "gru" else None,
                "states": records.states,
                "held": self.held,
                "updates": self.updates,
                "begin": operands.begin,
                "end": operands.end,
                "reset": None,
                "candidates": candidates,
                "factors": factors,
                "B": batch,
                "T": steps,
                "CELL": KERNEL_CELLS[cell],
                "G": call.cell.num_gates,
                "C": NUM_FACTORS[cell],
                "L": layers,
                "S": call.num_states,
                "LAYER": layer,
                "H": call.hidden,
                "P": width,
                "HP": padded,
                "STEPS": steps_at_once,
                "RESET": False,
            }
            grid = (batch * cdiv(steps, steps_at_once),)
            if not after:
                reset = operands.h.new_zeros(batch, steps, width)
                candidates_kernel[grid](**{**arguments, "reset": reset, "RESET": True})
                weight = pad_gates(call, weights.weight_hh[2 * call.hidden :])
                arguments["reset_product"] = linear(reset[..., : call.hidden], weight)
            candidates_kernel[grid](**arguments)
        return candidates, factors

    def _read_by_gate(self, layer: int) -> int:
        """The state of a layer that the gate reads."""
        return layer + (len(self.call.layers) if self.call.cell.has_c else 0)

    def _prepare(self, candidates: Tensor, factors: Tensor) -> Prepared:
        call, records, gradients, operands = self.call, self.records, self.gradients, self.call.operands
        count, batch = records.p.shape
        states, width = call.num_states, call.width
        every, gated = not call.options.last_only, call.is_gated
        through = [records.p.new_zeros(count, batch, states, width) if gated else None for _ in range(2)]
        scalars = records.p.new_zeros(count, batch, 4) if gated else None
        outputs = records.p.new_zeros(count, batch, width) if every else None
        prepared = Prepared(*through, scalars, outputs, factors)
        if not (every or gated):
            return prepared
        size = states * width
        prepare_kernel[(batch * count,)](
            records.states,
            records.p,
            records.acc,
            records.times,
            records.counts,
            operands.begin,
            operands.end,
            operands.acc,
            candidates,
            weights_by_state(call),
            operands.gate_bias,
            gradients.output,
            *(gradients.output.stride() if every else (0, 0, 0)),
            gradients.updates,
            *gradients.updates.stride(),
            gradients.p.contiguous(),
            gradients.acc.contiguous(),
            *through,
            scalars,
            outputs,
            batch,
            operands.x.shape[1],
            SP=size,
            SP_PADDED=next_power_of_2(size),
            TOP=(len(call.layers) - 1) * width,
            H=call.hidden,
            P=width,
            GATED=gated,
            LEARNED=call.is_learned,
            EVERY=every,
            num_warps=count_warps(size),
        )
        return prepared

    def _multiply(
        self, chained: Chained, factors: Tensor, sums: List[LayerWeights], need_dx: bool
    ) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """Add the gradients of the weights to ``sums``; returns those of x and of the dropout mask."""
        call, operands, states = self.call, self.call.operands, self.records.states
        hidden, dtype = call.hidden, operands.x.dtype
        d_mask = None if operands.dropout_mask is None else torch.empty_like(operands.dropout_mask)
        dx = None
        for layer, weights in enumerate(call.layers):
            d_input, d_recurrent, reset = self._gates(chained, factors, layer)
            d_input, d_recurrent = d_input[1:].to(dtype), d_recurrent[1:].to(dtype)
            if layer == 0:
                below = self._inputs()
            else:
                below = states[1:, :, layer - 1, :hidden]
                if operands.dropout_mask is not None:
                    d_below = d_input @ weights.weight_ih
                    d_mask[layer - 1] = (d_below * below).sum(0, dtype=torch.float32)
                    below = below * operands.dropout_mask[layer - 1]
            if layer == 0 and need_dx:
                d_below = d_input @ weights.weight_ih
                dx = self._scatter(d_below)
            h, total = states[:-1, :, layer, :hidden], sums[layer]
            _add_product(total.weight_ih, d_input, below)
            if reset is None:
                _add_product(total.weight_hh, d_recurrent, h)
            else:
                _add_product(total.weight_hh[: 2 * hidden], d_recurrent[..., : 2 * hidden], h)
                _add_product(total.weight_hh[2 * hidden :], d_recurrent[..., 2 * hidden :], (reset[1:] * h).to(dtype))
            total.bias_ih.add_(d_input.sum((0, 1), dtype=torch.float32))
            total.bias_hh.add_(d_recurrent.sum((0, 1), dtype=torch.float32))
        return dx, d_mask

    def _gates(self, chained: Chained, factors: Tensor, layer: int) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """The gradients of W x + b and of U h + b' at every update, [K + 1, B, G * H] each, and what h is multiplied by
        before the product for n, [K + 1, B, H], if it is."""
        call, hidden = self.call, self.call.hidden
        f = factors[:, :, layer, :, :hidden].unbind(2)
        dh, cell = chained.candidates[:, :, layer, :hidden], call.options.cell
        if cell == "lstm":
            dc = chained.candidates[:, :, len(call.layers) + layer, :hidden]
            gates = torch.cat([dc * f[1], dc * f[2], dc * f[3], dh * f[4]], -1)
            return gates, gates, None
        if cell == "rnn":
            return dh * f[0], dh * f[0], None
        if cell == "gru":
            r, z = dh * f[0], dh * f[1]
            return torch.cat([r, z, dh * f[3]], -1), torch.cat([r, z, dh * f[2]], -1), None
        gates = torch.cat([chained.resets[:, :, layer, :hidden] * f[1], dh * f[2], dh * f[0]], -1)
        return gates, gates, f[4]

    def _inputs(self) -> Tensor:
        """What the updates read, [K, B, D]; 0 beyond a sequence's number of updates."""
        x, times, counts = self.call.operands.x, self.records.times[1:], self.records.counts
        made = torch.arange(len(times), device=x.device).unsqueeze(1) < counts
        rows = torch.arange(len(x), device=x.device)
        return x[rows, times.masked_fill(~made, 0).long()].masked_fill_(~made.unsqueeze(-1), 0)

    def _scatter(self, values: Tensor) -> Tensor:
        """Values of the updates, [K, B, D], at their steps, [B, T, D]; 0 elsewhere."""
        if len(values) == 0:
            return torch.zeros_like(self.call.operands.x)
        rows = torch.arange(values.shape[1], device=values.device).unsqueeze(1)
        found = values[self.held.clamp(max=len(values) - 1).long(), rows]
        return found.masked_fill_((self.updates == 0).unsqueeze(-1), 0)

    def _gate(self, chained: Chained) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """The gradients of the gate's weight and bias."""
        call = self.call
        if not call.is_gated:
            return None, None
        logits = chained.logits[1:].flatten()
        states = self.records.states[1:]
        parts = [
            logits @ states[:, :, self._read_by_gate(layer), : call.hidden].flatten(0, 1).float()
            for layer in call.options.gate_layers
        ]
        return torch.cat(parts).unsqueeze(0), logits.sum().unsqueeze(0)


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the sum over updates and sequences of a b^T, of a [K, B, N] and b [K, B, M], to ``total`` [N, M].

    On a GPU products of half precision are summed in float32, also where they are more than 65,504.
    """
    a, b = a.flatten(0, 1).t(), b.flatten(0, 1)
    has_wide_sums = a.is_cuda and a.dtype in (torch.float16, torch.bfloat16) and total.dtype == torch.float32
    total.add_(torch.mm(a, b, out_dtype=torch.float32) if has_wide_sums else a @ b)
