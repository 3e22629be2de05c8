"""Six training updates of the authors' program for the adding task (TensorFlow 1.13.1), number by number.

Loss = half the mean squared error + lambda * mean_b(sum_t u), gradients clipped to a global norm, TensorFlow's Adam.
"""

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU, SkipLSTM

from ..compare import assert_close, assert_equal
from ..golden_cases import layer_weights, load

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
MODULES = {"skip_lstm": SkipLSTM, "skip_gru": lambda *sizes: SkipGRU(*sizes, reset_after=False)}


def expected_parameters(arrays, what, n):
    """The file's ``what`` (``param``, ``rawgrad`` or ``clipgrad``) at training update ``n``, by our parameters'
    names."""
    start = what + "_"
    at = {key[len(start) :]: value[n] for key, value in arrays.items() if key.startswith(start)}
    weights = layer_weights(at, forget_bias=1.0 if what == "param" else 0.0)
    named = {
        "rnn.weight_ih_l0": weights.weight_ih,
        "rnn.weight_hh_l0": weights.weight_hh,
        "rnn.bias_ih_l0": weights.bias_ih,
        "rnn.update_weight": at["w_p"].T,
        "rnn.update_bias": at["b_p"],
        "rnn.initial_h": at["init_h"].unsqueeze(0),
        "head.weight": at["W_out"].T,
        "head.bias": at["b_out"],
    }
    if "init_c" in at:
        named["rnn.initial_c"] = at["init_c"].unsqueeze(0)
    return named


def build(model, arrays):
    net = torch.nn.ModuleDict({"rnn": MODULES[model](2, 10), "head": torch.nn.Linear(10, 1)})
    net["rnn"].bias_hh_l0.requires_grad_(False).zero_()  # the authors have one bias per unit
    trained = {name: parameter for name, parameter in net.named_parameters() if parameter.requires_grad}
    initial = expected_parameters(arrays, "param", 0)
    assert trained.keys() == initial.keys()
    with torch.no_grad():
        for name, value in initial.items():
            trained[name].copy_(value)
    return net, trained


def clip_by_global_norm(gradients, limit):
    norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
    return {name: gradient * limit / torch.maximum(norm, limit) for name, gradient in gradients.items()}, norm


def assert_all_close(got, expected, what):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(got[name], value, f"{what} {name}")


@pytest.mark.parametrize("model", sorted(MODULES))
def test_training_follows_the_authors_program(model):
    arrays = load(f"train_adding_{model}_f32")
    net, trained = build(model, arrays)
    first = {name: torch.zeros_like(parameter) for name, parameter in trained.items()}
    second = {name: torch.zeros_like(parameter) for name, parameter in trained.items()}
    clipped_updates = 0
    for n in range(len(arrays["x"])):
        output, _, updates = net["rnn"](arrays["x"][n], last_only=True)
        out = net["head"](output)
        mse = (out - arrays["y"][n]).square().mean() / 2
        budget = arrays["lam"] * updates.sum(1).mean()
        raw = dict(zip(trained, torch.autograd.grad(mse + budget, list(trained.values()))))
        clipped, norm = clip_by_global_norm(raw, arrays["clip"])
        clipped_updates += int(norm > arrays["clip"])

        assert_equal(updates, arrays["u"][n].squeeze(-1), f"u at update {n}")
        assert_close(out, arrays["out"][n], f"out at update {n}")
        assert_close(mse, arrays["mse"][n], f"mse at update {n}")
        assert_close(budget, arrays["budget"][n].squeeze(), f"budget at update {n}")
        assert_close(mse + budget, arrays["loss"][n].squeeze(), f"loss at update {n}")
        assert_close(norm, arrays["gnorm"][n], f"gradient norm at update {n}")
        assert_all_close(raw, expected_parameters(arrays, "rawgrad", n), f"gradient at update {n} of")
        assert_all_close(clipped, expected_parameters(arrays, "clipgrad", n), f"clipped gradient at update {n} of")

        rate = arrays["lr"] * (1 - BETA2 ** (n + 1)) ** 0.5 / (1 - BETA1 ** (n + 1))
        with torch.no_grad():
            for name, parameter in trained.items():
                first[name].lerp_(clipped[name], 1 - BETA1)
                second[name].lerp_(clipped[name].square(), 1 - BETA2)
                parameter -= rate * first[name] / (second[name].sqrt() + EPS)
        assert_all_close(trained, expected_parameters(arrays, "param", n + 1), f"parameter after update {n}")
    assert 0 < clipped_updates < len(arrays["x"])  # the file has training updates with and without clipping
