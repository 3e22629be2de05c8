"""The parts of a model that is exported."""

from types import SimpleNamespace

import numpy as np
import pytest

from skiprnn_plugin.data.features import Statistics
from skiprnn_plugin.export.parts import collect_parts

from .test_errors import make_hub


@pytest.mark.parametrize(
    "mean, std, is_refused",
    [
        (101325, 100, False),
        (1e6, 0, False),
        (0.1, 0, False),
        (-33.87, 1e-5, True),
        (1.7e9, 30, True),
        (1e9 + 0.5, 0, True),
    ],
)
def test_features_that_float32_cannot_hold(mean, std, is_refused):
    hub = make_hub()
    statistics = Statistics(np.array([0.0, mean, 0.0]), np.array([1.0, std, 1.0]))
    hub.task.frames = SimpleNamespace(statistics=statistics, fit=SimpleNamespace(length=None))
    if is_refused:
        with pytest.raises(ValueError, match="^expected features whose differences float32 can hold.* feature 1 "):
            collect_parts(hub)
    else:
        assert collect_parts(hub).mean[1] == mean


def test_numbers_are_in_the_unit_of_the_labels():
    hub = make_hub()
    hub.task.predicts = "numbers"
    hub.task.facts = SimpleNamespace(targets=Statistics(np.array([100.0, -3.0]), np.array([20.0, 0.0])))
    parts, head = collect_parts(hub), hub.model.head
    h = np.random.default_rng(0).normal(size=4)
    normalized = head.weight.detach().numpy() @ h + head.bias.detach().numpy()
    predicted = parts.tensors["head_weight"] @ h + parts.tensors["head_bias"]
    np.testing.assert_allclose(predicted, normalized * [20, 1] + [100, -3], rtol=1e-6)
