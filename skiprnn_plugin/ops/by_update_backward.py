"""The gradients of :mod:`.by_update`: over the updates in reverse, as section "Gradients" of the model has them.

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

from . import jump
from .by_update import Inputs, Step, candidates, held_after, pick, start
from .reference import update_probability
from .types import LayerWeights, SkipState

CHUNK = 4096  # rows that are worth one product; more skipped steps than that are not computed together


class Gradients(NamedTuple):
    """Of the inputs, by their names; None where there is none, or none was asked for."""

    x: Optional[Tensor]
    weights: List[LayerWeights]
    state: SkipState
    gate_weight: Optional[Tensor]
    gate_bias: Optional[Tensor]
    dropout_mask: Optional[Tensor]


class Skipped(NamedTuple):
    """The steps skipped after one iteration's updates; N is their number.

    Attributes:
        rows: whose they are, int64 [N].
        times: when, int64 [N].
        place: of the sequence among those of the iteration, int64 [N].
        to_go: skipped steps that follow before the next update, int64 [N].
        longest: the most that follow one update.
    """

    rows: Tensor
    times: Tensor
    place: Tensor
    to_go: Tensor
    longest: int


def backward(
    inputs: Inputs,
    steps: List[Step],
    updates: Tensor,
    d_output: Tensor,
    d_state: SkipState,
    d_updates: Tensor,
    need_dx: bool = True,
) -> Gradients:
    """Gradients of the inputs from those of what ``forward`` returned. Empties ``steps``."""
    return _Backward(inputs, steps, updates.bool(), d_output, d_state, d_updates, need_dx).run()


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
            self._list_skipped(updates)
            self.d_gate_weight = torch.zeros_like(inputs.gate.weight, dtype=self.dp.dtype)
            self.d_gate_bias = torch.zeros_like(inputs.gate.bias, dtype=self.dp.dtype)
        self.d_weights = [LayerWeights(*map(torch.zeros_like, w[:4])) for w in inputs.weights]
        self.products: List[list] = [[] for _ in inputs.weights]
        self.dx = torch.zeros_like(inputs.x, memory_format=torch.contiguous_format) if need_dx else None
        self.d_mask = None if inputs.dropout_mask is None else torch.zeros_like(inputs.dropout_mask)
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
        return Gradients(self.dx, self.d_weights, state, *d_gate, self.d_mask)

    def _list_skipped(self, updates: Tensor) -> None:
        """The skipped steps of every iteration; and for all steps v, and whether p is what it grew by, [B, T]."""
        inputs, (batch, length) = self.inputs, updates.shape
        held, sizes = held_after(updates), [batch, *(len(each.times) for each in self.steps)]
        first = torch.arange(batch, device=held.device).unsqueeze(1)
        p = torch.cat([inputs.state.p, *(each.p for each in self.steps)])
        before = torch.cat([first, held], 1)[:, :length]
        self.v, self.free = jump.values_before_rounding(p[before], inputs.state.acc, updates, inputs.real)
        skipped = inputs.real & ~updates
        rows, times = skipped.nonzero().unbind(1)
        order = updates.long().cumsum(1)[rows, times].argsort(stable=True)
        rows, times = rows[order], times[order]
        # real steps are contiguous, so from a skipped one the next step that is none ends the run
        step = torch.arange(length, device=held.device)
        stop = torch.where(skipped, length, step).flip(1).cummin(1).values.flip(1) if length > 0 else held
        to_go = stop[rows, times] - 1 - times
        starts = torch.tensor([0, *sizes], device=held.device).cumsum(0)
        iteration = torch.searchsorted(starts, held[rows, times], right=True) - 1
        count = torch.bincount(iteration, minlength=len(sizes))
        longest = torch.zeros_like(count).scatter_reduce(0, iteration, to_go + 1, "amax")
        count, longest = torch.stack([count, longest]).tolist()
        place = held[rows, times] - starts[iteration]
        parts = (each.split(count) for each in (rows, times, place, to_go))
        self.skipped = [Skipped(*each) for each in zip(*parts, longest)]

    def _pass_skipped(self, step: Step, skipped: Skipped) -> None:
        """The steps skipped after the updates of ``step``: only ``dp`` and ``dacc`` change."""
        if skipped.longest == 0:
            return
        at = skipped.rows, skipped.times
        free = self.free[at].to(self.dp.dtype)
        gain = change = torch.zeros_like(free)
        rest = free
        if self.learned:
            gain, change = self._compare(step, skipped)
            gain, change, rest = free * (gain + self.direct[at]), free * change, free * (1 - self.v[at])
        table = free.new_zeros(4, skipped.longest, len(step.p))
        table[2] = 1  # a step that is not there changes nothing
        table[:, skipped.to_go, skipped.place] = torch.stack([gain, change, rest, torch.ones_like(free)])
        dp, dacc = pick((self.dp, self.dacc), step.rows)
        for gain, change, rest, one in zip(*(each.unbind(0) for each in table)):
            dacc = torch.addcmul(torch.addcmul(gain, change, dp), rest, dacc)  # m dv
            dp = torch.addcmul(dp, one, dacc)
        self._put("dp", step.rows, dp)
        self._put("dacc", step.rows, dacc)

    def _compare(self, step: Step, skipped: Skipped) -> Tuple[Tensor, Tensor]:
        """sum <dS_t, S~_t - S> and p~_t - p of each skipped step, [N]: what reading it would have changed."""
        inputs, has_c = self.inputs, self.inputs.cell.has_c
        dh, dc = pick(self.dh, step.rows), pick(self.dc, step.rows)
        recurred = [inputs.cell.recur(h, w) for h, w in zip(step.h, inputs.weights)]
        gains, changes = [], []
        for rows, times, place in zip(*(each.split(CHUNK) for each in skipped[:3])):
            old_h, old_c, u = pick(step.h, place), pick(step.c, place), pick(recurred, place)
            new_h, new_c, _ = candidates(inputs, inputs.x[rows, times], old_h, old_c, rows, u)
            d_top = dh[-1][place] if self.d_held is None else dh[-1][place] + self.d_held[rows, times]
            gain = _dot(d_top, new_h[-1] - old_h[-1])
            for layer in range(len(old_h) - 1):
                gain = gain + _dot(dh[layer][place], new_h[layer] - old_h[layer])
            for layer in range(len(old_h) if has_c else 0):
                gain = gain + _dot(dc[layer][place], new_c[layer] - old_c[layer])
            p = update_probability(new_c if has_c else new_h, inputs.gate, step.p.dtype)
            gains.append(gain)
            changes.append(p - step.p[place])
        return torch.cat(gains), torch.cat(changes)

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
            self._pass_gate(step, pick((before.p,), step.parent)[0], at, dh, dc, old_h, old_c)
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

    def _pass_gate(self, step: Step, old_p: Tensor, at, dh, dc, old_h, old_c) -> None:
        """The gate's part of :meth:`_pass_updates`; adds to ``dh`` and ``dc`` what comes back through it."""
        gate, has_c = self.inputs.gate, self.inputs.cell.has_c
        dp, dacc = pick((self.dp, self.dacc), step.rows)
        dv = torch.zeros_like(dp)
        if self.learned:
            du = self.direct[at] + dp * (step.p - old_p) - dacc * self.v[at]
            for layer, d in enumerate(dh):
                du = du + _dot(d, step.h[layer] - old_h[layer])
                if has_c:
                    du = du + _dot(dc[layer], step.c[layer] - old_c[layer])
            dv = self.free[at] * du
        self._put("dp", step.rows, dv)
        self._put("dacc", step.rows, dv.clone())
        d_logit = dp * step.p * (1 - step.p)
        part, states, hidden = dc if has_c else dh, step.c if has_c else step.h, dh[0].shape[-1]
        self.d_gate_bias += d_logit.sum()
        for i, layer in enumerate(gate.layers):
            which = slice(i * hidden, (i + 1) * hidden)
            self.d_gate_weight[0, which] += d_logit @ states[layer].to(d_logit.dtype)
            through = torch.outer(d_logit.to(gate.weight.dtype), gate.weight[0, which])
            part[layer] = part[layer] + through.to(part[layer].dtype)

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
        if len(factors[0]) * len(pending) >= CHUNK // 32:
            self._multiply(layer, pending)

    def _multiply(self, layer: int, pending: list) -> None:
        if not pending:
            return
        d_input, d_recurrent, read, h, *kept = (
            each[0] if len(each) == 1 else torch.cat(each) for each in zip(*pending)
        )
        d = self.d_weights[layer]
        d.weight_ih.addmm_(d_input.t(), read)
        d.weight_hh.add_(self.inputs.cell.weight_hh_grad(d_recurrent, h, kept))
        d.bias_ih.add_(d_input.sum(0))
        d.bias_hh.add_(d_recurrent.sum(0))
        pending.clear()


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _sum_while_held(d_output: Tensor, updates: Tensor, real: Tensor) -> Tensor:
    """From every step on, the sum of the outputs' gradients as long as the state is held, [B, T, H]."""
    d_output = d_output.masked_fill(~real.unsqueeze(-1), 0)
    held = torch.empty_like(d_output)
    total = torch.zeros_like(d_output[:, 0]) if d_output.shape[1] > 0 else None
    for t in range(d_output.shape[1] - 1, -1, -1):
        total = total + d_output[:, t]
        held[:, t] = total
        total = total.masked_fill(updates[:, t].unsqueeze(-1), 0)
    return held
