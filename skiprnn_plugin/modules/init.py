"""Initial values of a Skip RNN's parameters."""

import math
from typing import Iterable, Type

import torch
from torch import Tensor, nn

from ..arguments import check_count
from ..ops import Cell, LayerWeights


@torch.no_grad()
def init_layer_like_authors(cell: Type[Cell], w: LayerWeights) -> None:
    """Initialise a layer as the authors' program does: Glorot-uniform weights over each concatenated matrix,
    [input + H, gates * H], and biases of 0, to which ``cell.start_bias`` is added in ``bias_ih`` or in the layer norm's
    bias."""
    hidden = w.weight_hh.shape[-1]
    blocks = [gates * hidden for gates in cell.matrices]
    for parts in zip(w.weight_ih.split(blocks), w.weight_hh.split(blocks)):
        rows, columns = sum(part.shape[1] for part in parts), parts[0].shape[0]
        limit = math.sqrt(6 / (rows + columns))
        for part in parts:
            part.uniform_(-limit, limit)
    nn.init.zeros_(w.bias_ih)
    nn.init.zeros_(w.bias_hh)
    _init_norm(w)
    bias = w.norm_bias if w.norm_bias is not None and cell.bias_after_norm else w.bias_ih
    bias += torch.tensor(cell.start_bias, dtype=bias.dtype, device=bias.device).repeat_interleave(hidden)


@torch.no_grad()
def init_layer_like_torch(cell: Type[Cell], w: LayerWeights) -> None:
    """Initialise a layer as torch's RNN modules do: weights and biases from U(-1 / sqrt(H), 1 / sqrt(H))."""
    limit = 1 / math.sqrt(w.weight_hh.shape[-1])
    for tensor in (w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh):
        tensor.uniform_(-limit, limit)
    _init_norm(w)


def check_chrono(cell: Type[Cell], steps: int) -> int:
    """Check T of the chrono initialisation, 0 for none. Raises ValueError, which names the argument."""
    if check_count("chrono_init", steps) == 1:
        raise ValueError("chrono_init: expected 0 or at least 2, got 1")
    if steps and cell.keeping_gate is None:
        raise ValueError(f"chrono_init: expected 0 for a plain RNN, which has no gates, got {steps}")
    return steps


@torch.no_grad()
def init_memories(cell: Type[Cell], w: LayerWeights, steps: int) -> None:
    """Draw biases with which a layer's units start with memories of up to ``steps`` updates (chrono initialisation,
    Tallec and Ollivier 2018): log U(1, steps - 1) for the gate that keeps the state, and minus that for the gate that
    admits the new one, if the cell has two."""
    hidden = w.weight_hh.shape[-1]
    memories = torch.empty(hidden, dtype=torch.float64).uniform_(1, steps - 1).log().to(w.bias_ih)
    for gate, values in ((cell.keeping_gate, memories), (cell.admitting_gate, -memories)):
        if gate is not None:
            rows = slice(gate * hidden, (gate + 1) * hidden)
            w.bias_ih[rows] = w.bias_hh[rows] = 0  # both are added
            # Layer norm would change a bias that is added before it
            (w.bias_ih if w.norm_bias is None else w.norm_bias)[rows] = values


def _init_norm(w: LayerWeights) -> None:
    if w.norm_weight is not None:
        nn.init.ones_(w.norm_weight)
        nn.init.zeros_(w.norm_bias)


@torch.no_grad()
def init_gate(weight: Tensor, bias: Tensor, update_bias: float, init: str) -> None:
    """Initialise the gate: a weight as :data:`GATE_INITS` says, and the bias ``update_bias``."""
    GATE_INITS[init](weight)
    nn.init.constant_(bias, update_bias)


@torch.no_grad()
def init_states(states: Iterable[Tensor]) -> None:
    """Draw learned initial states from N(0, 1)."""
    for state in states:
        nn.init.normal_(state)


INITS = {"authors": init_layer_like_authors, "torch": init_layer_like_torch}
GATE_INITS = {"authors": nn.init.xavier_uniform_, "zeros": nn.init.zeros_}
