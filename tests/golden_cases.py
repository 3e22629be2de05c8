"""The authors' numbers (tests/golden/, see its README) in torch's layout.

The authors' program has one matrix [input + H, G * H] for input and state together and one bias per unit. The columns
of its LSTM are i | g | f | o, without the forget bias of 1 that the cell adds when it runs; its GRU has r | z in one
matrix and n in another. The functions here take and return tensors. They are differentiable, so that autograd converts
gradients back to the authors' layout.
"""

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import pad

from skiprnn_plugin.ops import Gate, LayerWeights, SkipState

DIRECTORY = Path(__file__).parent / "golden"


def load(name):
    """All arrays of a file as tensors, by name."""
    device = torch.get_default_device()
    with np.load(DIRECTORY / f"{name}.npz") as file:
        return {key: torch.from_numpy(file[key]).to(device) for key in file.files if key != "meta_json"}


def kind(arrays):
    """``gru`` or ``lstm``."""
    return "gru" if any(key.endswith("W_cand") for key in arrays) else "lstm"


def prefixes(arrays):
    """The prefixes of the layers' names, the lowest layer first."""
    return ("l1_", "l2_") if "l1_W_gates" in arrays else ("",)


def layer_weights(arrays, prefix="", hidden=None, forget_bias=1.0):
    """One layer's weights from ``W_gates``, ``b_gates`` (and ``W_cand``, ``b_cand``); ``bias_hh`` is 0.

    Args:
        arrays: tensors by name.
        prefix: the prefix of the layer's names.
        hidden: the number of units to which the layer is padded with units of zero weights; None does not pad.
        forget_bias: a number to add to the bias of an LSTM's forget gate (0 to convert a gradient).
    """
    matrix, bias = arrays[prefix + "W_gates"], arrays[prefix + "b_gates"]
    if kind(arrays) == "gru":
        matrix = torch.cat([matrix, arrays[prefix + "W_cand"]], -1)
        bias = torch.cat([bias, arrays[prefix + "b_cand"]], -1)
    gates = 3 if kind(arrays) == "gru" else 4
    units = len(bias) // gates
    inputs = len(matrix) - units
    matrix, bias = matrix.unflatten(1, (gates, units)), bias.unflatten(0, (gates, units))
    if kind(arrays) == "lstm":
        matrix, bias = matrix[:, [0, 2, 1, 3]], bias[[0, 2, 1, 3]]
        bias = bias + forget_bias * torch.tensor([[0.0], [1.0], [0.0], [0.0]], dtype=bias.dtype)
    extra = 0 if hidden is None else hidden - units
    matrix, bias = pad(matrix, (0, extra, 0, 0, 0, extra)).flatten(1).T, pad(bias, (0, extra)).flatten()
    return LayerWeights(matrix[:, :inputs], matrix[:, inputs:], bias, torch.zeros_like(bias))


def scan_arguments(arrays):
    """``weights``, ``state`` and ``gate`` of ``skip_scan``; all layers padded to the lowest one's size."""
    layers = prefixes(arrays)
    hidden = arrays[layers[0] + "init_h"].shape[1]
    weights = [layer_weights(arrays, prefix, hidden) for prefix in layers]
    state = SkipState(
        stack(arrays, "init_h"),
        stack(arrays, "init_c") if kind(arrays) == "lstm" else None,
        arrays["init_update_prob"].squeeze(1) if "w_p" in arrays else None,
        arrays["init_cum_update_prob"].squeeze(1) if "w_p" in arrays else None,
    )
    gate = None
    if "w_p" in arrays:
        gate = Gate(pad(arrays["w_p"].T, (0, hidden - len(arrays["w_p"]))), arrays["b_p"])
    return weights, state, gate


def stack(arrays, name):
    """``name`` of every layer, [num_layers, ..., H], padded with zeros to the lowest layer's size."""
    values = [arrays[prefix + name] for prefix in prefixes(arrays)]
    return torch.stack([pad(value, (0, values[0].shape[-1] - value.shape[-1])) for value in values])
