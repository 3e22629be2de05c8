"""How ``skiprnn-plot`` and ``skiprnn-predict`` draw, describe and read the sequences of a task."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

MOST_NAMES = 4  # classes that a description lists


@dataclass(frozen=True)
class Drawing:
    """How ``skiprnn-plot samples`` draws sequences.

    Attributes:
        kind: ``"points"``: the first feature of each step, one mark for each step; ``"curves"``: all features over
            time, with marks below them; ``"images"``: sequences of pixels from 0 to 1; ``"text"``: sequences of token
            ids. None means text if the model has an embedding, otherwise curves.
        spread: True takes sequences from the whole split, because it may be sorted by label; False takes the first
            ones.
        time_label: for points, the label of the horizontal axis.
        first_time, time_step: for points, the position of the first step on that axis, and the distance between steps.
        value_label: for points, the label of the vertical axis.
        marked_feature: for points, the number of a feature; a ring is drawn around the steps in which it is above 0.
            None draws a line through the points instead of rings.
        marked_label: for points, the meaning of the rings.
        image_shape: for images, height and width; None if they are square.
        pixel_order: for images, the index of each pixel of the sequence in the flattened image, integers [height *
            width]; None if they are in order.
    """

    kind: Optional[str] = None
    spread: bool = True
    time_label: str = "time step"
    first_time: float = 1
    time_step: float = 1
    value_label: str = "value"
    marked_feature: Optional[int] = None
    marked_label: str = "marked"
    image_shape: Optional[Tuple[int, int]] = None
    pixel_order: Optional[np.ndarray] = None


@dataclass(frozen=True)
class Inputs:
    """What ``skiprnn-predict`` reads for a model of the task.

    Attributes:
        kinds: what a user's sequences may come as, any of

            - ``"texts"``: ``--text``, the lines of standard input, and files .txt; ``encode`` gets a str.
            - ``"numbers"``: files .npy, .csv and .png; ``encode`` gets an array.
            - ``"token_ids"``: files .npy, which hold what the model reads. ``encode`` does not get them, only
              :meth:`Presented.fit_token_ids`. A task can't have them beside numbers.

            None means texts and token ids if the model has an embedding, and for numbers otherwise.
        readers: for files of other kinds, a function by the suffix of their names, in lower case, such as ``".wav"``.
            It is called with a path (str), and returns what ``encode`` takes. An exception says that it can't read the
            file.
        video_folder: the folder that ``skiprnn-prepare video`` made, if the model reads features of videos' frames.
            Videos are then read too, and encoded as this folder says; ``encode`` gets the features.
        video_record: what :func:`skiprnn_plugin.prepare.frame_encoder.find_encoding_options` has found in that folder,
            for a model whose folder may be gone; None to read it now.
        head_steps: how many steps the model reads of a sequence, if these are its first ones; None if it reads its last
            ones, or all. Later frames of a video are not encoded.
    """

    kinds: Optional[Tuple[str, ...]] = None
    readers: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    video_folder: Optional[Path] = None
    video_record: Optional[Mapping[str, Any]] = None
    head_steps: Optional[int] = None


class Presented:
    """A mixin for tasks: what ``skiprnn-plot`` and ``skiprnn-predict`` ask of a task. A task may replace every default.

    Attributes:
        drawing: how sequences are drawn.
        inputs: which of a user's files and texts are read.
    """

    drawing = Drawing()
    inputs = Inputs()

    # The task sets these, see :class:`skiprnn_plugin.tasks.sequence.SequenceTask`
    predicts: Optional[str]
    per_step: bool
    class_names: Optional[Sequence[str]]
    feature_names: Optional[Sequence[str]] = None

    def describe_outcome(self, target: np.ndarray, prediction: np.ndarray) -> str:
        """A sequence's target and prediction in words, for the title of its picture.

        Args:
            target: the target as in the dataset's batches: a class, a number, or [C] for labels; [T, ...] if the task
                predicts at every step.
            prediction: the model's output, [output_size], or [T, output_size].
        """
        if self.predicts == "labels":
            return self._describe_labels(np.atleast_2d(target), np.atleast_2d(prediction))
        if self.predicts == "classes":
            predicted = prediction.argmax(-1)
            if self.per_step:
                return f"{(predicted == target).sum():,} of {len(target):,} steps right"
            if self.class_names is None:
                return f"class {target}, predicted {predicted}"
            return f"label {self.class_names[target]}, predicted {self.class_names[predicted]}"
        if self.predicts == "numbers":
            if prediction.size == 1:
                return f"target {target.item():.3f}, predicted {prediction.item():.3f}"
            return (
                f"root mean square error {np.sqrt(np.mean((prediction - target.reshape(prediction.shape)) ** 2)):.3g}"
            )
        return ""

    def _describe_labels(self, target: np.ndarray, prediction: np.ndarray) -> str:
        """The classes that apply at any step, and equally many of the likeliest ones; both arguments are [T, C]."""
        names = self.class_names if self.class_names is not None else list(map(str, range(target.shape[1])))
        true = target.any(0).nonzero()[0]
        likeliest = np.argsort(-prediction.max(0), kind="stable")[: max(len(true), 1)]
        listed, predicted = (" ".join(names[index] for index in chosen[:MOST_NAMES]) for chosen in (true, likeliest))
        return f"labels {listed or 'none'}, likeliest {predicted}"

    def fit_token_ids(self, token_ids: np.ndarray) -> np.ndarray:
        """Crop and pad token ids, int64 [T], to what the model reads; ``encode`` does the same with texts."""
        return token_ids

    def kept_steps(self, raw: np.ndarray, encoded_steps: int) -> range:
        """The steps of a user's sequence that the model reads; the others are cropped.

        Args:
            raw: the argument of ``encode``.
            encoded_steps: the number of steps that ``encode`` returned. If the result is shorter, the rest is padding.
        """
        return range(encoded_steps)

    @classmethod
    def solved_at(cls, options: Mapping[str, Any]) -> Dict[str, float]:
        """The metric's value from which on the task counts as solved, by the metric's name; empty if there is none.

        Args:
            options: the task's options, by name.
        """
        return {}
