"""What a trained model consists of, as arrays: what every exporter writes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

import numpy as np
from torch import Tensor

from ..ops.cells import CELLS

if TYPE_CHECKING:  # the hub needs fairseq
    from ..hub import SkipRNNHub

PACKAGE = __name__.partition(".")[0]


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
    hub._check_task()
    model, task = hub.model, hub.task
    if type(model).__qualname__ != "SkipRNNModel" or not type(model).__module__.startswith(f"{PACKAGE}."):
        # a model of a user's own could do anything between the Skip RNN and the head
        raise ValueError(f"expected the model skip_rnn of this package, got {type(model).__name__}")
    rnn, head = model.rnn, model.head
    if hub.reads_words:
        raise ValueError("expected a model that reads numbers, this one reads token ids")
    if rnn.bidirectional:
        raise ValueError("expected a model of one direction, this one is bidirectional")
    if rnn.layer_norm:
        raise ValueError("expected a model without layer norm, which only the engine reference has")
    if rnn.cell not in CELLS or CELLS[rnn.cell].__module__ != CELLS["gru"].__module__:
        raise ValueError(f"expected a cell of this package, got {rnn.cell!r}")
    rule = hub.cfg.model.update_rule
    if rule == "random" or rule == "learned" and rnn.binarize == "bernoulli":
        raise ValueError("expected a model that decides by its gate alone, this one draws random numbers")
    frames = getattr(task, "frames", None)
    if frames is not None and frames.fit.length is not None:
        raise ValueError(
            f"expected sequences of any length, the task crops or pads them to {frames.fit.length} steps "
            "(--sequence-length)"
        )
    statistics = None if frames is None else frames.statistics
    tensors = {name: _as_array(value) for name, value in rnn.named_parameters()}
    shapes = {"initial_h": (rnn.num_layers, -1), "initial_c": (rnn.num_layers, -1), "update_weight": (-1,)}
    tensors.update({name: tensors[name].reshape(shape) for name, shape in shapes.items() if name in tensors})
    if rule == "full":
        tensors = {name: value for name, value in tensors.items() if not name.startswith("update_")}
    tensors["head_weight"], tensors["head_bias"] = _as_array(head.weight), _as_array(head.bias)
    targets = getattr(getattr(task, "facts", None), "targets", None)
    if targets is not None:  # the head then predicts in the unit of the labels
        _check_resolution(targets.mean, targets.scale)
        tensors["head_weight"] = (tensors["head_weight"] * targets.scale[:, None]).astype(np.float32)
        tensors["head_bias"] = targets.restore(tensors["head_bias"]).astype(np.float32)
    known = {**tensors, **({} if statistics is None else {"mean": statistics.mean, "std": statistics.std})}
    wrong = [name for name, value in known.items() if not np.isfinite(value).all()]
    if wrong:
        raise ValueError(f"expected finite numbers, {wrong[0]} has infinite or NaN values")
    return Parts(
        cell=rnn.cell,
        input_size=rnn.input_size,
        hidden_size=rnn.hidden_size,
        num_layers=rnn.num_layers,
        output_size=head.out_features,
        gate_layers=tuple(rnn.gate_layers) if rule == "learned" else (),
        threshold=float(rnn.threshold),
        tensors=tensors,
        mean=None if statistics is None else np.asarray(statistics.mean, np.float64),
        std=None if statistics is None else np.asarray(statistics.scale, np.float64),
        class_names=tuple(hub.class_names) if task.predicts in ("classes", "labels") else (),
        predicts=task.predicts,
        per_step=task.per_step,
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
