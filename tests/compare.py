"""Comparison of arrays with one tolerance per dtype."""

import torch

# The largest difference, as a fraction of the expected array's largest value. In float32, versions of TensorFlow differ
# from one another by up to 1.3e-5. Half precision has 8 (bfloat16) and 11 significant bits.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def assert_close(got, expected, what="value", tolerance=None):
    """Assert that ``got`` equals ``expected`` in shape and dtype, and in value within the tolerance, by default the
    dtype's. The tolerance is relative to the largest value; for an array of zeros it is absolute."""
    got, expected = torch.as_tensor(got).detach(), torch.as_tensor(expected).detach()
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{what}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
    if expected.numel() == 0:
        return
    error, scale = (got - expected).abs().max().item(), expected.abs().max().item()
    allowed = (TOLERANCE[expected.dtype] if tolerance is None else tolerance) * (scale or 1)
    assert error <= allowed, f"{what}: off by {error:.2e}, allowed {allowed:.2e} (largest value {scale:.2e})"


def assert_equal(got, expected, what="value"):
    """Assert that ``got`` equals ``expected`` bit for bit."""
    torch.testing.assert_close(got, expected, rtol=0, atol=0, msg=lambda text: f"{what}: {text}")


def assert_results_close(got, expected):
    """Compare the output and state of ``skip_scan`` by :func:`assert_close`, and the updates bit for bit."""
    assert_equal(got[2], expected[2], "updates")
    assert_close(got[0], expected[0], "output")
    for name, value in expected[1]._asdict().items():
        if value is not None:
            assert_close(getattr(got[1], name), value, f"state.{name}")


def assert_gradients_close(got, expected):
    """Compare gradients by name with :func:`assert_close`. The gate's weight and bias are compared together, because
    the bias is one number, in which terms as large as the weight's gradient may cancel."""
    got, expected = (_join_gate(gradients) for gradients in (got, expected))
    assert got.keys() == expected.keys()
    for name, gradient in expected.items():
        assert_close(got[name], gradient, f"gradient of {name}")


def _join_gate(gradients):
    rest = {name: value for name, value in gradients.items() if not name.startswith("update_")}
    gate = [value.flatten() for name, value in gradients.items() if name.startswith("update_")]
    return {**rest, "update_weight and update_bias": torch.cat(gate)}


def logged(*runs):
    """The logged training updates and validations of several runs in a row, without speeds and times."""
    return [
        [{name: value for name, value in entry.items() if not name.endswith(("wps", "ups", "wall"))} for entry in log]
        for log in ([entry for run in runs for entry in run.get(tag, [])] for tag in ("train_inner", "valid"))
    ]
