"""The budgets that are compared. Each is made from its value: a lambda, or a target fraction. It has
``cost(count, lengths)``, a scalar for the loss, and ``step(fraction, task_loss)``, called after each training update.
``Target`` also takes the length of its ramp; ``L1`` and ``L2`` lambda and the mean length of the sequences.
"""

import math

from skiprnn_plugin.modules import Budget


class Fixed:
    """The paper's: lambda for each update."""

    def __init__(self, value: float):
        self.cost_per_sample = value

    def cost(self, count, lengths):
        return self.cost_per_sample * count.mean()

    def step(self, fraction, task_loss):
        pass


class L1(Fixed):
    """``--budget l1``: lambda for each update more or less than the wanted number."""

    def __init__(self, value: float, cost_per_sample: float, mean_length: float):
        super().__init__(cost_per_sample)
        self.wanted = value * mean_length

    def cost(self, count, lengths):
        return self.cost_per_sample * (count - self.wanted).abs().mean()


class L2(L1):
    """``--budget l2``: lambda times the squared distance from the wanted number of updates."""

    def cost(self, count, lengths):
        return self.cost_per_sample * (count - self.wanted).square().mean()


class Controller(Fixed):
    """The controller that the plugin had first: the logarithm of lambda follows the distance from the target, by a
    proportional and an integral part, from lambda 1e-4 on; the task loss plays no part."""

    def __init__(self, value: float):
        super().__init__(1e-4)
        self.target, self.error, self.integral = value, None, 0.0

    def step(self, fraction, task_loss):
        error = fraction - self.target
        error /= 1 - self.target if error > 0 else self.target
        self.error = error if self.error is None else 0.9 * self.error + 0.1 * error
        limit = math.log(1e4)
        self.integral = min(max(self.integral + 0.01 * self.error, -limit), limit)
        self.cost_per_sample = 1e-4 * math.exp(min(max(4 * self.error + self.integral, -limit), limit))


class Holding:
    """Lambda, here for the fraction, is multiplied by a constant in each training update: it rises only while the task
    loss holds and the fraction is above the target. Updates are never rewarded."""

    def __init__(self, value: float):
        self.target, self.price, self.updates = value, 1e-3, 0
        self.loss = self.fraction = self.best = self.first = None

    def cost(self, count, lengths):
        return self.price * (count / lengths).mean()

    def step(self, fraction, task_loss):
        self.updates += 1
        if self.loss is None:
            self.loss, self.fraction = task_loss, fraction
        self.loss = 0.95 * self.loss + 0.05 * task_loss
        self.fraction = 0.95 * self.fraction + 0.05 * fraction
        if self.updates <= 20:
            self.first = self.best = self.loss
        self.best = min(self.best, self.loss)
        if self.updates > 50:
            holds = self.loss < max(1.2 * self.best, self.best + 0.03 * self.first) and self.loss < 0.7 * self.first
            factor = (1.015 if self.fraction > self.target else 0.985) if holds else 0.97
            self.price = min(max(self.price * factor, 1e-3), 10)


class Target:
    """The plugin's rule, :class:`skiprnn_plugin.modules.Budget`."""

    def __init__(self, value: float, ramp: int):
        self.budget = Budget(value, ramp)

    def cost(self, count, lengths):
        return self.budget.cost(count / lengths).mean()

    def step(self, fraction, task_loss):
        self.budget.step(fraction, task_loss)


RULES = {"fixed": Fixed, "l1": L1, "l2": L2, "controller": Controller, "holding": Holding, "target": Target}
