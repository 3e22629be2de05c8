"""Checks whether a contestant computes the right results. A contestant that does not is not timed."""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .contestants import Contestant, Engine, Result
from .problem import Problem

# The largest error of outputs and of gradients, as a fraction of the expected tensor's largest value
TOLERANCE = {torch.float32: (1e-4, 1e-3), torch.bfloat16: (5e-2, 2e-1), torch.float16: (1e-2, 5e-2)}
FRACTION_TOLERANCE = 0.02  # for the fraction of updates in half precision, where rounding changes some decisions


class Expected(NamedTuple):
    """Results of the ``reference`` engine.

    Attributes:
        gated: with the updates that the gate decides, for engines.
        full: with an update at every step, for peers.
    """

    gated: Result
    full: Result


def expect(problem: Problem, training: bool) -> Expected:
    reference = Engine(problem, "training" if training else "inference", 1, "reference")
    gated = reference.run()
    return Expected(_detached(gated), _detached(reference.run(torch.ones_like(gated.updates))))


def _detached(result: Result) -> Result:
    return result._replace(output=result.output.detach(), updates=result.updates.detach())


def find_fault(contestant: Contestant, expected: Expected) -> Optional[str]:
    """A short description of what differs from the reference by more than rounding; None if nothing does."""
    problem, dtype = contestant.problem, contestant.problem.spec.dtype
    rows = problem.rows.bool()
    result = contestant.run()
    if result.updates is None:
        return find_difference(result, expected.full, TOLERANCE[dtype], rows)
    if dtype == torch.float32:
        wrong = result.updates[rows] != expected.gated.updates[rows]
        if wrong.any():
            return f"updates: {int(wrong.sum())} of {wrong.numel()} differ"
        return find_difference(result, expected.gated, TOLERANCE[dtype], rows)
    wanted, got = (updates.float().mean().item() for updates in (expected.gated.updates, result.updates))
    if abs(wanted - got) > FRACTION_TOLERANCE:
        return f"updates: a fraction of {got:.3f}, expected {wanted:.3f}"
    # Both get the same updates, because one update that differs changes all later ones
    schedule = expected.gated.updates
    result, reference = contestant.run(schedule), Engine(problem, contestant.mode, 1, "reference").run(schedule)
    if not torch.equal(result.updates, schedule):
        return "updates: differ from the schedule"
    return find_difference(result, _detached(reference), TOLERANCE[dtype], rows)


def find_difference(result: Result, expected: Result, tolerance: Tuple[float, float], rows: Tensor) -> Optional[str]:
    """What differs by more than the tolerance of outputs, or that of gradients; None if nothing does. ``rows`` says
    which sequences count."""
    for_output, for_gradient = tolerance
    if result.output.shape != expected.output.shape:
        return f"output: shape {tuple(result.output.shape)}, expected {tuple(expected.output.shape)}"
    pairs = [("output", result.output.detach()[rows], expected.output[rows], for_output)]
    pairs += [
        (f"gradient of {name}", gradient, expected.gradients[name], for_gradient)
        for name, gradient in result.gradients.items()
    ]
    for name, got, wanted, tolerance in pairs:
        error, scale = (got - wanted).abs().max().item(), wanted.abs().max().item()
        if not error <= tolerance * (scale or 1):  # NaN too
            return f"{name}: off by {error:.2e} (largest value {scale:.2e})"
    return None
