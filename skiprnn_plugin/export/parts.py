"""What a trained model consists of, as arrays: what every exporter writes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

import numpy as np
from torch import Tensor

from ..ops.cells import CELLS, GRU, LSTM, RNN, GRUResetBefore

if TYPE_CHECKING:  # these need fairseq
    from ..data.features import Statistics
    from ..hub import SkipRNNHub
    from ..models.skip_rnn import SkipRNNModel


@dataclass(frozen=True)
class Parts:
    """A model that reads numbers step by step: normalisation -> Skip RNN -> linear head on the last output.

    Attributes:
        cell: a name of :data:`skiprnn_plugin.ops.cells.CELLS`.
        input_size, hidden_size, num_layers, output_size: D, H, L and the number of outputs.
        gate_layers: the layers that the gate reads; () if every step is updated.
        threshold: a step is updated if v exceeds it.
        tensors: float32 arrays. Those of the module have its parameters' names (``weight_ih_l0``, ...,
            ``update_weight`` [len(gate_layers) * H], ``update_bias`` [1], ``initial_h`` [L, H], ``initial_c``);
            ``head_weight`` [output_size, H] and ``head_bias`` [output_size] are the linear head's, which predicts
            numbers in the unit of the labels.
        mean, std: what the input is normalised by, float64 [D]; None if it is read as it is.
        class_names: names of the outputs; () for numbers.
        predicts: ``"classes"`` (a softmax follows the head), ``"labels"`` (a sigmoid) or ``"numbers"``.
        per_step: whether the model is trained to predict at every step.
    """

    cell: str
    input_size: int
    hidden_size: int
    num_layers: int
    output_size: int
    gate_layers: Tuple[int, ...]
    threshold: float
    tensors: Dict[str, np.ndarray]
    mean: Optional[np.ndarray]
    std: Optional[np.ndarray]
    class_names: Tuple[str, ...]
    predicts: str
    per_step: bool

    @property
    def has_c(self) -> bool:
        return CELLS[self.cell].has_c

    def layer(self, number: int) -> List[np.ndarray]:
        """weight_ih, weight_hh, bias_ih and bias_hh of a layer."""
        return [self.tensors[f"{name}_l{number}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def collect_parts(hub: "SkipRNNHub") -> Parts:
    """The parts of a trained model.

    Raises:
        ValueError: the model reads something else than numbers, or can't decide step by step; the message says why.
    """
    hub.check_task()
    _check_model(hub)
    rnn, task, gated = hub.model.rnn, hub.task, hub.cfg.model.update_rule == "learned"
    statistics = getattr(getattr(task, "frames", None), "statistics", None)
    tensors = _read_tensors(hub.model, gated)
    if statistics is not None:
        _check_features(statistics)
    targets = getattr(getattr(task, "facts", None), "targets", None)
    if targets is not None:
        tensors.update(_fold_targets(tensors["head_weight"], tensors["head_bias"], targets))
    known = {**tensors, **({} if statistics is None else {"mean": statistics.mean, "std": statistics.std})}
    wrong = [name for name, value in known.items() if not np.isfinite(value).all()]
    if wrong:
        raise ValueError(f"expected finite numbers, {wrong[0]} has infinite or NaN values")
    return Parts(
        cell=rnn.cell,
        input_size=rnn.input_size,
        hidden_size=rnn.hidden_size,
        num_layers=rnn.num_layers,
        output_size=hub.model.head.out_features,
        gate_layers=tuple(rnn.gate_layers) if gated else (),
        threshold=float(rnn.threshold),
        tensors=tensors,
        mean=None if statistics is None else np.asarray(statistics.mean, np.float64),
        std=None if statistics is None else np.asarray(statistics.scale, np.float64),
        class_names=tuple(hub.class_names) if task.predicts in ("classes", "labels") else (),
        predicts=task.predicts,
        per_step=task.per_step,
    )


def _check_model(hub: "SkipRNNHub") -> None:
    """Raise ValueError for a model that can't be exported."""
    from ..models.skip_rnn import SkipRNNModel  # here, as it needs fairseq

    if type(hub.model) is not SkipRNNModel:
        # a model of a user's own could do anything between the Skip RNN and the head
        raise ValueError(f"expected the model skip_rnn of this package, got {type(hub.model).__name__}")
    rnn = hub.model.rnn
    if hub.reads_words:
        raise ValueError("expected a model that reads numbers, this one reads token ids")
    if rnn.bidirectional:
        raise ValueError("expected a model of one direction, this one is bidirectional")
    if rnn.layer_norm:
        raise ValueError("expected a model without layer norm, which only the engine reference has")
    if CELLS.get(rnn.cell) not in (LSTM, GRU, GRUResetBefore, RNN):
        raise ValueError(f"expected a cell of this package, got {rnn.cell!r}")
    rule = hub.cfg.model.update_rule
    if rule == "random" or rule == "learned" and rnn.binarize == "bernoulli":
        raise ValueError("expected a model that decides by its gate alone, this one draws random numbers")
    frames = getattr(hub.task, "frames", None)
    if frames is not None and frames.fit.length is not None:
        raise ValueError(
            f"expected sequences of any length, the task crops or pads them to {frames.fit.length} steps "
            "(--sequence-length)"
        )


