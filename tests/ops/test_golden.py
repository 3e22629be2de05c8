"""Every engine against the authors' own program (TensorFlow 1.13.1): outputs, gates, states and all gradients.

The authors' two-layer GRU is left out on purpose: in it the upper layer's candidate reads the network's input in place
of the layer below, a slip in their code that is not followed here.
"""

import pytest
import torch

from skiprnn_plugin.ops import ENGINES, skip_scan

from ..compare import assert_close, assert_equal
from ..golden_cases import kind, load, scan_arguments, stack
from .problems import DTYPE, engine_param

DTYPES = {"f32": torch.float32, "f64": torch.float64}
CELL = {"lstm": "lstm", "gru": "gru_reset_before"}
CASES = [
    f"{case}_{dtype}"
    for case in (
        "skip_lstm",
        "skip_gru",
        "multi_skip_lstm",
        "basic_lstm",
        "basic_gru",
        "skip_lstm_resume",
        "skip_gru_resume",
        "skip_lstm_tie",
        "skip_gru_tie",
    )
    for dtype in ("f32", "f64")
]
RESUMED = [case for case in CASES if "resume" in case]


def for_cases(cases):
    """Every engine with those of the cases whose dtype it takes."""
    pairs = [
        (e, case) for e in sorted(ENGINES) for case in cases if DTYPES[case[-3:]] == DTYPE.get(e, DTYPES[case[-3:]])
    ]
    return pytest.mark.parametrize("engine, case", [engine_param(*pair) for pair in pairs])


every_case = for_cases(CASES)


def run(arrays, engine, x=None, state=None):
    weights, start, gate = scan_arguments(arrays)
    x = arrays["x"] if x is None else x
    return skip_scan(x, weights, start if state is None else state, gate, cell=CELL[kind(arrays)], engine=engine)


def leaves(arrays):
    """Copies of the arrays, those that the file holds gradients of as leaves of a graph."""
    return {key: value.clone().requires_grad_("grad_" + key in arrays) for key, value in arrays.items()}


def loss(arrays, output, updates):
    """L = sum(h R) + lam mean_b(sum_t u)."""
    units = arrays["R"].shape[-1]
    return (output[..., :units] * arrays["R"]).sum() + arrays["lam"] * updates.sum(1).mean()


def final_loss(arrays, output, state, updates):
    """LF = L + sum over the final state of sum(RF * final)."""
    total = loss(arrays, output, updates) + (state.h[0] * arrays["RF_final_h"]).sum()
    if state.c is not None:
        total = total + (state.c[0] * arrays["RF_final_c"]).sum()
    total = total + (state.p * arrays["RF_final_update_prob"].squeeze(1)).sum()
    return total + (state.acc * arrays["RF_final_cum_update_prob"].squeeze(1)).sum()


def assert_gradients(arrays, inputs, prefix):
    names = [key[len(prefix) :] for key in arrays if key.startswith(prefix)]
    assert "x" in names
    for name in names:
        assert_close(inputs[name].grad, arrays[prefix + name], prefix + name)


def assert_state(state, arrays, name, select=lambda value: value):
    """``state`` is what the file stores under ``name`` (``final`` or ``steps``)."""
    assert_close(state.h, select(stack(arrays, f"{name}_h")), "h")
    if state.c is not None:
        assert_close(state.c, select(stack(arrays, f"{name}_c")), "c")
    if "w_p" in arrays:
        assert_close(state.p, select(arrays[f"{name}_update_prob"]).squeeze(-1), "update_prob")
        assert_close(state.acc, select(arrays[f"{name}_cum_update_prob"]).squeeze(-1), "cum_update_prob")


@every_case
def test_outputs_gates_and_final_state(case, engine):
    arrays = load(case)
    output, state, updates = run(arrays, engine)
    units = arrays["h"].shape[-1]
    assert_close(output[..., :units], arrays["h"], "h")
    assert_close(output[..., units:], torch.zeros_like(output[..., units:]), "padded units")
    assert_equal(updates, arrays["u"].squeeze(-1) if "u" in arrays else torch.ones_like(updates), "u")
    assert_state(state, arrays, "final")


@every_case
def test_state_after_every_step(case, engine):
    arrays = load(case)
    state = None
    for t in range(arrays["x"].shape[1]):
        _, state, _ = run(arrays, engine, arrays["x"][:, t : t + 1], state)
        assert_state(state, arrays, "steps", lambda value, t=t: value[..., t, :])


@every_case
def test_loss_and_gradients(case, engine):
    arrays = load(case)
    inputs = leaves(arrays)
    output, _, updates = run(inputs, engine)
    total = loss(arrays, output, updates)
    total.backward()
    assert_close(total, arrays["L"], "L")
    assert_gradients(arrays, inputs, "grad_")


@for_cases(RESUMED)
def test_loss_and_gradients_through_the_final_state(case, engine):
    arrays = load(case)
    inputs = leaves(arrays)
    total = final_loss(arrays, *run(inputs, engine))
    total.backward()
    assert_close(total, arrays["LF"], "LF")
    assert_gradients(arrays, inputs, "gradF_")


@for_cases([case for case in CASES if "basic" not in case])
def test_no_gradient_reaches_the_input_of_skipped_steps(case, engine):
    arrays = load(case)
    inputs = leaves(arrays)
    output, _, updates = run(inputs, engine)
    loss(arrays, output, updates).backward()
    skipped = inputs["x"].grad[updates == 0]
    assert_equal(skipped, torch.zeros_like(skipped), "gradient of x")
