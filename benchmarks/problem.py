"""Builds problems: a Skip RNN whose gate updates at a given fraction of the steps, an input and a loss."""

import math
from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from skiprnn_plugin.modules import SkipGRU, SkipLSTM

from .shapes import MIXED, MIXED_MEAN, Fraction, Shape

SAMPLE = 16  # how many rows of the batch the calibration uses
SATURATED = 15.0  # a bias of the gate at which p differs from 1 or 0 by 3e-7
BUDGET = 1e-4  # weight of an update in the loss
TIE = 1e-5  # rounding may change decisions that are closer to the threshold than this


class Spec(NamedTuple):
    """What determines a problem, together with its seed."""

    name: str
    shape: Shape
    cell: str
    fraction: Fraction
    dtype: torch.dtype
    device: str


class Problem:
    """Weights, input and loss. Equal arguments give equal problems on every device.

    Attributes:
        model: the Skip RNN, in training mode. Its initial state is zero, like that of torch's modules.
        x: the input, [B, T, D].
        weighting: the loss multiplies the output by these numbers, [B, H] or [B, T, H].
        rows: 1 for the rows that count in the loss and in comparisons, otherwise 0, [B].
    """

    def __init__(self, spec: Spec, seed: int = 0):
        shape = spec.shape
        self.spec, self.seed = spec, seed
        generator = torch.Generator().manual_seed(seed)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        self.model = _module(spec.cell)
        self.model = self.model(shape.input_size, shape.hidden_size, shape.layers, engine="reference", device="cpu")
        torch.set_rng_state(state)
        for name, parameter in self.model.named_parameters():
            if name.startswith("initial_"):
                torch.nn.init.zeros_(parameter)
        self.model.to(spec.device, spec.dtype)
        x = torch.randn(shape.batch, shape.steps, shape.input_size, generator=generator, device="cpu")
        if spec.fraction == MIXED:
            x += _offsets(shape, generator)
        self.x = x.to(spec.device, spec.dtype)
        size = (shape.batch, *([shape.steps] if shape.every_step else []), shape.hidden_size)
        self.weighting = torch.randn(size, generator=generator, device="cpu").to(spec.device, spec.dtype)
        self.rows = torch.ones(shape.batch, device=spec.device)

    def loss(self, output: Tensor, updates: Optional[Tensor], weighting: Tensor) -> Tensor:
        """The sum of a linear function of the output and the budget. ``weighting`` is the problem's, in the memory
        layout of the contestant's output, so that the output's gradient has that layout too."""
        rows = self.rows.to(output.dtype).view(-1, *[1] * (output.dim() - 1))
        task = (output * (weighting * rows)).sum()
        return task if updates is None else task + BUDGET * (updates * self.rows.unsqueeze(1)).sum()

    @property
    def gate(self) -> Tuple[List[float], float]:
        """The weight and the bias of the gate, as numbers."""
        return self.model.update_weight[0].tolist(), self.model.update_bias.item()

    @torch.no_grad()
    def set_gate(self, weight: List[float], bias: float) -> None:
        self.model.update_weight.copy_(torch.tensor([weight]))
        self.model.update_bias.fill_(bias)


def _module(cell: str):
    if cell == "lstm":
        return SkipLSTM
    return lambda *args, **options: SkipGRU(*args, reset_after=cell == "gru", **options)


def _offsets(shape: Shape, generator: torch.Generator) -> Tensor:
    """Offsets of the rows' inputs, [B, 1, D], by which a gate can distinguish the rows. They lie along one direction,
    from -3 to 3 times the noise that the layer sees."""
    direction = torch.nn.functional.normalize(torch.randn(shape.input_size, generator=generator, device="cpu"), dim=0)
    size = 3 * math.sqrt(1 + shape.input_size / shape.hidden_size)
    return torch.linspace(-size, size, shape.batch, device="cpu").view(-1, 1, 1) * direction


def build(spec: Spec) -> Problem:
    """A problem with a calibrated gate. Its ``rows`` are those in which rounding can't change any decision.

    The seed is the first one that leaves at least half of the rows.

    Raises:
        RuntimeError: no seed leaves half of the rows.
    """
    for seed in range(20):
        problem = Problem(spec, seed)
        if spec.fraction == MIXED:
            _spread_rows(problem)
        _calibrate(problem, MIXED_MEAN if spec.fraction == MIXED else spec.fraction)
        below, above = (_updates(problem, threshold=0.5 + shift) for shift in (-TIE, TIE))
        problem.rows = (below == above).all(1).float()
        if problem.rows.mean() >= 0.5:
            return problem
    raise RuntimeError(f"{spec.name}: no seed keeps half of the rows' decisions away from the threshold")


@torch.no_grad()
def _updates(problem: Problem, rows: Optional[Tensor] = None, threshold: float = 0.5) -> Tensor:
    """The updates that the reference engine decides in these rows, [rows, T]; None means all rows."""
    problem.model.threshold = threshold
    try:
        return problem.model(problem.x if rows is None else problem.x[rows], last_only=True)[2]
    finally:
        problem.model.threshold = 0.5


def _sample(problem: Problem) -> Tensor:
    batch = problem.spec.shape.batch
    return torch.linspace(0, batch - 1, min(batch, SAMPLE), device=problem.x.device).long()


def _calibrate(problem: Problem, target: float) -> None:
    """Set the gate's bias by bisection, so that the fraction of updates is close to the target."""
    bias, rows, tried = problem.model.update_bias, _sample(problem), {}
    low, high = -SATURATED, SATURATED
    for _ in range(16):
        middle = SATURATED if target == 1 else (low + high) / 2
        with torch.no_grad():
            bias.fill_(middle)
        fraction = _updates(problem, rows).mean().item()
        tried[middle] = abs(fraction - target)
        if tried[middle] <= 0.02 * target:
            return
        low, high = (middle, high) if fraction < target else (low, middle)
    with torch.no_grad():
        bias.fill_(min(tried, key=tried.get))


@torch.no_grad()
def _spread_rows(problem: Problem) -> None:
    """Set the gate's weight so that the log odds of an update differ by 8 between the first and the last rows."""
    model, rows = problem.model, _sample(problem)
    state = model(problem.x[rows], schedule=torch.ones(len(rows), problem.spec.shape.steps), last_only=True)[1]
    top = (state.h if state.c is None else state.c)[-1].float()
    half = max(1, len(rows) // 2)
    difference = top[half:].mean(0) - top[:half].mean(0)
    model.update_weight.copy_((8 * difference / difference.square().sum()).unsqueeze(0))
