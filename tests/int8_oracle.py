"""What int8 weights compute, in plain torch: recurrent rows rounded to 8 bits, the state to 16 before every product."""

import numpy as np
import torch

from skiprnn_plugin.ops import CELLS
from skiprnn_plugin.ops.cells import project

# What may differ between this and an implementation: a state next to the middle of two integers is rounded to the other
# one. A GRU that resets before the product multiplies the rounded r h, which is not rounded here.
TOLERANCE = 5e-5


def round_rows(weight):
    largest = weight.abs().amax(1, keepdim=True)
    return torch.round(weight / (largest / 127)) * (largest / 127)


def round_state(h):
    """A state [B, H], rounded by the largest number of each row, which is 1 or more."""
    most = min(2**15 - 1, (2**31 - 1) // (127 * h.shape[-1]))
    unit = h.abs().amax(-1, keepdim=True).clamp(min=1) / most
    return torch.round(h / unit) * unit


@torch.no_grad()
def read(rnn, x):
    """Read a sequence x [T, D]. Returns the top layer's state after every step [T, H] and the updates."""
    cell = CELLS[rnn.cell]
    layers = [w._replace(weight_hh=round_rows(w.weight_hh)) for w in rnn._weights("")]
    h, c = list(rnn.initial_h), None if rnn.initial_c is None else list(rnn.initial_c)
    p, acc, outputs, updates = np.float32(1), np.float32(0), [], []
    for sample in x:
        acc = acc + min(p, np.float32(1) - acc)
        updates.append(bool(acc > np.float32(rnn.threshold)))
        if updates[-1]:
            below = sample[None]
            for layer, w in enumerate(layers):
                old_c = None if c is None else c[layer]
                u = cell.recur(round_state(h[layer]), w)
                h[layer], new_c, _ = cell.combine(project(below, w.weight_ih, cell.bias(w)), u, h[layer], old_c, w)
                below = h[layer]
                if c is not None:
                    c[layer] = new_c
            read_by_gate = torch.cat([(h if c is None else c)[layer] for layer in rnn.gate_layers], -1)
            p = torch.sigmoid(read_by_gate @ rnn.update_weight.T + rnn.update_bias).numpy()[0, 0]
            acc = np.float32(0)
        outputs.append(h[-1][0])
    return torch.stack(outputs), updates
