"""How well a trained model knows each class of a held-out split: its average precision or accuracy."""

from typing import NamedTuple, Sequence

import numpy as np

from ..arguments import UserError
from ..average_precision import average_precisions, pool
from .checkpoint import Loaded, iterate_batches, run_model


class Metric(NamedTuple):
    """The name of a metric for one class, its name over all classes, and what it counts."""

    name: str
    overall: str
    unit: str


PRECISION = Metric("average precision", "mAP", "points")
ACCURACY = Metric("accuracy", "accuracy", "sequences")


class Classes(NamedTuple):
    """The P classes that have positives, best first.

    Attributes:
        metric: what the values are.
        names: P of them.
        values: [P].
        positives: how many points, or sequences, have the class, [P].
        classes: the number of all classes, also of those without positives.
        count: the number of all points, or sequences.
        overall: the metric over all of these, which validation logs.
    """

    metric: Metric
    names: Sequence[str]
    values: np.ndarray
    positives: np.ndarray
    classes: int
    count: int
    overall: float

    @property
    def chance(self) -> np.ndarray:
        """The share of positives: about the metric of a model that knows how frequent classes are, and no more, [P]."""
        return self.positives / self.count


def measure(loaded: Loaded) -> Classes:
    """Run the whole held-out split through the model."""
    predicts = getattr(loaded.task, "predicts", None)  # which fairseq's own tasks don't say
    if predicts == "labels":
        return measure_precision(loaded)
    if predicts == "classes" and not loaded.task.per_step:
        return measure_accuracy(loaded)
    raise UserError(
        f"{loaded.path}: expected a model that predicts labels, or the class of a sequence, got one of task "
        f"{loaded.options['task']}"
    )


def measure_precision(loaded: Loaded) -> Classes:
    """The average precision of each class, over the points that validation's ``mAP`` is over."""
    from ..criterions.binary_cross_entropy_with_budget import score_points

    batches = []
    for sample in iterate_batches(loaded):
        if "points" not in sample:
            raise UserError(f"{loaded.path}: split {loaded.split} has no points to be evaluated at")
        batches.append(score_points(run_model(loaded, sample)[0].prediction, sample))
    scores, targets = pool(batches)
    positives, precisions = targets.sum(0), average_precisions(scores, targets)
    if not positives.any():
        raise UserError(f"{loaded.path}: no point of split {loaded.split} has any of the {len(positives)} classes")
    _check_numbers(loaded, precisions[positives > 0])
    return _sort(loaded, PRECISION, precisions, positives, len(targets), precisions[positives > 0].mean())


def measure_accuracy(loaded: Loaded) -> Classes:
    """The accuracy in each class, where every sequence has one label."""
    import torch

    batches = [(run_model(loaded, sample)[0].prediction, sample["target"]) for sample in iterate_batches(loaded)]
    logits, target = (torch.cat(column).cpu().numpy() for column in zip(*batches))
    _check_numbers(loaded, logits)
    predicted = logits.argmax(-1)
    correct, positives = (
        np.bincount(classes, minlength=loaded.task.output_size) for classes in (target[predicted == target], target)
    )
    return _sort(
        loaded, ACCURACY, correct / np.maximum(positives, 1), positives, len(target), np.mean(predicted == target)
    )


def _check_numbers(loaded: Loaded, values: np.ndarray) -> None:
    if np.isnan(values).any():
        raise UserError(f"{loaded.path}: expected a model that predicts numbers, got nan")


def _sort(
    loaded: Loaded, metric: Metric, values: np.ndarray, positives: np.ndarray, count: int, overall: float
) -> Classes:
    """The classes that have positives, from the values and positives of all classes, [C]."""
    names = loaded.task.class_names or range(len(values))
    order = [number for number in np.argsort(-values, kind="stable") if positives[number]]
    listed = [str(names[number]) for number in order]
    return Classes(metric, listed, values[order], positives[order], len(values), count, float(overall))
