"""Converts weights from and to torch's RNN modules, and from the authors' TensorFlow program."""

from typing import TYPE_CHECKING, Any, Dict, Iterable, Mapping, Optional, Tuple, Union

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from .skip_rnn import SkipGRU, SkipLSTM, SkipRNN, SkipRNNBase

if TYPE_CHECKING:  # torch works without numpy
    import numpy as np

TORCH = {nn.LSTM: SkipLSTM, nn.GRU: SkipGRU, nn.RNN: SkipRNN}


def from_torch(module: nn.RNNBase, **options) -> SkipRNNBase:
    """A Skip RNN with the weights of an ``nn.LSTM``, ``nn.GRU`` or (tanh) ``nn.RNN``, and an initial state of zeros.

    Args:
        module: a module with biases and without projections; if it is bidirectional, with one layer.
        options: further arguments of the Skip RNN module. The gate's weights are initialised at random; with
            ``gate=False`` the outputs are those of ``module``. Frozen weights stay frozen, and a module in evaluation
            mode stays so.

    Raises:
        ValueError: no Skip RNN corresponds to the module, or an option contradicts the module's weights.
    """
    ours = next((ours for theirs, ours in TORCH.items() if isinstance(module, theirs)), None)
    if ours is None:
        raise ValueError(f"module: expected nn.LSTM, nn.GRU or nn.RNN, got {type(module).__name__}")
    unfit = {
        "bias=False": not module.bias,
        "proj_size": module.proj_size != 0,
        "nonlinearity='relu'": getattr(module, "nonlinearity", "tanh") != "tanh",
        "bidirectional with several layers, which joins the directions between them": module.bidirectional
        and module.num_layers > 1,
    }
    for option, present in unfit.items():
        if present:
            raise ValueError(f"module: {option} has no counterpart in a Skip RNN")
    weights = _weights(module, "module", [name for layer in module._all_weights for name in layer])
    weight = module.weight_ih_l0
    decided = {
        "input_size": module.input_size,
        "hidden_size": module.hidden_size,
        "num_layers": module.num_layers,
        "bidirectional": module.bidirectional,
    }
    defaults = {
        "batch_first": module.batch_first,
        "dropout": module.dropout,
        "device": weight.device,
        "dtype": weight.dtype,
    }
    skip = ours(**_merge(decided, defaults, options))
    skip.load_state_dict({**skip.state_dict(), **weights})
    with torch.no_grad():
        for name, parameter in skip.named_parameters():
            if name.startswith("initial_"):
                parameter.zero_()
    return _like(skip, module, weights)


def to_torch(skip: SkipRNNBase) -> nn.RNNBase:
    """The ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN`` with the same weights, which updates at every step.

    torch's modules have no learned initial state: pass ``skip.initial_state(batch_size)`` to them, or they start from
    zeros.

    Raises:
        ValueError: torch has no counterpart of this Skip RNN.
    """
    theirs = next((theirs for theirs, ours in TORCH.items() if isinstance(skip, ours)), None)
    if theirs is None:
        raise ValueError(f"skip: expected SkipLSTM, SkipGRU or SkipRNN, got {type(skip).__name__}")
    unfit = {
        "reset_after=False": skip.cell == "gru_reset_before",
        "layer_norm": skip.layer_norm,
        "zoneout": skip.zoneout > 0,
        "recurrent_dropout": skip.recurrent_dropout > 0,
        "bidirectional with several layers": skip.bidirectional and skip.num_layers > 1,
    }
    for option, present in unfit.items():
        if present:
            raise ValueError(f"skip: {option} has no counterpart in torch.nn.{theirs.__name__}")
    module = theirs(
        skip.input_size,
        skip.hidden_size,
        skip.num_layers,
        batch_first=skip.batch_first,
        dropout=skip.dropout,
        bidirectional=skip.bidirectional,
        device=skip.weight_ih_l0.device,
        dtype=skip.weight_ih_l0.dtype,
    )
    weights = _weights(skip, "skip", module.state_dict())
    module.load_state_dict(weights)
    return _like(module, skip, weights)


def _like(converted: nn.Module, module: nn.Module, names: Iterable[str]) -> Any:
    """``converted`` in the mode of ``module``, training or evaluation; of these parameters those are frozen that are so
    there."""
    for name in names:
        if name in module._parameters:
            getattr(converted, name).requires_grad_(getattr(module, name).requires_grad)
    return converted.train(module.training)


