"""What ``skiprnn-predict`` prints of a model's predictions: columns, or JSON."""

from typing import Any, Dict, Iterable, List, TextIO, Tuple

import numpy as np

from ...hub import Prediction, SkipRNNHub
from ...runs.inputs import Input
from ...runs.outcomes import as_timeline, find_likeliest, has_classes, has_spans


def print_rows(
    hub: SkipRNNHub, predictions: Iterable[Tuple[Input, Prediction]], threshold: float, output: TextIO
) -> None:
    """A line for each prediction, or for each of its spans (see :func:`as_timeline`), as they come."""
    outcome = ["label", "probability"] if has_classes(hub) else ["prediction"]
    outcome += ["start", "end"] if has_spans(hub) else []
    print(*outcome, "used", "steps", "ms", "input", sep="\t", file=output)
    for read, prediction in predictions:
        for row in as_rows(hub, read, prediction, threshold):
            print(*row, sep="\t", file=output, flush=True)


def as_rows(hub: SkipRNNHub, read: Input, prediction: Prediction, threshold: float) -> List[List[str]]:
    used = prediction.used
    rest = [str(used.sum()), str(used.size), f"{1000 * prediction.seconds:.3f}", read.name]
    return [[*outcome, *rest] for outcome in _as_outcomes(hub, read, prediction, threshold)]


def _as_outcomes(hub: SkipRNNHub, read: Input, prediction: Prediction, threshold: float) -> List[List[str]]:
    if not has_classes(hub):
        digits = 12 if prediction.values.dtype == np.float64 else 6  # numbers in a unit may be large and differ little
        return [[" ".join(f"{value:.{digits}g}" for value in prediction.values.ravel())]]
    label, probability = find_likeliest(hub, read, prediction)
    if not has_spans(hub):
        return [[label, f"{probability:.4f}"]]
    time = "d" if hub.task.frame_rate is None else ".3f"
    rows = [
        [span["label"], f"{span['probability']:.4f}", format(span["start"], time), format(span["end"], time)]
        for span in as_timeline(hub, read, prediction, threshold)
    ]
    return rows or [["-", f"{probability:.4f}", "-", "-"]]


def as_json(hub: SkipRNNHub, read: Input, prediction: Prediction, threshold: float) -> Dict[str, Any]:
    """An item of the list; of a bidirectional model ``used`` is a list for each direction."""
    values, used = prediction.values, prediction.used
    if has_classes(hub):
        label, _ = find_likeliest(hub, read, prediction)
        outcome = {"label": label, "probabilities": dict(zip(hub.class_names, values.T.tolist()))}
    else:
        outcome = {"prediction": values.tolist()}
    if has_spans(hub):
        outcome["spans"] = as_timeline(hub, read, prediction, threshold)
    indices = [row.nonzero()[0].tolist() for row in used] if used.ndim == 2 else used.nonzero()[0].tolist()
    item = {"input": read.name, **outcome, "used": indices, "steps": used.size, "ms": 1000 * prediction.seconds}
    if read.video is not None:
        item["encoded"], item["encoding_ms"] = int(read.video.encoded.sum()), 1000 * read.video.seconds
    return item
