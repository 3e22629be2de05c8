"""When each class is present, from a model's probabilities at every step."""

from typing import Any, Dict, List, NamedTuple

import numpy as np

from ...hub import Prediction, SkipRNNHub
from .inputs import Input


class Span(NamedTuple):
    """Consecutive steps in which a class is present.

    Attributes:
        number: of the class.
        probability: the class's highest in these steps.
        start: the first step, from 0.
        end: the step after the last.
    """

    number: int
    probability: float
    start: int
    end: int


def find_spans(probabilities: np.ndarray, threshold: float) -> List[Span]:
    """The longest spans in which a class has at least the probability ``threshold``, sorted by their start.

    Args:
        probabilities: [T, C].
        threshold: more than 0.
    """
    present = np.pad(probabilities >= threshold, [(1, 1), (0, 0)]).astype(np.int8)
    changes = np.diff(present, axis=0).T  # of each class between the steps, [C, T + 1]
    spans = [
        Span(number, float(probabilities[start:end, number].max()), start, end)
        for (number, start), (_, end) in zip(np.argwhere(changes > 0).tolist(), np.argwhere(changes < 0).tolist())
    ]
    return sorted(spans, key=lambda span: span.start)


def as_timeline(hub: SkipRNNHub, read: Input, prediction: Prediction, threshold: float) -> List[Dict[str, Any]]:
    """Label, probability, start and end of each span.

    Step k lasts from k / rate to (k + 1) / rate seconds, as in evaluation, where the task has a ``frame_rate``;
    otherwise start and end are numbers of steps. They count from the beginning of the input, also if that is cropped.
    Padding is in no span.
    """
    rate, first = hub.task.frame_rate, read.kept.start

    def time(step: int):
        return first + step if rate is None else (first + step) / rate

    return [
        {
            "label": hub.class_names[span.number],
            "probability": span.probability,
            "start": time(span.start),
            "end": time(span.end),
        }
        for span in find_spans(prediction.values[: len(read.kept)], threshold)
    ]