def _read_tensors(model: "SkipRNNModel", gated: bool) -> Dict[str, np.ndarray]:
    """The model's parameters as :attr:`Parts.tensors`; those of a gate only if it decides."""
    rnn = model.rnn
    tensors = {name: _as_array(value) for name, value in rnn.named_parameters()}
    shapes = {"initial_h": (rnn.num_layers, -1), "initial_c": (rnn.num_layers, -1), "update_weight": (-1,)}
    tensors.update({name: tensors[name].reshape(shape) for name, shape in shapes.items() if name in tensors})
    if not gated:
        tensors = {name: value for name, value in tensors.items() if not name.startswith("update_")}
    return {**tensors, "head_weight": _as_array(model.head.weight), "head_bias": _as_array(model.head.bias)}


def _fold_targets(weight: np.ndarray, bias: np.ndarray, targets: "Statistics") -> Dict[str, np.ndarray]:
    """The parameters of a head that predicts in the unit of the labels."""
    _check_resolution(targets.mean, targets.scale)
    return {
        "head_weight": (weight * targets.scale[:, None]).astype(np.float32),
        "head_bias": targets.restore(bias).astype(np.float32),
    }


def _check_features(statistics: "Statistics") -> None:
    """Raise ValueError for features whose values, read in float32, differ from those of training by more than about a
    hundredth of their standard deviation; constant ones by as much as they are scaled by."""
    mean, std = np.asarray(statistics.mean, np.float64), np.asarray(statistics.std, np.float64)
    is_constant = statistics.scale != std
    rounding = np.where(is_constant, np.abs(np.float32(mean) - mean), np.abs(mean) * np.finfo(np.float32).eps)
    coarse = np.flatnonzero(rounding > 1e-2 * statistics.scale)
    if len(coarse):
        place = coarse[0]
        raise ValueError(
            "expected features whose differences float32 can hold, in which exported models read them; feature "
            f"{place} (from 0) has mean {mean[place]:g} and standard deviation {std[place]:g}. Train on its difference "
            "from a fixed number instead"
        )


def _check_resolution(mean: np.ndarray, deviation: np.ndarray) -> None:
    """Raise ValueError for numbers to predict that float32, in which exported models compute, would round too much."""
    coarse = np.flatnonzero(np.abs(mean) * np.finfo(np.float32).eps > 1e-3 * deviation)
    if len(coarse):
        output = coarse[0]
        raise ValueError(
            "expected numbers to predict whose differences float32 can hold, those of output "
            f"{output} have mean {mean[output]:g} and standard deviation {deviation[output]:g}; train on their "
            "differences from a fixed number instead"
        )


def check_threshold(parts: Parts) -> None:
    """Raise ValueError for a threshold that no sum of update probabilities exceeds."""
    if not 0 <= np.float32(parts.threshold) < 1:
        raise ValueError(f"threshold: expected a number from 0 to below 1, got {parts.threshold}")


def _as_array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().float().contiguous().numpy()
