"""A budget that brings the fraction of the steps that are updated to a target."""

import math
import warnings
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from ..arguments import check_fraction, check_size
from ..ops.tracing import never_compiled

# The task loss and the update fraction of a batch are noisy, so both are smoothed, over about 1 / (1 - SMOOTHING)
# training updates. The update fraction has to be recent, as the price follows it.
LOSS_SMOOTHING = 0.95
FRACTION_SMOOTHING = 0.9

DEFAULT_RAMP = 600  # training updates

# When the allowed fraction falls
FIRST_UPDATES = 20  # training updates that give the first task loss, to which all prices are relative
WAIT_UPDATES = 50  # training updates before which the allowed fraction does not fall
LEARNED = 0.8  # the task has begun to be learned when its loss is below this part of the first one
LATEST_START = 5  # times the ramp, after which the allowed fraction falls even if the task has not begun to be learned
HOLDS_WITHIN = (0.2, 0.03)  # the task loss holds below its best + 20%, or + 3% of the first
LOST_ABOVE = 0.1  # the task is lost nearer to the first loss than to the best, and above the best + 10% of the first
SLOW_PACE = 0.25  # of the allowed fraction and of the price, while the task loss does not hold
FOLLOWED_WITHIN = 0.25  # the allowed fraction waits where the logarithm of the actual one is farther above it

# The price of using every step, as a part of the first task loss
LOWEST_PRICE, FIRST_PRICE, HIGHEST_PRICE = 5e-4, 0.05, 2.0
INTEGRAL_GAIN = 0.03  # change of the price's logarithm in a training update, for an error of 1
MAX_CHANGE = 0.0075  # of the price's logarithm in a training update
FALL_WHEN_LOST = 0.01  # of the price's logarithm in a training update, while the task is lost
PROPORTIONAL_GAIN = 3.0
# Updates are rewarded where the logarithm of the fraction is more than REWARD_BELOW below that of the allowed one
REWARD, REWARD_BELOW, MAX_REWARD = 0.1, 0.05, 10.0

MIN_FRACTION = 1e-4  # of the steps, where its logarithm is taken

MISSED_BY = 0.2  # of the target
CLOSED = 0.02  # of the steps
LOOK_INTERVAL = 100  # training updates between two looks at what has been reached
LONG = 10  # times the ramp

# Numbers that a step changes: finite training updates seen; smoothed update fraction and task loss; the loss that the
# first updates had, and the best; how far the allowed fraction has come (0 to 1); ln(price / (FIRST_PRICE * first))
STATE = ("seen", "fraction", "task_loss", "first", "best", "progress", "log_price")

Number = Union[float, Tensor]
CURE = (
    "Start with an open gate (gate_init='zeros', --gate-init zeros), lower the learning rate, or give it a longer ramp "
    "({})"
)


