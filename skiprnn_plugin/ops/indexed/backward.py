"""The gradients of :mod:`.by_update`: over the updates in reverse.

With ``d.`` the gradient of the loss with respect to ``.`` after step t, m = 1 where min(p, 1 - acc) is p, and sums over
all layers and over h and c, autograd on the specification gives, at every step,

    du_t = (direct) + sum <dS_t, S~_t - S_{t-1}> + dp_t (p~_t - p_{t-1}) - dacc_t v_t
    dv_t = du_t + (1 - u_t) dacc_t          dacc_{t-1} = m dv_t          dp_{t-1} = (1 - u_t) dp_t + m dv_t
    dp~_t = u_t dp_t                        dS~_t = u_t dS_t + (through the gate) w p~_t (1 - p~_t) dp~_t
    dS_{t-1} = (1 - u_t) dS_t + cell backward of dS~_t

(with updates from outside, du_t goes nowhere: dv_t = (1 - u_t) dacc_t). At a skipped step no gradient reaches x_t or
the weights, but du_t needs the values of its candidates, S~_t and p~_t. They are computed here, many together, from the
state that is held: nothing is kept for them. Only the scalars dp, dacc go step by step.
"""

from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..cells import add_product
from ..clock import values_before_rounding
from ..reference import update_probability
from ..types import LayerWeights, SkipState
from .forward import Inputs, Step, candidates, held_after, pick, start
from .skipped import Skipped, list_skipped

MANY = 64  # rows that are worth operations of their own
CHUNK = 4096  # rows that are as many as should be computed together


class Gradients(NamedTuple):
    """Of the inputs, by their names; None where there is none, or none was asked for."""

    x: Optional[Tensor]
    weights: List[LayerWeights]
    state: SkipState
    gate_weight: Optional[Tensor]
    gate_bias: Optional[Tensor]
    dropout_mask: Optional[Tensor]


def backward(
    inputs: Inputs,
    steps: List[Step],
    updates: Tensor,
    d_output: Tensor,
    d_state: SkipState,
    d_updates: Tensor,
    need_dx: bool,
) -> Gradients:
    """Gradients of the inputs from those of what ``forward`` returned. Empties ``steps``."""
    return _Backward(inputs, steps, updates.bool(), d_output, d_state, d_updates, need_dx).run()


class GateStep(NamedTuple):
    """What the gate's part of one iteration's updates needs, each [N].

    Attributes:
        direct: gradient of u_t that comes from outside.
        change: p~_t - p_{t-1}.
        slope: p~_t (1 - p~_t).
        v: v_t.
        free: m, 1 where min(p, 1 - acc) was p.
    """

    direct: Tensor
    change: Tensor
    slope: Tensor
    v: Tensor
    free: Tensor


