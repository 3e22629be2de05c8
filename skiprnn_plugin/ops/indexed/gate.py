"""The gradients of the gate: of its scalars p and acc, step by step, and of its weight and bias.

With the names of :mod:`.backward`, m = 1 where min(p, 1 - acc) is p and 0 elsewhere, and <.,.> summed over all layers
and over h and c, autograd on the specification gives, at every step,

    du_t = (gradient of the updates) + <dS_t, S~_t - S_{t-1}> + dp_t (p~_t - p_{t-1}) - dacc_t v_t
    dv_t = du_t + (1 - u_t) dacc_t
    dacc_{t-1} = m dv_t
    dp_{t-1} = (1 - u_t) dp_t + m dv_t
    dp~_t = u_t dp_t

With updates from outside, du_t has no effect: dv_t = (1 - u_t) dacc_t. At a skipped step du_t needs the candidates
S~_t and p~_t, which the forward pass did not compute. They are computed here, for many skipped steps at once, from the
state that is held: nothing is kept for them. Only the scalars dp and dacc are computed step by step.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..clock import values_before_rounding
from ..reference import update_probability
from ..types import Results
from .forward import Inputs, Iteration, candidates, held_after, pick
from .gradients import MANY, StateGradients, add_inner_products, replace_rows
from .skipped import Skipped, list_skipped

CHUNK = 4096  # rows to compute together at most


class UpdateTerms(NamedTuple):
    """Gate values that the gradients at one iteration's updates use, [N] each.

    Attributes:
        direct: gradient of the updates.
        change: p~_t - p_{t-1}.
        slope: p~_t (1 - p~_t).
        v: v_t.
        uncapped: m, 1 where min(p, 1 - acc) was p.
    """

    direct: Tensor
    change: Tensor
    slope: Tensor
    v: Tensor
    uncapped: Tensor


class GateGradients:
    """The gradients of the gate's scalars at the current point of the backward pass, and of its parameters so far.

    Attributes:
        p: gradient of the update probability that each sequence holds, [B].
        acc: gradient of the accumulated probability, [B].
    """

    def __init__(self, inputs: Inputs, iterations: List[Iteration], updates: Tensor, gradients: Results):
        self.inputs, self.direct = inputs, gradients.updates
        self.learned = inputs.schedule is None
        self.p, self.acc = gradients.p.clone(), gradients.acc.clone()
        self.weight = torch.zeros_like(inputs.gate.weight, dtype=self.p.dtype)
        self.bias = torch.zeros_like(inputs.gate.bias, dtype=self.p.dtype)
        held, sizes = held_after(updates), [len(updates), *(len(iteration.times) for iteration in iterations)]
        self.skipped = list_skipped(updates, inputs.real, held, sizes)
        self._find_terms(iterations, updates, held, sizes)

    def _find_terms(self, iterations: List[Iteration], updates: Tensor, held: Tensor, sizes: List[int]) -> None:
        """Compute what is known of the gate at all steps before the pass begins: ``v``, ``uncapped`` and ``terms``."""
        batch, length = updates.shape
        first = torch.arange(batch, device=held.device)
        p = torch.cat([self.inputs.state.p, *(iteration.p for iteration in iterations)])
        before = torch.cat([first.unsqueeze(1), held], 1)[:, :length]  # the state before each step
        self.v, self.uncapped = values_before_rounding(p[before], self.inputs.state.acc, updates, self.inputs.real)
        self.terms: List[UpdateTerms] = []
        if iterations and self.learned:
            rows = torch.cat([first if iteration.rows is None else iteration.rows for iteration in iterations])
            place = rows, torch.cat([iteration.times for iteration in iterations])
            new, old = p[batch:], p[before[place]]
            columns = self.direct[place], new - old, new * (1 - new), self.v[place], self.uncapped[place].to(p.dtype)
            self.terms = [UpdateTerms(*terms) for terms in zip(*(column.split(sizes[1:]) for column in columns))]

    def parameters(self) -> Tuple[Tensor, Tensor]:
        """The gradients of the gate's weight and bias, in their dtypes."""
        gate = self.inputs.gate
        return self.weight.to(gate.weight.dtype), self.bias.to(gate.bias.dtype)

    def pass_updates(
        self,
        iteration: Iteration,
        dh: List[Tensor],
        dc: List[Optional[Tensor]],
        old_h: Sequence[Tensor],
        old_c: Sequence,
    ) -> None:
        """Pass the updates of ``iteration``, which changed ``old_h``, ``old_c``. The lists ``dh`` and ``dc`` hold the
        gradients of the states after them; what comes back through the gate is added there."""
        dp, dacc = pick((self.p, self.acc), iteration.rows)
        if self.learned:
            terms = self.terms.pop()
            du = torch.addcmul(torch.addcmul(terms.direct, dp, terms.change), dacc, terms.v, value=-1)
            du = add_inner_products(du, dh, dc, iteration.h, iteration.c, old_h, old_c)
            new_dp, slope = terms.uncapped * du, terms.slope
        else:
            new_dp, slope = torch.zeros_like(dp), iteration.p * (1 - iteration.p)
        self.p = replace_rows(self.p, iteration.rows, new_dp)
        self.acc = replace_rows(self.acc, iteration.rows, new_dp.clone())
        if self.inputs.cell.has_c:
            self._pass_logit(dp * slope, dc, iteration.c)
        else:
            self._pass_logit(dp * slope, dh, iteration.h)

    def _pass_logit(self, d_logit: Tensor, d_states: List[Tensor], states: Sequence[Tensor]) -> None:
        """From the gradient [N] of w . q + b to those of w and b, and of the states that make q (in ``d_states``)."""
        gate, hidden = self.inputs.gate, states[0].shape[-1]
        self.bias += d_logit.sum()
        for i, layer in enumerate(gate.layers):
            columns = slice(i * hidden, (i + 1) * hidden)
            self.weight[0, columns].addmv_(states[layer].to(d_logit.dtype).t(), d_logit)
            weight = gate.weight[0, columns].to(d_states[layer].dtype)
            d_states[layer] = torch.addcmul(d_states[layer], d_logit.unsqueeze(1).to(weight.dtype), weight)

    def pass_skipped(self, iteration: Iteration, states: StateGradients) -> None:
        """Pass the steps skipped after the updates of ``iteration``: only ``p`` and ``acc`` change."""
        skipped = self.skipped.pop()
        if not skipped.counts:
            return
        rows = skipped.order if iteration.rows is None else iteration.rows[skipped.order]
        dp, dacc = self.p[rows], self.acc[rows]
        place = skipped.rows, skipped.times
        uncapped = self.uncapped[place].to(dp.dtype)
        # m dv_t = gain + change dp_t + rest dacc_t
        gain = change = torch.zeros_like(uncapped)
        rest = uncapped
        if self.learned:
            gain, change = compare_skipped(self.inputs, iteration, skipped, rows, states)
            gain, change = uncapped * (gain + self.direct[place]), uncapped * change
            rest = uncapped * (1 - self.v[place])
        by_step = zip(*(terms.split(skipped.counts) for terms in (gain, change, rest)))
        for gain, change, rest in reversed(list(by_step)):
            still = slice(0, len(gain))  # the sequences that skip at least this many steps
            new_dacc = torch.addcmul(torch.addcmul(gain, change, dp[still]), rest, dacc[still])
            dacc[still] = new_dacc
            dp[still] += new_dacc
        self.p[rows], self.acc[rows] = dp, dacc


