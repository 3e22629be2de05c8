"""Bad input raises ValueError, and the message names the argument."""

import pytest
import torch

from skiprnn_plugin.ops import Gate, SkipState, skip_scan

from .problems import Problem, every_engine

BATCH, STEPS, INPUTS, HIDDEN, LAYERS = 2, 4, 3, 5, 2


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


def good():
    return Problem("lstm", BATCH, STEPS, INPUTS, HIDDEN, LAYERS, dtype=torch.float32).arguments()


def state(**values):
    return {"state": good()["state"]._replace(**values)}


def weights(layer, **values):
    layers = good()["weights"]
    layers[layer] = layers[layer]._replace(**values)
    return {"weights": layers}


def gate(**values):
    return {"gate": good()["gate"]._replace(**values)}


STATE = (LAYERS, BATCH, HIDDEN)
BAD = {
    "cell-unknown": ("cell", {"cell": "no such"}),
    "engine-unknown": ("engine", {"engine": "no such"}),
    "x-list": ("x", {"x": [[[0.0] * INPUTS] * STEPS] * BATCH}),
    "x-2d": ("x", {"x": zeros(STEPS, INPUTS)}),
    "x-4d": ("x", {"x": zeros(1, BATCH, STEPS, INPUTS)}),
    "x-features": ("x", {"x": zeros(BATCH, STEPS, INPUTS + 1)}),
    "x-dtype": ("x", {"x": zeros(BATCH, STEPS, INPUTS, dtype=torch.float64)}),
    "x-integers": ("x", {"x": zeros(BATCH, STEPS, INPUTS, dtype=torch.int64)}),
    "weights-none": ("weights", {"weights": []}),
    "weight_ih-shape": (r"weights\[0\].weight_ih", weights(0, weight_ih=zeros(3 * HIDDEN, INPUTS))),
    "weight_ih-width": (r"weights\[1\].weight_ih", weights(1, weight_ih=zeros(4 * HIDDEN, INPUTS))),
    "weight_hh-shape": (r"weights\[1\].weight_hh", weights(1, weight_hh=zeros(4 * HIDDEN, HIDDEN + 1))),
    "bias_ih-shape": (r"weights\[0\].bias_ih", weights(0, bias_ih=zeros(HIDDEN))),
    "bias_hh-shape": (r"weights\[1\].bias_hh", weights(1, bias_hh=zeros(4 * HIDDEN, 1))),
    "norm-shape": (r"weights\[0\].norm_weight", weights(0, norm_weight=zeros(HIDDEN), norm_bias=zeros(HIDDEN))),
    "weights-dtype": (r"weights\[1\].weight_hh", weights(1, weight_hh=zeros(4 * HIDDEN, HIDDEN, dtype=torch.float64))),
    "state.h-batch": ("state.h", state(h=zeros(LAYERS, BATCH + 1, HIDDEN))),
    "state.h-batch-first": ("state.h", state(h=zeros(BATCH, LAYERS + 1, HIDDEN))),
    "state.h-2d": ("state.h", state(h=zeros(BATCH, HIDDEN))),
    "state.h-dtype": ("state.h", state(h=zeros(*STATE, dtype=torch.float64))),
    "state.c-shape": ("state.c", state(c=zeros(1, BATCH, HIDDEN))),
    "state.c-missing": ("state.c", state(c=None)),
    "state.c-dtype": ("state.c", state(c=zeros(*STATE, dtype=torch.float64))),
    "state.p-shape": ("state.p", state(p=zeros(BATCH, 1))),
    "state.acc-shape": ("state.acc", state(acc=zeros(1))),
    "lengths-beyond": ("lengths", {"lengths": [STEPS, STEPS + 1]}),
    "lengths-negative": ("lengths", {"lengths": [-1, STEPS]}),
    "lengths-float": ("lengths", {"lengths": torch.tensor([1.0, 2.0])}),
    "lengths-bool": ("lengths", {"lengths": torch.tensor([True, False])}),
    "lengths-float-list": ("lengths", {"lengths": [1.0, 2.0]}),
    "lengths-number": ("lengths", {"lengths": [1, 2, 3]}),
    "lengths-2d": ("lengths", {"lengths": torch.ones(BATCH, 1, dtype=torch.int64)}),
    "lengths-and-offsets-beyond": ("lengths", {"lengths": [3, 3], "offsets": [1, 2]}),
    "offsets-beyond": ("offsets", {"offsets": [0, STEPS + 1]}),
    "offsets-negative": ("offsets", {"offsets": [-1, 0]}),
    "offsets-number": ("offsets", {"offsets": [0]}),
    "noise-and-schedule": ("noise", {"noise": zeros(BATCH, STEPS), "schedule": zeros(BATCH, STEPS)}),
    "noise-shape": ("noise", {"noise": zeros(STEPS, BATCH)}),
    "schedule-shape": ("schedule", {"schedule": zeros(BATCH, STEPS, 1)}),
    "schedule-list": ("schedule", {"schedule": [[0] * STEPS] * BATCH}),
    "schedule-half": ("schedule", {"schedule": torch.full((BATCH, STEPS), 0.5)}),
    "schedule-nan": ("schedule", {"schedule": torch.full((BATCH, STEPS), float("nan"))}),
    "schedule-two": ("schedule", {"schedule": torch.full((BATCH, STEPS), 2)}),
    "threshold-nan": ("threshold", {"threshold": float("nan")}),
    "gate.weight-shape": ("gate.weight", gate(weight=zeros(HIDDEN))),
    "gate.weight-layers": ("gate.weight", gate(layers=(0, 1))),
    "gate.bias-shape": ("gate.bias", gate(bias=torch.tensor(0.0))),
    "gate.layers-beyond": ("gate.layers", gate(layers=(LAYERS,))),
    "gate.layers-none": ("gate.layers", gate(layers=(), weight=zeros(1, 0))),
    "dropout_mask-shape": ("dropout_mask", {"dropout_mask": zeros(LAYERS, BATCH, HIDDEN)}),
    "dropout_mask-time": ("dropout_mask", {"dropout_mask": zeros(LAYERS - 1, STEPS, BATCH, HIDDEN)}),
}


@every_engine
@pytest.mark.parametrize("argument, changes", BAD.values(), ids=BAD.keys())
def test_bad_input(engine, argument, changes):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        skip_scan(**{"engine": engine, **good(), **changes})


@every_engine
def test_the_unchanged_input_is_good(engine):
    output, _, _ = skip_scan(**good(), engine=engine)
    assert output.shape == (BATCH, STEPS, HIDDEN)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="'vanilla'.*gru, gru_reset_before, lstm"):
        skip_scan(**{**good(), "cell": "vanilla"})
    with pytest.raises(ValueError, match="'cuda'.*auto.*reference"):
        skip_scan(**good(), engine="cuda")


def test_a_plain_tuple_is_a_state():
    arguments = good()
    expected = skip_scan(**arguments)
    torch.testing.assert_close(skip_scan(**{**arguments, "state": tuple(arguments["state"])}), expected)
    assert isinstance(expected[1], SkipState) and isinstance(arguments["gate"], Gate)
