"""What the tests of the ``native`` engine share: problems, and which of their rows can be compared."""

import random

import pytest
import torch

from skiprnn_plugin.ops import CELLS
from skiprnn_plugin.ops.native import library

from .problems import Problem, engine_param, mixed_updates, uniform_noise

TIE = 1e-5  # a decision this close to the threshold may fall either way, by rounding
native = pytest.mark.parametrize("engine", [engine_param("native")])


def levels():
    """Tests run with each instruction set of the library that this machine can run."""
    names = [None] if library.missing() else library.levels()
    return pytest.mark.parametrize(
        "engine, level", [engine_param("native", name) for name in names], indirect=["level"]
    )


def drawn_problem(seed):
    """A random problem in float32 and the options of its run."""
    draw = random.Random(seed)
    cell, layers = draw.choice(sorted(CELLS)), draw.choice([1, 1, 2, 3])
    batch, steps = draw.choice([1, 2, 5, 8, 13, 20]), draw.randint(1, 40)
    inputs, hidden = draw.choice([1, 2, 5, 17, 200]), draw.choice([1, 3, 8, 16, 21, 40])
    problem = Problem(
        cell,
        batch,
        steps,
        inputs,
        hidden,
        layers,
        dtype=torch.float32,
        gate_layers=tuple(sorted(draw.sample(range(layers), draw.randint(1, layers)))),
        resumed=draw.random() < 0.5,
        scale=0.8 * max(inputs, hidden) ** -0.5,
    )
    with torch.no_grad():
        problem.tensors["update_bias"].fill_(draw.uniform(-3, 2))
    options = {"last_only": draw.random() < 0.3}
    if draw.random() < 0.5:
        offsets = [draw.randint(0, steps) if draw.random() < 0.5 else 0 for _ in range(batch)]
        options["offsets"] = offsets if draw.random() < 0.5 else None
        options["lengths"] = [draw.randint(0, steps - (begin if options["offsets"] else 0)) for begin in offsets]
    kind = draw.choice(["round", "threshold", "noise", "schedule", "no gate"])
    if kind == "threshold":
        options["threshold"] = draw.choice([0.0, 0.2, 0.8, 1.0, float("inf")])
    elif kind == "noise":
        options["noise"] = uniform_noise(batch, steps, seed)
    elif kind == "schedule":
        options["schedule"] = uniform_noise(batch, steps, seed) < draw.random()
    elif kind == "no gate":
        options["gate"] = None
        options["schedule"] = mixed_updates(batch, steps) if draw.random() < 0.5 else None
    if layers > 1 and draw.random() < 0.5:
        options["dropout_mask"] = 2.0 * (uniform_noise((layers - 1) * batch, hidden, seed + 1) < 0.5)
        options["dropout_mask"] = options["dropout_mask"].view(layers - 1, batch, hidden)
    if kind in ("round", "threshold") and draw.random() < 0.4:
        options["min_skip"] = draw.choice([0, 1, 3, 50])
        options["max_skip"] = options["min_skip"] + draw.randint(0, 6) if draw.random() < 0.7 else None
    return problem, options


def decided_rows(problem, options):
    """Rows without a decision so near the threshold that rounding may turn it over, bool [B]."""
    sides = []
    for side in (-TIE, TIE):
        moved = dict(options)
        if options.get("noise") is None:
            moved["threshold"] = options.get("threshold", 0.5) + side
        else:
            moved["noise"] = options["noise"] + side
        with torch.no_grad():
            sides.append(problem.run("reference", **moved)[2])
    return (sides[0] == sides[1]).all(1)


def only_rows(problem, options, rows):
    """The problem and the options for those rows of the batch alone."""
    axes = {"x": 0, "h": 1, "c": 1, "p": 0, "acc": 0}
    for name, dim in axes.items():
        if name in problem.tensors:
            problem.tensors[name] = problem.tensors[name].detach().index_select(dim, rows).requires_grad_()
    options = dict(options)
    for name in ("offsets", "lengths", "noise", "schedule"):
        if options.get(name) is not None:
            options[name] = torch.as_tensor(options[name])[rows]
    if options.get("dropout_mask") is not None:
        options["dropout_mask"] = options["dropout_mask"][:, rows]
    return problem, options


def bitwise_parts(results):
    output, state, updates = results
    return [value for value in (output, *state, updates) if value is not None]


def names(module):
    return [name for name, _ in module.named_parameters()]


def skip_by(engine, rnn, x):
    """The module's results by another engine."""
    former, rnn.engine = rnn.engine, engine
    try:
        return rnn(x)
    finally:
        rnn.engine = former
