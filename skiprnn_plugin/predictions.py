"""The kinds of predictions, the criterion for each kind, and a model's prediction for a sequence. Needs no fairseq."""

from typing import NamedTuple, Optional

import numpy as np
from torch import Tensor

# The criterion for each kind of prediction: one class of several, any number of labels, or numbers
CRITERIONS = {
    "classes": "cross_entropy_with_budget",
    "labels": "binary_cross_entropy_with_budget",
    "numbers": "mse_with_budget",
}


# What a task says of the sequences that its models read, and of their predictions
SEQUENCE_TASK = ("encode", "input_size", "output_size", "per_step", "predicts")


def is_sequence_task(task) -> bool:
    """Whether a task has the attributes of :class:`skiprnn_plugin.tasks.sequence.SequenceTask` that the hub needs."""
    return all(hasattr(task, name) for name in SEQUENCE_TASK)


class Prediction(NamedTuple):
    """The prediction of a model for a sequence of T steps.

    Attributes:
        values: probabilities if the task predicts classes or labels, otherwise the predicted numbers, float32
            [output_size], or float64 if they have a unit of their own; [T, output_size] if the task predicts at every
            step.
        label: the likeliest class (at any step): its name, or its number if it has no name; None if the task predicts
            numbers.
        used: True where the model updated its state, bool [T]; for a bidirectional model [2, T], forward and backward,
            both in the order of the input.
        seconds: the time that the model took: the time from a batch's encoded sequences to its predictions, divided by
            the number of sequences.
    """

    values: np.ndarray
    label: Optional[str]
    used: np.ndarray
    seconds: float


def as_probabilities(outputs: Tensor, predicts: str) -> Tensor:
    """A model's outputs [..., output_size] as probabilities of classes or labels; numbers stay as they are."""
    if predicts == "classes":
        return outputs.softmax(-1)
    if predicts == "labels":
        return outputs.sigmoid()
    return outputs
