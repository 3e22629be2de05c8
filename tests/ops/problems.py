"""Small random problems for ``skip_scan`` and what the tests of this folder share."""

import numpy as np
import pytest
import torch

from skiprnn_plugin.ops import CELLS, ENGINES, Gate, LayerWeights, SkipState, skip_scan

from ..selection import quick_of

# What an engine is tested in where it does not take every dtype
DTYPE = {"native": torch.float32, "triton": torch.float32}
MODES = ["round", "bernoulli", "schedule", "full", "masks"]
MASKS = {"zoneout", "recurrent_dropout"}  # what an engine must know for the last mode


def dtype_of(engine):
    """What to test it in: float64 where it can."""
    return DTYPE.get(engine, torch.float64)


def is_interpreted(engine):
    """Whether the engine runs slowly here, as triton does on the CPU."""
    return engine in ENGINES and torch.get_default_device().type in ENGINES[engine].emulated_devices


def engine_param(engine, *values, thorough=False):
    """The engine, and other values of a parametrised test; skipped where it cannot run at all."""
    device = torch.get_default_device().type
    if engine == "native" and device != "cpu":
        reason = "native is for the CPU"
    elif engine == "triton" and device == "cpu" and not is_interpreted(engine):
        reason = "triton is for CUDA, and for the CPU with TRITON_INTERPRET=1"
    else:
        reason = ENGINES[engine].missing()
    marks = [] if reason is None else [pytest.mark.skip(reason=f"{engine}: {reason}")]
    if thorough:
        marks.append(pytest.mark.thorough)
    return pytest.param(engine, *values, marks=marks)


def for_engines(engines):
    return pytest.mark.parametrize("engine", [engine_param(name) for name in sorted(engines)])


def for_engines_in(*dtypes, engines=ENGINES):
    """Engines and those of the dtypes that they take."""
    pairs = [(e, dtype) for e in sorted(engines) for dtype in dtypes if DTYPE.get(e, dtype) == dtype]
    ids = [f"{engine}-{str(dtype).removeprefix('torch.')}" for engine, dtype in pairs]
    return pytest.mark.parametrize("engine, dtype", [engine_param(*pair) for pair in pairs], ids=ids)


every_engine = for_engines(ENGINES)
every_other = for_engines(set(ENGINES) - {"reference"})
every_engine_of_any_dtype = for_engines(set(ENGINES) - set(DTYPE))
every_engine_with_masks = for_engines(name for name, engine in ENGINES.items() if engine.features >= MASKS)


def cells_quick(*names):
    """A test of every cell, which the quick tests run for these alone."""
    return pytest.mark.parametrize("cell", quick_of(sorted(CELLS), *names))


every_cell = pytest.mark.parametrize("cell", sorted(CELLS))
every_mode = pytest.mark.parametrize(
    "engine, mode",
    [
        engine_param(name, mode)
        for name in sorted(ENGINES)
        for mode in MODES
        if mode != "masks" or ENGINES[name].features >= MASKS
    ],
)


