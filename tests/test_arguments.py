"""Bad arguments of the modules raise ValueError, and the message names the argument."""

import numpy as np
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
    "zoneout-one": ("zoneout", {"zoneout": 1.0}),
    "zoneout-negative": ("zoneout", {"zoneout": -0.1}),
    "recurrent_dropout-one": ("recurrent_dropout", {"recurrent_dropout": 1}),
    "recurrent_dropout-nan": ("recurrent_dropout", {"recurrent_dropout": float("nan")}),
    "binarize-unknown": ("binarize", {"binarize": "floor"}),
    "init-unknown": ("init", {"init": "zeros"}),
    "chrono_init-one": ("chrono_init", {"chrono_init": 1}),
    "chrono_init-negative": ("chrono_init", {"chrono_init": -2}),
    "gate_init-unknown": ("gate_init", {"gate_init": "torch"}),
    "engine-unknown": ("engine", {"engine": "no such"}),
    "update_bias-nan": ("update_bias", {"update_bias": float("nan")}),
    "update_bias-infinite": ("update_bias", {"update_bias": float("inf")}),
    "threshold-nan": ("threshold", {"threshold": float("nan")}),
    "gate_layers-empty": ("gate_layers", {"gate_layers": ()}),
    "gate_layers-beyond": ("gate_layers", {"gate_layers": (0, 2), "num_layers": 2}),
    "gate_layers-negative": ("gate_layers", {"gate_layers": (-1,)}),
    "dtype-integer": ("dtype", {"dtype": torch.int64}),
}
# values of another type than each argument's
NO_NUMBER = ("a", None, True, [1], 1j)
NO_INTEGER = (*NO_NUMBER, 5.5, 5.0, torch.ones(2))
NO_FLAG = (0.5, 1, None, "yes")
NO_NAME = (None, 1, ["round"], True)
WRONG_TYPES = {
    **{name: NO_INTEGER for name in ("input_size", "hidden_size", "num_layers", "chrono_init")},
    **{name: NO_NUMBER for name in ("dropout", "zoneout", "recurrent_dropout", "threshold", "update_bias")},
    **{name: NO_FLAG for name in ("batch_first", "bidirectional", "gate", "layer_norm")},
    **{name: NO_NAME for name in ("binarize", "init", "gate_init", "engine")},
    "gate_layers": (0, "0", (0.0,), (True,), ("a",), (None,)),
    "dtype": ("float32", float),
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


@pytest.mark.parametrize("module", [SkipLSTM, SkipGRU])
@pytest.mark.parametrize("argument", WRONG_TYPES)
def test_constructor_argument_of_another_type(module, argument):
    for value in WRONG_TYPES[argument]:
        with pytest.raises(ValueError, match=f"^{argument}: expected .*, got "):
            module(**{"input_size": 3, "hidden_size": 5, argument: value})


def test_reset_after_of_another_type():
    with pytest.raises(ValueError, match="^reset_after: expected True or False, got 'before'"):
        SkipGRU(3, 5, reset_after="before")


def test_numbers_of_numpy_are_numbers():
    rnn = SkipGRU(np.int64(3), np.int32(5), np.int64(2), dropout=np.float32(0.5), gate_layers=np.array([0, 1]))
    assert repr(rnn) == repr(SkipGRU(3, 5, 2, dropout=0.5, gate_layers=[0, 1]))
    assert rnn(torch.zeros(1, 2, 3))[0].shape == (1, 2, 5)


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
