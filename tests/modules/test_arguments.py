"""Bad arguments of the modules raise ValueError, and the message names the argument."""

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU, SkipLSTM, SkipState

HOLE = torch.tensor([[False, True, False, False], [False, False, False, False]])
CONSTRUCTOR = {
    "input_size-zero": ("input_size", {"input_size": 0}),
    "hidden_size-negative": ("hidden_size", {"hidden_size": -1}),
    "num_layers-zero": ("num_layers", {"num_layers": 0}),
    "dropout-negative": ("dropout", {"dropout": -0.1}),
    "dropout-one": ("dropout", {"dropout": 1.0}),
    "dropout-nan": ("dropout", {"dropout": float("nan")}),
    "binarize-unknown": ("binarize", {"binarize": "floor"}),
    "init-unknown": ("init", {"init": "zeros"}),
    "engine-unknown": ("engine", {"engine": "no such"}),
    "update_bias-nan": ("update_bias", {"update_bias": float("nan")}),
    "update_bias-infinite": ("update_bias", {"update_bias": float("inf")}),
    "threshold-nan": ("threshold", {"threshold": float("nan")}),
    "gate_layers-empty": ("gate_layers", {"gate_layers": ()}),
    "gate_layers-beyond": ("gate_layers", {"gate_layers": (0, 2), "num_layers": 2}),
    "gate_layers-negative": ("gate_layers", {"gate_layers": (-1,)}),
}
FORWARD = {
    "x-2d": ("x", {"x": torch.zeros(4, 3)}),
    "x-list": ("x", {"x": [[[0.0] * 3] * 4] * 2}),
    "x-features": ("x", {"x": torch.zeros(2, 4, 5)}),
    "x-dtype": ("x", {"x": torch.zeros(2, 4, 3, dtype=torch.float64)}),
    "state-batch": ("state.h", {"state": SkipState(torch.zeros(1, 3, 5), torch.zeros(1, 3, 5))}),
    "state-layers": ("state.h", {"state": SkipState(torch.zeros(2, 2, 5), torch.zeros(2, 2, 5))}),
    "state-without-c": ("state.c", {"state": SkipState(torch.zeros(1, 2, 5))}),
    "lengths-beyond": ("lengths", {"lengths": [4, 5]}),
    "schedule-shape": ("schedule", {"schedule": torch.ones(4, 2)}),
    "noise-shape": ("noise", {"noise": torch.ones(4, 2)}),
    "noise-and-schedule": ("noise", {"noise": torch.ones(2, 4), "schedule": torch.ones(2, 4)}),
    "padding_mask-and-lengths": ("padding_mask", {"padding_mask": HOLE, "lengths": [4, 4]}),
    "padding_mask-hole": ("padding_mask", {"padding_mask": HOLE}),
    "padding_mask-shape": ("padding_mask", {"padding_mask": HOLE.T}),
    "padding_mask-dtype": ("padding_mask", {"padding_mask": HOLE.long()}),
}


@pytest.mark.parametrize("module", [SkipLSTM, SkipGRU])
@pytest.mark.parametrize("argument, changes", CONSTRUCTOR.values(), ids=CONSTRUCTOR.keys())
def test_bad_constructor_argument(module, argument, changes):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        module(**{"input_size": 3, "hidden_size": 5, **changes})


@pytest.mark.parametrize("argument, changes", FORWARD.values(), ids=FORWARD.keys())
def test_bad_input(argument, changes):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        SkipLSTM(3, 5)(**{"x": torch.zeros(2, 4, 3), **changes})


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_padding_masks_of_any_length(steps):
    mask = torch.zeros(2, steps, dtype=torch.bool)
    mask[1] = True
    _, _, updates = SkipGRU(3, 5)(torch.randn(2, steps, 3), padding_mask=mask, schedule=torch.ones(2, steps))
    torch.testing.assert_close(updates, (~mask).float())
