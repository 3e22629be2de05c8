"""Lambda, what one update costs in the loss: a constant, a warm-up to it, or a value that a controller adjusts.

Here an update is an update of the state, one step that is used; an optimiser step is called a training update.
"""

import math
from typing import Any, Dict, Optional

import torch
from torch import nn

# The controller: ln(lambda / --cost-per-sample) = PROPORTIONAL e + INTEGRAL (sum of e over training updates), where e
# is the distance of the update fraction from the target, divided by the largest distance possible on that side (so
# from -1, no step is used, to 1, every step is), smoothed over about 1 / (1 - SMOOTHING) training updates. It works on
# the logarithm because the power of ten that a task needs is not known beforehand. The proportional part reacts at once
# and so damps the oscillation of the integral part, which is needed to remove the error that would otherwise remain.
PROPORTIONAL = 4.0
INTEGRAL = 0.01
SMOOTHING = 0.9
RANGE = math.log(1e4)  # lambda stays within this factor of --cost-per-sample, and the sum is limited likewise


class Cost(nn.Module):
    """Lambda at every training update.

    Args:
        cost_per_sample: lambda; with a target fraction, the value that the controller starts from.
        warmup_updates: training updates over which lambda rises linearly from 0; the controller starts after them.
        target_fraction: the update fraction that the controller adjusts lambda towards; None for no controller.

    Raises:
        ValueError: an argument is out of its range; the message names the option.
    """

    def __init__(self, cost_per_sample: float, warmup_updates: int = 0, target_fraction: Optional[float] = None):
        super().__init__()
        if not (math.isfinite(cost_per_sample) and cost_per_sample >= 0):
            raise ValueError(f"--cost-per-sample: expected a number of at least 0, got {cost_per_sample}")
        if warmup_updates < 0:
            raise ValueError(f"--cost-warmup-updates: expected at least 0, got {warmup_updates}")
        if target_fraction is not None:
            if not 0 < target_fraction < 1:
                raise ValueError(f"--target-fraction: expected a fraction between 0 and 1, got {target_fraction}")
            if cost_per_sample == 0:
                raise ValueError("--cost-per-sample: --target-fraction starts from it and needs it above 0, got 0")
        self.cost_per_sample = cost_per_sample
        self.warmup_updates = warmup_updates
        self.target_fraction = target_fraction
        # What changes: training updates made, smoothed error (None before the first), sum of the error
        self.progress: Dict[str, Any] = {"num_updates": 0, "error": None, "integral": 0.0}
        if not self.is_constant:
            # An empty parameter, because fairseq saves a criterion's state only if it has parameters
            self.saved = nn.Parameter(torch.empty(0), requires_grad=False)

    @property
    def is_constant(self) -> bool:
        return self.warmup_updates == 0 and self.target_fraction is None

    @property
    def value(self) -> float:
        """Lambda in the next training update."""
        num_updates, error, integral = (self.progress[name] for name in ("num_updates", "error", "integral"))
        if num_updates < self.warmup_updates:
            return self.cost_per_sample * num_updates / self.warmup_updates
        exponent = 0.0 if error is None else PROPORTIONAL * error + integral
        return self.cost_per_sample * math.exp(min(max(exponent, -RANGE), RANGE))

    def step(self, update_fraction: float) -> None:
        """Take a training update into account; ``update_fraction`` is the fraction of its steps that were used, over
        all workers."""
        progress = self.progress
        progress["num_updates"] += 1
        if self.target_fraction is None or progress["num_updates"] < self.warmup_updates:
            return
        error, last = update_fraction - self.target_fraction, progress["error"]
        error /= 1 - self.target_fraction if error > 0 else self.target_fraction
        progress["error"] = error if last is None else SMOOTHING * last + (1 - SMOOTHING) * error
        progress["integral"] = min(max(progress["integral"] + INTEGRAL * progress["error"], -RANGE), RANGE)

    def get_extra_state(self) -> Dict[str, Any]:
        return dict(self.progress)

    def set_extra_state(self, state: Dict[str, Any]) -> None:
        self.progress.update(state)

    def keep_in(self, task) -> None:
        """Keep the progress in the state of a fairseq task too, or take it from there if a checkpoint put it there.

        fairseq loads a task's state whenever it loads a model, but a criterion's state only when training resumes. So
        an evaluation uses the lambda that training had reached.
        """
        state = getattr(task, "state", None)
        if self.is_constant or state is None:
            return
        self.progress.update(state.state_dict.get("cost", {}))
        state.merge_state_dict({"cost": self.progress})