class BudgetRule:
    """The rule of :class:`Budget`, and its state, without the part that reads a batch.

    Args:
        target_fraction, ramp_updates: those of :class:`Budget`.
        names: what messages call these two.
    """

    def __init__(
        self,
        target_fraction: float,
        ramp_updates: int = DEFAULT_RAMP,
        names: Tuple[str, str] = ("target_fraction", "ramp_updates"),
    ):
        self.target_fraction = check_fraction(names[0], target_fraction)
        self.ramp_updates = check_size(names[1], ramp_updates)
        self.names = names
        self.warned = False
        self._state: Dict[str, float] = {"num_updates": 0, **dict.fromkeys(STATE, 0.0)}
        self._pending: Optional[Tuple[Tensor, Optional[torch.cuda.Event]]] = None

    @property
    def state(self) -> Dict[str, float]:
        """The numbers that a step changes, after all steps."""
        if self._pending is not None:
            numbers, copied = self._pending
            self._pending = None
            if copied is not None:
                copied.synchronize()
            self._take(*numbers.tolist())
        return self._state

    def __getstate__(self) -> Dict[str, Any]:
        self.state  # an event cannot be copied  # noqa: B018
        return self.__dict__

    def state_dict(self) -> Dict[str, float]:
        """A copy of the state."""
        return dict(self.state)

    def load_state_dict(self, state: Dict[str, float]) -> None:
        """Continue from a state that :meth:`state_dict` gave."""
        self._pending = None
        self._state = {name: state[name] for name in self._state}

    @never_compiled
    def cost(self, fraction: Tensor) -> Tensor:
        """See :meth:`Budget.cost`."""
        # A gate can close within ten training updates: where this batch's fraction is below the smoothed one, it counts
        present = fraction.detach().double().mean().clamp(min=MIN_FRACTION).log() - self._allowed()
        error = present.clamp(max=self._error())
        price = self._base_price() * (1 + PROPORTIONAL_GAIN * error).clamp(0, 2)
        return ((price - self._reward(error)) * fraction).to(fraction.dtype)

    @never_compiled
    def price(self) -> float:
        """See :meth:`Budget.price`."""
        return self._base_price() * _clamp(1 + PROPORTIONAL_GAIN * self._error(), 0, 2)

    @never_compiled
    def step(self, fraction: Number, task_loss: Number) -> None:
        """See :meth:`Budget.step`."""
        self.state  # takes the step before  # noqa: B018
        tensors = [number for number in (fraction, task_loss) if isinstance(number, Tensor)]
        if not tensors:
            return self._take(float(fraction), float(task_loss))
        device = tensors[0].device
        numbers = [torch.as_tensor(number, device=device).detach().float() for number in (fraction, task_loss)]
        numbers, copied = torch.stack(numbers), None
        if device.type == "cuda":  # read when it is needed, a training update later, so that nothing waits for it
            numbers, copied = numbers.to("cpu", non_blocking=True), torch.cuda.Event()
            copied.record(torch.cuda.current_stream(device))
        self._pending = numbers, copied

    def _take(self, fraction: float, task_loss: float) -> None:
        if math.isfinite(fraction) and math.isfinite(task_loss):
            self._update(fraction, task_loss)
        self._state["num_updates"] += 1
        if self._state["num_updates"] % LOOK_INTERVAL == 0:
            self._look()

    def warn_if_missed(self) -> None:
        """See :meth:`Budget.warn_if_missed`."""
        fraction = self.state["fraction"]
        if not self.warned and self.state["num_updates"] > 0 and abs(fraction / self.target_fraction - 1) > MISSED_BY:
            self.warned = True
            warnings.warn(self._describe(fraction), stacklevel=3)

    def _describe(self, fraction: float) -> str:
        state = self.state
        cure = CURE.format(self.names[1])
        wanted = f"{self.target_fraction:.1%} are wanted"
        reached = f"{self.names[0]}: {fraction:.1%} of the samples are used, where {wanted}"
        if fraction < CLOSED and state["task_loss"] > LEARNED * state["first"]:
            return f"{reached}, and the task is not learned: the gate is closed. {cure}"
        if fraction < self.target_fraction:
            return f"{reached}: the gate has closed further than it should. {cure}"
        if state["progress"] == 0:
            return (
                f"{reached}: the task loss has not fallen by {1 - LEARNED:.0%} yet, so samples cost nothing yet. Train "
                "longer, or make the task learnable without a budget first"
            )
        return (
            f"{reached}. Train longer, or set a shorter ramp ({self.names[1]}); or choose a larger target, if the task "
            "loss does not hold with fewer samples"
        )

    def _look(self) -> None:
        """Warn of a gate that has closed, and of a target that has been missed for a long time."""
        closed = self.state["fraction"] < min(CLOSED, self.target_fraction / 2)
        if closed or self.state["num_updates"] >= LONG * max(self.ramp_updates, DEFAULT_RAMP):
            self.warn_if_missed()

    def _update(self, fraction: float, task_loss: float) -> None:
        state = self._state
        if state["seen"] == 0:
            state.update(fraction=fraction, task_loss=task_loss)
        state["fraction"] += (1 - FRACTION_SMOOTHING) * (fraction - state["fraction"])
        state["task_loss"] += (1 - LOSS_SMOOTHING) * (task_loss - state["task_loss"])
        state["seen"] += 1
        loss = state["task_loss"]
        if state["seen"] <= FIRST_UPDATES:
            state["first"] = state["best"] = loss
        # The best task loss is forgotten slowly, over about a ramp
        state["best"] = min(loss, state["best"] + (loss - state["best"]) / self.ramp_updates)
        first, best, size = state["first"], state["best"], abs(state["first"])
        if state["progress"] == 0:
            begins = loss <= first - (1 - LEARNED) * size or state["seen"] > LATEST_START * self.ramp_updates
            if state["seen"] <= WAIT_UPDATES or not begins:
                return
        holds = loss < best + max(HOLDS_WITHIN[0] * abs(best), HOLDS_WITHIN[1] * size)
        lost = loss > max((best + first) / 2, best + LOST_ABOVE * size)
        if lost or self._error() < FOLLOWED_WITHIN:
            pace = -1.0 if lost else 1.0 if holds else SLOW_PACE
            state["progress"] = _clamp(state["progress"] + pace / self.ramp_updates, 1 / self.ramp_updates, 1)
        change = _clamp(INTEGRAL_GAIN * self._error(), -MAX_CHANGE, MAX_CHANGE)
        if lost:
            change = -FALL_WHEN_LOST
        elif change > 0 and not holds:
            change *= SLOW_PACE
        lowest, highest = math.log(LOWEST_PRICE / FIRST_PRICE), math.log(HIGHEST_PRICE / FIRST_PRICE)
        state["log_price"] = _clamp(state["log_price"] + change, lowest, highest)

    def _error(self) -> float:
        """The logarithm of the smoothed fraction divided by the allowed one."""
        return math.log(max(self.state["fraction"], MIN_FRACTION)) - self._allowed()

    def _allowed(self) -> float:
        """The logarithm of the allowed fraction."""
        return self.state["progress"] * math.log(self.target_fraction)

    def _reward(self, error: Tensor) -> Tensor:
        """What opens a gate that has closed too far, in the unit of the price."""
        size = REWARD * abs(self.state["first"])
        return size * ((-error - REWARD_BELOW).exp() - 1).clamp(0, MAX_REWARD)

    def _base_price(self) -> float:
        state = self.state
        return FIRST_PRICE * abs(state["first"]) * math.exp(state["log_price"]) if state["progress"] > 0 else 0.0


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


