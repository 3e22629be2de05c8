"""Lambda, what one update costs in the loss: a constant, a warm-up to it, or found for a target fraction.

Here an update is an update of the state, one step that is used; an optimiser step is called a training update.
"""

import math
from typing import Any, Dict, Optional

import torch
from torch import Tensor, nn

from ..arguments import check_count
from ..modules.budget import DEFAULT_RAMP, BudgetRule

RAMPS = 5  # that fit into a short training


class Cost(nn.Module):
    """Lambda at every training update.

    Args:
        cost_per_sample: lambda, where there is no target fraction.
        warmup_updates: training updates over which lambda rises linearly from 0; with a target fraction, those in
            which the allowed fraction falls to it (0: 600, or fewer, see :meth:`plan`).
        target_fraction: the update fraction to reach by the rule of :class:`skiprnn_plugin.modules.Budget`; None for
            a lambda that does not depend on the updates.

    Raises:
        ValueError: an argument is out of its range; the message names the option.
    """

    def __init__(self, cost_per_sample: float, warmup_updates: int = 0, target_fraction: Optional[float] = None):
        super().__init__()
        if not (math.isfinite(cost_per_sample) and cost_per_sample >= 0):
            raise ValueError(f"--cost-per-sample: expected a number of at least 0, got {cost_per_sample}")
        self.cost_per_sample = cost_per_sample
        self.warmup_updates = check_count("--cost-warmup-updates", warmup_updates)
        self.rule: Optional[BudgetRule] = None
        if target_fraction is not None:
            options = ("--target-fraction", "--cost-warmup-updates")
            self.rule = BudgetRule(target_fraction, warmup_updates or DEFAULT_RAMP, options)
        # What changes: training updates made, and the state of the rule
        self.progress: Dict[str, Any] = {"num_updates": 0} if self.rule is None else self.rule.state_dict()
        self._start = dict(self.progress)
        if not self.is_constant:
            # An empty parameter, because fairseq saves a criterion's state only if it has parameters
            self.saved = nn.Parameter(torch.empty(0), requires_grad=False)

    def plan(self, max_update: int) -> None:
        """Make the ramp of a target fraction fit into ``max_update`` training updates, unless its length was given."""
        if self.rule is not None and self.warmup_updates == 0:
            self.rule.ramp_updates = min(DEFAULT_RAMP, max(max_update // RAMPS, 1))

    @property
    def is_constant(self) -> bool:
        return self.warmup_updates == 0 and self.rule is None

    def of_steps(self, steps: Tensor) -> Tensor:
        """Lambda in the next training update for sequences of ``steps`` steps, float64, in the shape of ``steps``."""
        if self.rule is not None:
            return self.rule.price() / steps.double().clamp(min=1)
        warm = min(self.progress["num_updates"] / self.warmup_updates, 1.0) if self.warmup_updates > 0 else 1.0
        return torch.full(steps.shape, self.cost_per_sample * warm, dtype=torch.float64, device=steps.device)

    def forward(self, count: Tensor, steps: Tensor) -> Tensor:
        """What sequences pay, [B].

        Args:
            count: what lambda is multiplied by, [B]: the updates, or their distance from a target.
            steps: real steps, [B].
        """
        if self.rule is not None:
            return self.rule.cost(count / steps.clamp(min=1))
        return self.of_steps(steps).to(count.dtype) * count

    def step(self, update_fraction: float, task_loss: float) -> None:
        """Take a training update into account: the fraction of its steps that were used and its mean task loss, over
        all workers."""
        if self.rule is None:
            self.progress["num_updates"] += 1
        else:
            self.rule.step(update_fraction, task_loss)
            self.progress.update(self.rule.state_dict())

    def get_extra_state(self) -> Dict[str, Any]:
        return dict(self.progress)

    def set_extra_state(self, state: Dict[str, Any]) -> None:
        if self.progress.keys() <= state.keys():  # otherwise the checkpoint is of another kind of cost
            self.progress.update({name: state[name] for name in self.progress})
            if self.rule is not None:
                self.rule.load_state_dict(self.progress)

    def begin_training(self) -> None:
        """Forget the progress."""
        self.set_extra_state(self._start)

    def keep_in(self, task) -> None:
        """Keep the progress in the state of a fairseq task too, or take it from there if a checkpoint put it there.

        fairseq loads a task's state whenever it loads a model, but a criterion's state only when training resumes. So
        an evaluation uses the lambda that training had reached.
        """
        state = getattr(task, "state", None)
        if self.is_constant or state is None:
            return
        self.set_extra_state(state.state_dict.get("cost", {}))
        state.merge_state_dict({"cost": self.progress})
