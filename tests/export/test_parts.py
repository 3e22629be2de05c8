"""The parts of a model that is exported."""

from types import SimpleNamespace

import numpy as np

from skiprnn_plugin.data.features import Statistics
from skiprnn_plugin.export.parts import collect_parts

from .test_errors import make_hub


def test_numbers_are_in_the_unit_of_the_labels():
    hub = make_hub()
    hub.task.predicts = "numbers"
    hub.task.facts = SimpleNamespace(targets=Statistics(np.array([100.0, -3.0]), np.array([20.0, 0.0])))
    parts, head = collect_parts(hub), hub.model.head
    h = np.random.default_rng(0).normal(size=4)
    normalized = head.weight.detach().numpy() @ h + head.bias.detach().numpy()
    predicted = parts.tensors["head_weight"] @ h + parts.tensors["head_bias"]
    np.testing.assert_allclose(predicted, normalized * [20, 1] + [100, -3], rtol=1e-6)