class Problem:
    """Random input, weights, state and gate: ``tensors`` by name, all of them leaves that need a gradient.

    The gate's weights are such that some steps update and some are skipped. With ``resumed`` the sequences carry on
    in their middle, else ``p`` is 1 and ``acc`` 0. Weights, the gate's too, are normal with deviation ``scale``.
    """

    def __init__(
        self,
        cell,
        batch=4,
        steps=8,
        inputs=3,
        hidden=5,
        layers=2,
        *,
        dtype=torch.float64,
        layer_norm=False,
        gate_layers=(-1,),
        resumed=False,
        scale=1.0,
    ):
        self.cell, self.layers, self.gate_layers = cell, layers, gate_layers
        generator = torch.Generator().manual_seed(1)
        rows, norm = CELLS[cell].num_gates * hidden, CELLS[cell].num_normalized * hidden
        shapes = {"x": (batch, steps, inputs)}
        for layer in range(layers):
            shapes[f"weight_ih_l{layer}"] = (rows, inputs if layer == 0 else hidden)
            shapes[f"weight_hh_l{layer}"] = (rows, hidden)
            shapes[f"bias_ih_l{layer}"] = shapes[f"bias_hh_l{layer}"] = (rows,)
            if layer_norm:
                shapes[f"norm_weight_l{layer}"] = shapes[f"norm_bias_l{layer}"] = (norm,)
        shapes["h"] = shapes["c"] = (layers, batch, hidden)
        shapes["update_weight"] = (1, len(gate_layers) * hidden)
        self.tensors = {name: _drawn(torch.randn, shape, generator) for name, shape in shapes.items()}
        for name, value in self.tensors.items():
            if "weight_" in name or name == "update_weight":
                value *= scale
        self.tensors["update_bias"] = torch.tensor([-0.5])
        if not CELLS[cell].has_c:
            del self.tensors["c"]
        if resumed:
            self.tensors["p"] = _drawn(torch.rand, batch, generator)
            self.tensors["acc"] = _drawn(torch.rand, batch, generator) / 2
        wide = torch.promote_types(dtype, torch.float32)
        for name, value in self.tensors.items():
            self.tensors[name] = value.to(wide if name in ("p", "acc") else dtype).requires_grad_()

    def arguments(self, tensors=None):
        """``skip_scan``'s arguments, from ``self.tensors`` or others of the same names."""
        tensors = self.tensors if tensors is None else tensors
        weights = [
            LayerWeights(*(tensors.get(f"{field}_l{layer}") for field in LayerWeights._fields))
            for layer in range(self.layers)
        ]
        return {
            "x": tensors["x"],
            "weights": weights,
            "state": SkipState(*(tensors.get(field) for field in SkipState._fields)),
            "gate": Gate(tensors["update_weight"], tensors["update_bias"], self.gate_layers),
            "cell": self.cell,
        }

    def run(self, engine, tensors=None, **options):
        return skip_scan(**{**self.arguments(tensors), "engine": engine, **options})

    def options(self, mode):
        """Arguments of ``run`` that decide the updates in one of the ways of ``every_mode``, or masks for each step."""
        batch, steps = self.tensors["x"].shape[:2]
        if mode == "bernoulli":
            return {"noise": uniform_noise(batch, steps, seed=2)}
        if mode == "schedule":
            return {"schedule": mixed_updates(batch, steps)}
        if mode == "masks":
            return self.masks()
        return {"gate": None} if mode == "full" else {}

    def masks(self):
        """Zoneout's and recurrent dropout's, which differ by layer, row, step and unit."""
        batch, steps = self.tensors["x"].shape[:2]
        hidden, kept = self.tensors["h"].shape[-1], 2 if CELLS[self.cell].has_c else 1
        generator, per_step = torch.Generator().manual_seed(3), (self.layers, batch, steps)
        zoneout = _drawn(torch.rand, (*per_step, kept * hidden), generator) < 0.4
        dropout = _drawn(torch.rand, (*per_step, hidden), generator) < 0.7
        dtype = self.tensors["x"].dtype
        return {"zoneout_mask": zoneout.to(dtype), "recurrent_dropout_mask": dropout.to(dtype) / 0.7}

    def gradients(self, *results):
        """Gradients of the sum of ``loss`` over results of ``run``, by name; 0 where a tensor has no part in it."""
        total = sum(loss(*result) for result in results)
        values = torch.autograd.grad(total, list(self.tensors.values()), materialize_grads=True)
        return dict(zip(self.tensors, values))


def loss(output, state, updates):
    """Some function of everything that ``skip_scan`` returns: a sum over sequences to which zeros add nothing."""
    total = 0.3 * updates.sum()
    for value in (output, *state):
        if value is not None:
            total = total + (value + value.square()).sum()
    return total


def mixed_updates(batch, steps):
    """A schedule that differs by row and step, bool [batch, steps], the first step not always in it."""
    rows, times = torch.arange(batch).unsqueeze(1), torch.arange(steps)
    return (rows + times * times) % 3 != 0


def uniform_noise(batch, steps, seed=0):
    """Noise [batch, steps], the same on every device."""
    return _drawn(torch.rand, (batch, steps), torch.Generator().manual_seed(seed))


def _drawn(draw, shape, generator):
    return draw(shape, generator=generator, device="cpu").to(torch.get_default_device())


def cut_options(options, rows, times):
    """``Problem.options`` for some rows and steps (slices) of the batch."""
    return {
        name: value if value is None else value[:, rows, times] if name.endswith("_mask") else value[rows, times]
        for name, value in options.items()
    }


def updates_by_repeated_addition(p, threshold, dtype, first=1.0):
    """Gates when every update sets the update probability to ``p``, in numpy's ``dtype``, by the specification.

    Args:
        p: a number.
        threshold: one number per step, [T].
        first: update probability that the sequence starts with.
    """
    p, now, acc, one = dtype(p), dtype(first), dtype(0), dtype(1)
    updates = []
    for limit in threshold:
        acc = acc + min(now, one - acc)
        updates.append(bool(acc > dtype(limit)))
        if updates[-1]:
            now, acc = p, dtype(0)
    return np.array(updates)
