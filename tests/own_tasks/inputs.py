"""Tasks of a user's own that say what they read; each has one feature or an embedding, and two classes."""

from pathlib import Path

import numpy as np
from fairseq.tasks import register_task
from torch import nn

from skiprnn_plugin.tasks.frequency_discrimination import FrequencyDiscriminationConfig, FrequencyDiscriminationTask
from skiprnn_plugin.tasks.presentation import Inputs

NOTES = {"c": -1.0, "e": 0.0, "g": 1.0}
NUM_LEVELS = 4


def read_notes(path):
    """The names of the notes in a file, a list."""
    return [name.strip() for name in Path(path).read_text().split(",")]


@register_task("own_notes", dataclass=FrequencyDiscriminationConfig)
class OwnNotesTask(FrequencyDiscriminationTask):
    """Files of a kind of its own, and no others."""

    inputs = Inputs((), readers={".notes": read_notes})

    def encode(self, raw):
        if not set(raw) <= set(NOTES):
            raise ValueError(f"expected notes {', '.join(NOTES)}, got {', '.join(raw)}")
        return np.array([[NOTES[name]] for name in raw])


@register_task("own_levels", dataclass=FrequencyDiscriminationConfig)
class OwnLevelsTask(FrequencyDiscriminationTask):
    """Numbers from 0 to 1, of which an embedding reads the level."""

    inputs = Inputs(("numbers",))

    def build_embedding(self):
        return nn.Embedding(NUM_LEVELS, self.input_size)

    def encode(self, raw):
        levels = np.asarray(raw) * NUM_LEVELS
        if levels.shape not in ((len(levels),), (len(levels), 1)):
            raise ValueError(f"expected numbers [T] or [T, 1], got {levels.shape}")
        return np.minimum(levels.ravel(), NUM_LEVELS - 1).astype(np.int64)


@register_task("own_subtitles", dataclass=FrequencyDiscriminationConfig)
class OwnSubtitlesTask(FrequencyDiscriminationTask):
    """Texts, also those that lie beside films, as numbers: how long the words are."""

    inputs = Inputs(("texts",), readers={".mp4": lambda path: Path(path).with_suffix(".txt").read_text()})

    def encode(self, raw):
        return np.array([[len(word) / 10] for word in raw.split()])


@register_task("own_films", dataclass=FrequencyDiscriminationConfig)
class OwnFilmsTask(FrequencyDiscriminationTask):
    """Videos."""

    inputs = Inputs((), video_folder=Path("data"))
