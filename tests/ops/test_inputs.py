"""Bad input raises ValueError, and the message names the argument."""

import pytest
import torch

from skiprnn_plugin.ops import ENGINES, Gate, SkipState, skip_scan
from skiprnn_plugin.ops.engines import FEATURES, LIMITS, Engine

from .problems import Problem, dtype_of, every_engine

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
    "weights-tuple": (r"weights\[1\]", {"weights": [good()["weights"][0], tuple(good()["weights"][1])]}),
    "weights-empty": (r"weights\[0\]", weights(0, weight_ih=None)),
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
    "state.h-missing": ("state.h", state(h=None)),
    "state.h-array": ("state.h", state(h=zeros(*STATE).numpy())),
    "state.h-dtype": ("state.h", state(h=zeros(*STATE, dtype=torch.float64))),
    "state.c-shape": ("state.c", state(c=zeros(1, BATCH, HIDDEN))),
    "state.c-missing": ("state.c", state(c=None)),
    "state.c-dtype": ("state.c", state(c=zeros(*STATE, dtype=torch.float64))),
    "state.p-shape": ("state.p", state(p=zeros(BATCH, 1))),
    "state.acc-shape": ("state.acc", state(acc=zeros(1))),
    "state.p-negative": ("state.p", state(p=torch.tensor([0.5, -0.1]))),
    "state.p-above-one": ("state.p", state(p=torch.tensor([1.1, 0.5]))),
    "state.acc-negative": ("state.acc", state(acc=torch.tensor([0.0, -1e-3]))),
    "state-without-c": ("state", {"state": zeros(*STATE)}),
    "state-number": ("state", {"state": 3}),
    "state-five": ("state", {"state": (zeros(*STATE),) * 5}),
    "lengths-beyond": ("lengths", {"lengths": [STEPS, STEPS + 1]}),
    "lengths-negative": ("lengths", {"lengths": [-1, STEPS]}),
    "lengths-float": ("lengths", {"lengths": torch.tensor([1.0, 2.0])}),
    "lengths-bool": ("lengths", {"lengths": torch.tensor([True, False])}),
    "lengths-float-list": ("lengths", {"lengths": [1.0, 2.0]}),
    "lengths-number": ("lengths", {"lengths": [1, 2, 3]}),
    "lengths-words": ("lengths", {"lengths": ["one", "two"]}),
    "lengths-ragged": ("lengths", {"lengths": [[1], [2, 3]]}),
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
    "min_skip-negative": ("min_skip", {"min_skip": -1}),
    "min_skip-none": ("min_skip", {"min_skip": None}),
    "max_skip-float": ("max_skip", {"max_skip": 1.5}),
    "max_skip-below-min_skip": ("max_skip", {"min_skip": 3, "max_skip": 2}),
    "limits-and-schedule": ("min_skip, max_skip", {"max_skip": 2, "schedule": zeros(BATCH, STEPS)}),
    "limits-and-noise": ("min_skip, max_skip", {"min_skip": 1, "noise": zeros(BATCH, STEPS)}),
    "threshold-nan": ("threshold", {"threshold": float("nan")}),
    "threshold-true": ("threshold", {"threshold": True}),
    "gate.weight-shape": ("gate.weight", gate(weight=zeros(HIDDEN))),
    "gate.weight-layers": ("gate.weight", gate(layers=(0, 1))),
    "gate.bias-shape": ("gate.bias", gate(bias=torch.tensor(0.0))),
    "gate.layers-beyond": ("gate.layers", gate(layers=(LAYERS,))),
    "gate.layers-none": ("gate.layers", gate(layers=(), weight=zeros(1, 0))),
    "dropout_mask-shape": ("dropout_mask", {"dropout_mask": zeros(LAYERS, BATCH, HIDDEN)}),
    "zoneout_mask-h-alone": ("zoneout_mask", {"zoneout_mask": zeros(LAYERS, BATCH, STEPS, HIDDEN)}),
    "zoneout_mask-one-step": ("zoneout_mask", {"zoneout_mask": zeros(LAYERS, BATCH, 2 * HIDDEN)}),
    "recurrent_dropout_mask-layers": (
        "recurrent_dropout_mask",
        {"recurrent_dropout_mask": zeros(LAYERS - 1, BATCH, STEPS, HIDDEN)},
    ),
    "recurrent_dropout_mask-number": ("recurrent_dropout_mask", {"recurrent_dropout_mask": 0.5}),
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


def asking_for(option, dtype=torch.float64):
    """A problem's arguments with one of ``FEATURES``."""
    problem = Problem("lstm", layer_norm=option == "layer_norm", dtype=dtype)
    masks = {name: mask for name, mask in problem.masks().items() if name == f"{option}_mask"}
    limits = {option: 2} if option in LIMITS else {}
    return {**problem.arguments(), **masks, **limits}


@every_engine
@pytest.mark.parametrize("option", FEATURES)
def test_an_engine_does_what_it_says_it_can_or_refuses(engine, option):
    if option in ENGINES[engine].features:
        arguments = asking_for(option, dtype_of(engine))
        torch.testing.assert_close(skip_scan(**arguments, engine=engine), skip_scan(**arguments, engine="reference"))
    else:
        with pytest.raises(ValueError, match=f"^engine: '{engine}' has no {option}; .*reference"):
            skip_scan(**asking_for(option), engine=engine)


@pytest.mark.parametrize("option", FEATURES)
def test_an_engine_without_an_option_names_those_that_have_it(monkeypatch, option):
    monkeypatch.setitem(ENGINES, "plain", Engine(ENGINES["reference"].scan))
    with pytest.raises(ValueError, match=f"^engine: 'plain' has no {option}; expected auto or one of .*reference"):
        skip_scan(**asking_for(option), engine="plain")
    assert skip_scan(**asking_for(option))[0].shape == skip_scan(**asking_for(None), engine="plain")[0].shape


def test_a_plain_tuple_is_a_state():
    arguments = good()
    expected = skip_scan(**arguments)
    torch.testing.assert_close(skip_scan(**{**arguments, "state": tuple(arguments["state"])}), expected)
    assert isinstance(expected[1], SkipState) and isinstance(arguments["gate"], Gate)