class _Backward:
    """One backward pass. ``dh``, ``dc`` (a tensor [B, H] for each layer), ``dp`` and ``dacc`` [B] are the gradients of
    the state that each sequence holds where the pass has come to."""

    def __init__(self, inputs: Inputs, steps: List[Step], updates, d_output, d_state, d_updates, need_dx):
        self.inputs, self.steps, self.direct = inputs, steps, d_updates
        self.learned = inputs.gate is not None and inputs.schedule is None
        self.dh = [each.clone() for each in d_state.h]
        self.dc = [each.clone() for each in d_state.c] if inputs.cell.has_c else [None] * len(self.dh)
        self.dp, self.dacc = d_state.p.clone(), d_state.acc.clone()
        if inputs.last_only:
            self.d_held = None
            self.dh[-1] += d_output
        else:
            self.d_held = _sum_while_held(d_output, updates, inputs.real)
        if inputs.gate is not None:
            self._lay_out(updates)
            self.d_gate_weight = torch.zeros_like(inputs.gate.weight, dtype=self.dp.dtype)
            self.d_gate_bias = torch.zeros_like(inputs.gate.bias, dtype=self.dp.dtype)
        # Half precision would lose what many steps add up to
        self.wide = torch.promote_types(inputs.x.dtype, torch.float32)
        self.d_weights = [
            LayerWeights(*(torch.zeros_like(each, dtype=self.wide) for each in w[:4])) for w in inputs.weights
        ]
        self.products: List[list] = [[] for _ in inputs.weights]
        self.dx = torch.zeros_like(inputs.x, memory_format=torch.contiguous_format) if need_dx else None
        mask = inputs.dropout_mask
        self.d_mask = None if mask is None else torch.zeros_like(mask, dtype=self.wide)
        self.holds_initial = (updates.cumsum(1) == 0) & inputs.real

    def run(self) -> Gradients:
        inputs, gate = self.inputs, self.inputs.gate
        while True:
            step = self.steps.pop() if self.steps else None  # and its memory is free after it
            if gate is not None:
                self._pass_skipped(step or start(inputs), self.skipped.pop())
            if step is None:
                break
            self._pass_updates(step, self.steps[-1] if self.steps else start(inputs))
        for layer, pending in enumerate(self.products):
            self._multiply(layer, pending)
        if self.d_held is not None and self.holds_initial.any():
            first = self.holds_initial.to(torch.uint8).argmax(1).view(-1, 1, 1)
            held = self.d_held.take_along_dim(first, 1).squeeze(1)
            self.dh[-1] += held * self.holds_initial.any(1, keepdim=True)
        state = SkipState(torch.stack(self.dh), torch.stack(self.dc) if inputs.cell.has_c else None, self.dp, self.dacc)
        d_gate = (None, None)
        if gate is not None:
            d_gate = self.d_gate_weight.to(gate.weight.dtype), self.d_gate_bias.to(gate.bias.dtype)
        d_weights = [
            LayerWeights(*(d.to(each.dtype) for d, each in zip(d_layer[:4], w)))
            for d_layer, w in zip(self.d_weights, inputs.weights)
        ]
        d_mask = None if self.d_mask is None else self.d_mask.to(inputs.dropout_mask.dtype)
        return Gradients(self.dx, d_weights, state, *d_gate, d_mask)

    def _lay_out(self, updates: Tensor) -> None:
        """What is known of the gate before the pass begins, for the updates and the skipped steps of each iteration."""
        inputs, (batch, length) = self.inputs, updates.shape
        held, sizes = held_after(updates), [batch, *(len(each.times) for each in self.steps)]
        first = torch.arange(batch, device=held.device)
        p = torch.cat([inputs.state.p, *(each.p for each in self.steps)])
        before = torch.cat([first.unsqueeze(1), held], 1)[:, :length]
        v, free = values_before_rounding(p[before], inputs.state.acc, updates, inputs.real)
        self.skipped = list_skipped(updates, inputs.real, held, sizes)
        self.gate_steps: List[GateStep] = []
        if self.steps and self.learned:
            rows = torch.cat([first if each.rows is None else each.rows for each in self.steps])
            at = rows, torch.cat([each.times for each in self.steps])
            new, old = p[batch:], p[before[at]]
            parts = self.direct[at], new - old, new * (1 - new), v[at], free[at].to(p.dtype)
            self.gate_steps = [GateStep(*each) for each in zip(*(part.split(sizes[1:]) for part in parts))]
        self.v, self.free = v, free

    def _pass_skipped(self, step: Step, skipped: Skipped) -> None:
        """The steps skipped after the updates of ``step``: only ``dp`` and ``dacc`` change."""
        if not skipped.counts:
            return
        rows = skipped.order if step.rows is None else step.rows[skipped.order]
        dp, dacc = self.dp[rows], self.dacc[rows]
        at = skipped.rows, skipped.times
        free = self.free[at].to(dp.dtype)
        gain = change = torch.zeros_like(free)
        rest = free
        if self.learned:
            gain, change = self._compare(step, skipped, rows)
            gain, change, rest = free * (gain + self.direct[at]), free * change, free * (1 - self.v[at])
        for each in reversed(list(zip(*(terms.split(skipped.counts) for terms in (gain, change, rest))))):
            gain, change, rest = each
            still = slice(0, len(gain))
            dv = torch.addcmul(torch.addcmul(gain, change, dp[still]), rest, dacc[still])  # times m
            dacc[still] = dv
            dp[still] += dv
        self.dp[rows], self.dacc[rows] = dp, dacc

    def _compare(self, step: Step, skipped: Skipped, rows: Tensor) -> Tuple[Tensor, Tensor]:
        """sum <dS_t, S~_t - S> and p~_t - p of each skipped step, [N]: what reading it would have changed. ``rows`` are
        those of ``skipped.order``."""
        inputs, order = self.inputs, skipped.order
        h, c, dh, dc = pick(step.h, order), pick(step.c, order), pick(self.dh, rows), pick(self.dc, rows)
        u, p = [inputs.cell.recur(each, w) for each, w in zip(h, inputs.weights)], step.p[order]
        results, done, first = [], 0, torch.arange(len(order), device=order.device)
        for count in skipped.counts:
            if count < MANY:
                break
            part = slice(done, done + count)
            held = [[None if each is None else each[:count] for each in tensors] for tensors in (h, c, dh, dc, u, [p])]
            results.append(self._compare_rows(skipped.rows[part], skipped.times[part], *held))
            done += count
        few = [first[:count] for count in skipped.counts[len(results) :]]
        if few:
            places = torch.cat(few)
            for place, *at in zip(*(each.split(CHUNK) for each in (places, skipped.rows[done:], skipped.times[done:]))):
                held = [pick(tensors, place) for tensors in (h, c, dh, dc, u, [p])]
                results.append(self._compare_rows(*at, *held))
        return tuple(torch.cat(each) for each in zip(*results))

    def _compare_rows(self, rows: Tensor, times: Tensor, h, c, dh, dc, u, p) -> Tuple[Tensor, Tensor]:
        inputs, has_c = self.inputs, self.inputs.cell.has_c
        new_h, new_c, _ = candidates(inputs, inputs.x[rows, times], h, c, rows, u)
        gain = 0
        for layer, (d, new, old) in enumerate(zip(dh, new_h, h)):
            if self.d_held is not None and layer == len(h) - 1:
                d = d + self.d_held[rows, times]
            gain = gain + _dot(d, new - old)
            if has_c:
                gain = gain + _dot(dc[layer], new_c[layer] - c[layer])
        return gain, update_probability(new_c if has_c else new_h, inputs.gate, p[0].dtype) - p[0]

    def _pass_updates(self, step: Step, before: Step) -> None:
        """The updates of ``step``, which found what ``before`` had made."""
        inputs = self.inputs
        dh, dc = pick(self.dh, step.rows), pick(self.dc, step.rows)
        old_h, old_c = pick(before.h, step.parent), pick(before.c, step.parent)
        rows = torch.arange(len(self.dp), device=step.times.device) if step.rows is None else step.rows
        at = rows, step.times
        if self.d_held is not None:
            dh[-1] = dh[-1] + self.d_held[at]
        if inputs.gate is not None:
            self._pass_gate(step, dh, dc, old_h, old_c)
        for layer in range(len(dh) - 1, -1, -1):
            w = inputs.weights[layer]
            d_input, d_recurrent, d_old_h, d_old_c = inputs.cell.backward(
                dh[layer], dc[layer], step.kept[layer], old_h[layer], old_c[layer], w
            )
            self._put("dh", step.rows, d_old_h, layer)
            if d_old_c is not None:
                self._put("dc", step.rows, d_old_c, layer)
            read = inputs.x[at] if layer == 0 else step.h[layer - 1]
            if layer > 0:
                below = d_input @ w.weight_ih
                if inputs.dropout_mask is not None:
                    mask = inputs.dropout_mask[layer - 1][rows]
                    self.d_mask[layer - 1, rows] += below * read
                    below, read = below * mask, read * mask
                dh[layer - 1] = dh[layer - 1] + below
            elif self.dx is not None:
                self.dx[at] = d_input @ w.weight_ih
            self._collect(layer, (d_input, d_recurrent, read, old_h[layer], *step.kept[layer]))

    def _pass_gate(self, step: Step, dh, dc, old_h, old_c) -> None:
        """The gate's part of :meth:`_pass_updates`; adds to ``dh`` and ``dc`` what comes back through it."""
        gate, has_c = self.inputs.gate, self.inputs.cell.has_c
        dp, dacc = pick((self.dp, self.dacc), step.rows)
        if self.learned:
            of = self.gate_steps.pop()
            du = torch.addcmul(torch.addcmul(of.direct, dp, of.change), dacc, of.v, value=-1)
            for layer, d in enumerate(dh):
                du = du + _dot(d, step.h[layer] - old_h[layer])
                if has_c:
                    du = du + _dot(dc[layer], step.c[layer] - old_c[layer])
            dv, slope = of.free * du, of.slope
        else:
            dv, slope = torch.zeros_like(dp), step.p * (1 - step.p)
        self._put("dp", step.rows, dv)
        self._put("dacc", step.rows, dv.clone())
        d_logit = dp * slope
        part, states, hidden = dc if has_c else dh, step.c if has_c else step.h, dh[0].shape[-1]
        self.d_gate_bias += d_logit.sum()
        for i, layer in enumerate(gate.layers):
            which = slice(i * hidden, (i + 1) * hidden)
            self.d_gate_weight[0, which].addmv_(states[layer].to(d_logit.dtype).t(), d_logit)
            weight = gate.weight[0, which].to(part[layer].dtype)
            part[layer] = torch.addcmul(part[layer], d_logit.unsqueeze(1).to(weight.dtype), weight)

    def _put(self, name: str, rows: Optional[Tensor], value: Tensor, layer: Optional[int] = None) -> None:
        """Set the gradient ``name`` (of ``layer``) of these sequences, of all for None."""
        if rows is not None:
            (getattr(self, name) if layer is None else getattr(self, name)[layer])[rows] = value
        elif layer is None:
            setattr(self, name, value)
        else:
            getattr(self, name)[layer] = value

    def _collect(self, layer: int, factors: Tuple[Tensor, ...]) -> None:
        """Add to the weights' gradients, in products of many rows."""
        pending = self.products[layer]
        pending.append(factors)
        if len(factors[0]) * len(pending) >= 2 * MANY:
            self._multiply(layer, pending)

    def _multiply(self, layer: int, pending: list) -> None:
        if not pending:
            return
        d_input, d_recurrent, read, h, *kept = (
            each[0] if len(each) == 1 else torch.cat(each) for each in zip(*pending)
        )
        d = self.d_weights[layer]
        add_product(d.weight_ih, d_input, read)
        self.inputs.cell.add_weight_hh_grad(d.weight_hh, d_recurrent, h, kept)
        d.bias_ih.add_(d_input.sum(0, dtype=self.wide))
        d.bias_hh.add_(d_recurrent.sum(0, dtype=self.wide))
        pending.clear()


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.vecdot(a, b)


def _sum_while_held(d_output: Tensor, updates: Tensor, real: Tensor) -> Tensor:
    """From every step on, the sum of the outputs' gradients as long as the state is held, [B, T, H]."""
    d_output = d_output.masked_fill(~real.unsqueeze(-1), 0)
    held = torch.empty_like(d_output)
    wide = torch.promote_types(d_output.dtype, torch.float32)
    total = torch.zeros_like(d_output[:, 0], dtype=wide)
    for t in range(d_output.shape[1] - 1, -1, -1):
        total = total + d_output[:, t]
        held[:, t] = total
        total = total.masked_fill(updates[:, t].unsqueeze(-1), 0)
    return held
