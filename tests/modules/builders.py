"""Modules and inputs that the tests of this folder share."""

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipRNN

MODULES = {
    "lstm": SkipLSTM,
    "gru": SkipGRU,
    "gru-before": lambda *a, **k: SkipGRU(*a, **k, reset_after=False),
    "rnn": SkipRNN,
}
every_module = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES.keys())


def build(module, **options):
    """A float64 module whose gate skips some steps, in training mode."""
    return module(3, 5, 2, **{"update_bias": -0.5, **options}).double()


def sequences(batch=4, steps=10):
    return torch.randn(batch, steps, 3, dtype=torch.float64)