def compare_skipped(
    inputs: Inputs, iteration: Iteration, skipped: Skipped, rows: Tensor, states: StateGradients
) -> Tuple[Tensor, Tensor]:
    """How reading each skipped step would have changed the loss and p: <dS_t, S~_t - S> and p~_t - p, [N] each.

    Args:
        inputs: those of the forward pass.
        iteration: the one that made the states that are held.
        skipped: the N steps skipped after it.
        rows: the sequences of ``skipped.order``, int64 [M].
        states: the gradients of the states.
    """
    order = skipped.order
    h, c = pick(iteration.h, order), pick(iteration.c, order)
    recurred = [inputs.cell.recur(h_layer, w) for h_layer, w in zip(h, inputs.weights)]
    held = (h, c, pick(states.h, rows), pick(states.c, rows), recurred, [iteration.p[order]])
    results, done = [], 0
    for count in skipped.counts:  # many sequences that skip their j-th step: they are the first ones, so no copy
        if count < MANY:
            break
        place = skipped.rows[done : done + count], skipped.times[done : done + count]
        first = [[None if tensor is None else tensor[:count] for tensor in tensors] for tensors in held]
        results.append(_compare_rows(inputs, states, place, *first))
        done += count
    few = skipped.counts[len(results) :]
    if few:  # the steps that few sequences skip, those of all such j together
        numbers = torch.arange(len(order), device=order.device)
        sources = torch.cat([numbers[:count] for count in few])
        columns = sources, skipped.rows[done:], skipped.times[done:]
        for source, *place in zip(*(column.split(CHUNK) for column in columns)):
            results.append(_compare_rows(inputs, states, tuple(place), *(pick(tensors, source) for tensors in held)))
    gains, changes = zip(*results)
    return torch.cat(gains), torch.cat(changes)


def _compare_rows(
    inputs: Inputs, states: StateGradients, place: Tuple[Tensor, Tensor], h, c, dh, dc, recurred, p
) -> Tuple[Tensor, Tensor]:
    """:func:`compare_skipped` of the steps at ``place``, (sequences, steps); the rest are lists of held tensors."""
    new_h, new_c, _ = candidates(inputs, inputs.x[place], h, c, place[0], recurred)
    gain = add_inner_products(0, states.add_outputs(dh, place), dc, new_h, new_c, h, c)
    new_p = update_probability(new_c if inputs.cell.has_c else new_h, inputs.gate, p[0].dtype)
    return gain, new_p - p[0]
