"""What a model predicts for a user's own sequences: which class is the likeliest, and when each class is present."""

import itertools
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

from ..hub import Prediction, SkipRNNHub
from ..reading import show_line
from .inputs import Input, describe_video

WARM_UP = 3  # how often the first batch runs before the time counts


def predict_inputs(hub, inputs: Iterator, batch_size: int) -> Iterator[Tuple[Any, Any]]:
    """Pairs of an input and its prediction, after the first batch has run ``WARM_UP`` times. Standard error says which
    frames of a video were encoded."""
    first = list(itertools.islice(inputs, batch_size))
    for _ in range(WARM_UP):
        list(hub.run([read.encoded for read in first], batch_size))
    kept, waiting = itertools.tee(itertools.chain(first, inputs))
    return _show_videos(zip(kept, hub.run((read.encoded for read in waiting), batch_size)))


def _show_videos(predictions: Iterator[Tuple[Any, Any]]) -> Iterator[Tuple[Any, Any]]:
    for read, prediction in predictions:
        if read.video is not None:
            show_line(describe_video(read, prediction))
        yield read, prediction


def has_classes(hub: SkipRNNHub) -> bool:
    return hub.task.predicts in ("classes", "labels")


def has_spans(hub: SkipRNNHub) -> bool:
    return hub.task.per_step and has_classes(hub)


def find_likeliest(hub: SkipRNNHub, read: Input, prediction: Prediction) -> Tuple[str, float]:
    """The likeliest class and its probability; of a model that predicts at every step, at any step of the input."""
    values = prediction.values[: len(read.kept)] if hub.task.per_step else prediction.values
    return hub.class_names[values.argmax() % values.shape[-1]], float(values.max())


class Span(NamedTuple):
    """Consecutive steps in which a class is present.

    Attributes:
        number: the class's number.
        probability: the class's highest probability in these steps.
        start: the first step, from 0.
        end: the step after the last.
    """

    number: int
    probability: float
    start: int
    end: int


def find_class_spans(probabilities: np.ndarray, threshold: float) -> List[Span]:
    """The longest spans in which a class has at least the probability ``threshold``, sorted by their start.

    Args:
        probabilities: [T, C].
        threshold: more than 0.
    """
    present = np.pad(probabilities >= threshold, [(1, 1), (0, 0)]).astype(np.int8)
    changes = np.diff(present, axis=0).T  # where each class begins (1) or ends (-1), [C, T + 1]
    spans = [
        Span(number, float(probabilities[start:end, number].max()), start, end)
        for (number, start), (_, end) in zip(np.argwhere(changes > 0).tolist(), np.argwhere(changes < 0).tolist())
    ]
    return sorted(spans, key=lambda span: span.start)


def as_timeline(hub: SkipRNNHub, read: Input, prediction: Prediction, threshold: float) -> List[Dict[str, Any]]:
    """Label, probability, start and end of all spans.

    Step k lasts from k / rate to (k + 1) / rate seconds, as in evaluation, where the task has a ``frame_rate``;
    otherwise start and end are numbers of steps. They count from the beginning of the input, even if it is cropped.
    No span contains padding.
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
        for span in find_class_spans(prediction.values[: len(read.kept)], threshold)
    ]