class Budget(nn.Module):
    """A term for the loss that makes a gate use a target fraction of the steps.

    It needs no other number: the price of an update is found while training, relative to the task loss. In a training
    loop:

        budget = Budget(target_fraction=0.25)
        ...
        output, state, updates = rnn(x, lengths=lengths)
        task_loss = ...  # a scalar
        loss = task_loss + budget(updates, lengths, task_loss=task_loss)

    The rule. The *allowed* fraction of the steps starts at 1. As soon as the task begins to be learned, it falls to the
    target over ``ramp_updates`` training updates: at a quarter of that pace while the task loss does not hold against
    its best so far, and backwards while the task is lost, that is, while its loss is nearer to the first than to the
    best. The *error* is the logarithm of the actual fraction divided by the allowed one. The price rises and falls
    exponentially with the error; at a quarter of the rate where it would rise while the task loss does not hold, and
    it falls while the task is lost. Where the error is below -0.05, updates are rewarded, the more the farther below:
    so a closed gate opens again. The actual fraction is smoothed, but in the cost of a batch that uses less than this,
    that of the batch counts, as a gate can close within ten training updates.

    The state of the rule is in ``state_dict``, as numbers. On a CUDA device the fraction and the loss of a batch are
    copied to the host while it goes on, so that nothing waits for them.

    With several processes, or several batches for one training update, use :meth:`cost` in the loss, and :meth:`step`
    once for each training update, with the means over all batches of all processes.

    Args:
        target_fraction: the fraction of the steps to use, in (0, 1).
        ramp_updates: training updates in which the allowed fraction falls to the target, if all goes well. Train for
            five times as many, or more.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(self, target_fraction: float, ramp_updates: int = DEFAULT_RAMP):
        super().__init__()
        self.rule = BudgetRule(target_fraction, ramp_updates)

    @never_compiled
    def forward(
        self,
        updates: Tensor,
        lengths: Union[Tensor, Sequence[int], None] = None,
        *,
        task_loss: Number,
    ) -> Tensor:
        """The term to add to the loss, a scalar. While training, the rule also takes its next step.

        Args:
            updates: 1 where a step was updated, 0 where it was skipped or is padding, as a Skip RNN returns them:
                [B, T], or [2, B, T] of two directions.
            lengths: real steps of each sequence, [B]; None if there is no padding.
            task_loss: the mean task loss of the batch, a scalar in any unit. No gradient flows from the budget to it.

        Raises:
            ValueError: an argument of the wrong shape.
        """
        if isinstance(task_loss, Tensor) and task_loss.dim() != 0:
            raise ValueError(f"task_loss: expected the mean over the batch, a scalar, got {tuple(task_loss.shape)}")
        if not isinstance(updates, Tensor) or updates.dim() not in (2, 3):
            got = tuple(updates.shape) if isinstance(updates, Tensor) else type(updates).__name__
            raise ValueError(f"updates: expected a tensor [B, T] or [2, B, T], got {got}")
        count = updates.sum(-1)
        if count.numel() == 0:  # a batch of no sequences has no mean
            return count.sum()
        steps = updates.shape[-1] if lengths is None else torch.as_tensor(lengths, device=updates.device)
        steps = torch.as_tensor(steps, dtype=count.dtype, device=count.device)
        if steps.dim() > 0 and steps.shape != count.shape[-1:]:
            raise ValueError(f"lengths: expected [{count.shape[-1]}], got {tuple(steps.shape)}")
        steps = steps.expand(count.shape)
        cost = self.rule.cost(count / steps.clamp(min=1)).mean()
        if self.training:
            self.rule.step(count.detach().sum() / steps.sum(), task_loss)  # NaN without steps, which does not count
        return cost

    def cost(self, fraction: Tensor) -> Tensor:
        """What sequences pay that use the given fractions of their steps, in the shape of ``fraction``. They are those
        of a whole batch, as the price depends on their mean."""
        return self.rule.cost(fraction)

    def step(self, fraction: Number, task_loss: Number) -> None:
        """Take a training update into account.

        Args:
            fraction: updates of the batch divided by its real steps.
            task_loss: its mean task loss. An update with a loss or fraction that is not finite is left out.
        """
        self.rule.step(fraction, task_loss)

    def price(self) -> float:
        """The price of using every step of a sequence, in the unit of the task loss, by the smoothed fraction."""
        return self.rule.price()

    def warn_if_missed(self) -> None:
        """Warn if the fraction differs from the target by more than a fifth of it; to be called after training. An
        object warns once at most."""
        self.rule.warn_if_missed()

    def get_extra_state(self) -> Dict[str, Any]:
        return self.rule.state_dict()

    def set_extra_state(self, state: Dict[str, Any]) -> None:
        self.rule.load_state_dict(state)

    def extra_repr(self) -> str:
        return f"target_fraction={self.rule.target_fraction}, ramp_updates={self.rule.ramp_updates}"
