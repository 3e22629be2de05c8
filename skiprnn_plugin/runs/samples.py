"""What a model does with a few held-out sequences, for the figures of samples."""

from typing import List, NamedTuple, Sequence

import numpy as np

from .checkpoint import Loaded, run_model


class Read(NamedTuple):
    """N sequences of up to T steps.

    Attributes:
        x: inputs, [N, T, D], or token ids, [N, T].
        used: True where the model updated its state (in either direction), bool [N, T].
        lengths: real steps of each sequence, [N].
        target: [N].
        prediction: [N, output_size], or [N, T, output_size].
    """

    x: np.ndarray
    used: np.ndarray
    lengths: np.ndarray
    target: np.ndarray
    prediction: np.ndarray


def choose_sequences(loaded: Loaded, count: int) -> List[int]:
    """The numbers of the sequences to draw, from the whole split or its first ones, as the task's ``drawing`` says."""
    if not loaded.task.drawing.spread:
        return list(range(count))
    return np.linspace(0, len(loaded.dataset) - 1, count).round().astype(int).tolist()


def read_samples(loaded: Loaded, indices: Sequence[int]) -> Read:
    """Run sequences of the split through the model."""
    sample = loaded.dataset.collater([loaded.dataset[index] for index in indices])
    output, used = run_model(loaded, sample)
    return Read(
        sample["net_input"]["x"].numpy(),
        used.any(1),
        np.array([loaded.dataset.size(index) for index in indices]),
        sample["target"].numpy(),
        output.prediction.cpu().numpy(),
    )


def describe_sample(task, read: Read, index: int) -> str:
    """A sequence's target and prediction in the task's words; steps of padding do not count."""
    target, prediction = read.target[index], read.prediction[index]
    if task.per_step:
        target, prediction = target[: read.lengths[index]], prediction[: read.lengths[index]]
    return task.describe_outcome(target, prediction)


def find_probability(logits: np.ndarray) -> float:
    """The probability of the likeliest class, from the logits of all classes, [C]."""
    exponentials = np.exp(logits - logits.max())
    return exponentials.max() / exponentials.sum()