def _merge(decided: Dict[str, Any], defaults: Dict[str, Any], options: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a module; ValueError if an option is another than the weights have decided."""
    for name, value in decided.items():
        if options.get(name, value) != value:
            raise ValueError(f"{name}: expected {value}, as the weights have it, got {options[name]}")
    return {**defaults, **options, **decided}


def _weights(module: nn.Module, argument: str, names: Iterable[str]) -> Dict[str, Tensor]:
    """The values of these parameters, also of those that a parametrization computes."""
    for name in names:
        if name not in module._parameters and not is_parametrized(module, name):
            raise ValueError(
                f"{argument}: expected a parameter {name}, got a value that a hook computes, such as the older "
                "torch.nn.utils.weight_norm; use torch.nn.utils.parametrizations, or remove the hook first"
            )
    return {name: getattr(module, name).detach() for name in names}


def from_authors(arrays: "Mapping[str, Union[np.ndarray, Tensor]]", **options) -> SkipRNNBase:
    """A Skip LSTM or Skip GRU (``reset_after=False``) with the variables of the authors' program.

    Args:
        arrays: the variables by name; an opened ``.npz`` file will do. They are ``W_gates`` and ``b_gates``, for a GRU
            also ``W_cand`` and ``b_cand``; ``init_h`` and, for an LSTM, ``init_c``, [1, H]; and ``w_p`` and ``b_p`` of
            the gate, or neither. Matrices are [input + H, gates * H], with the gates i, g, f, o (the forget bias is not
            included) or r, z. In a stack of LSTMs of equal size all names except the gate's begin with ``l1_``,
            ``l2_``, ...
        options: further arguments of the module.

    Raises:
        ValueError: a variable is missing or has another shape (the message names it), or an option contradicts the
            variables, or they are a stack of GRUs, whose upper layers read the network's input in the authors' program
            but not here.
    """
    arrays = {name: _as_tensor(arrays[name]) for name in arrays if not name.endswith("json")}
    prefixes = [""]
    if "l1_W_gates" in arrays:
        prefixes = [f"l{layer}_" for layer in range(1, len(arrays)) if f"l{layer}_W_gates" in arrays]
    gru = f"{prefixes[0]}W_cand" in arrays
    if gru and len(prefixes) > 1:
        raise ValueError("arrays: a stack of the authors' GRUs has no counterpart; its upper layers read the input")
    layers = [(_gru_layer if gru else _lstm_layer)(arrays, prefix) for prefix in prefixes]
    hidden = layers[0]["weight_hh"].shape[1]
    values = {f"{name}_l{number}": value for number, layer in enumerate(layers) for name, value in layer.items()}
    for name in ("h",) if gru else ("h", "c"):
        states = [_take(arrays, f"{prefix}init_{name}", (1, hidden)) for prefix in prefixes]
        values[f"initial_{name}"] = torch.stack(states)
    if "w_p" in arrays:
        values["update_weight"] = _take(arrays, "w_p", (hidden, 1)).T
        values["update_bias"] = _take(arrays, "b_p", (1,))
    weight = values["weight_ih_l0"]
    decided = {
        "input_size": weight.shape[1],
        "hidden_size": hidden,
        "num_layers": len(layers),
        "bidirectional": False,
        **({"reset_after": False} if gru else {}),
    }
    defaults = {"gate": "w_p" in arrays, "dtype": weight.dtype, "device": weight.device}
    skip = (SkipGRU if gru else SkipLSTM)(**_merge(decided, defaults, options))
    skip.load_state_dict({**skip.state_dict(), **values})
    return skip


def _lstm_layer(arrays: Dict[str, Tensor], prefix: str) -> Dict[str, Tensor]:
    matrix, bias, hidden = _matrix(arrays, prefix, gates=4)
    order = [block * hidden + unit for block in (0, 2, 1, 3) for unit in range(hidden)]  # i, f, g, o
    forget = torch.zeros_like(bias)
    forget[hidden : 2 * hidden] = 1
    return _split(matrix[:, order], bias[order] + forget, hidden)


def _gru_layer(arrays: Dict[str, Tensor], prefix: str) -> Dict[str, Tensor]:
    matrix, bias, hidden = _matrix(arrays, prefix, gates=2)
    candidate = _take(arrays, f"{prefix}W_cand", (matrix.shape[0], hidden))
    candidate_bias = _take(arrays, f"{prefix}b_cand", (hidden,))
    return _split(torch.cat([matrix, candidate], 1), torch.cat([bias, candidate_bias]), hidden)


def _matrix(arrays: Dict[str, Tensor], prefix: str, gates: int) -> Tuple[Tensor, Tensor, int]:
    name = f"{prefix}W_gates"
    matrix = _take(arrays, name, (None, None))
    hidden = matrix.shape[1] // gates
    if matrix.shape[1] != gates * hidden or matrix.shape[0] <= hidden:
        raise ValueError(f"{name}: expected shape [input + H, {gates} * H], got {tuple(matrix.shape)}")
    return matrix, _take(arrays, f"{prefix}b_gates", (gates * hidden,)), hidden


def _split(matrix: Tensor, bias: Tensor, hidden: int) -> Dict[str, Tensor]:
    inputs = matrix.shape[0] - hidden
    return {
        "weight_ih": matrix[:inputs].T,
        "weight_hh": matrix[inputs:].T,
        "bias_ih": bias,
        "bias_hh": torch.zeros_like(bias),
    }


def _as_tensor(array: "Union[np.ndarray, Tensor]") -> Tensor:
    if isinstance(array, Tensor):
        return array
    import numpy as np

    return torch.as_tensor(np.asarray(array))


def _take(arrays: Dict[str, Tensor], name: str, shape: Tuple[Optional[int], ...]) -> Tensor:
    """The array of that name, after a check of its shape (None for any size)."""
    if name not in arrays:
        raise ValueError(f"{name}: missing; found {', '.join(sorted(arrays))}")
    tensor = arrays[name]
    if tensor.dim() != len(shape) or any(want not in (None, got) for want, got in zip(shape, tensor.shape)):
        raise ValueError(f"{name}: expected shape {shape}, got {tuple(tensor.shape)}")
    return tensor
