"""A plugin with tasks whose models read words and images, and checkpoints for them with the weights of a frozen one."""

import numpy as np
import torch
from fairseq.tasks import register_task
from torch import nn

from skiprnn_plugin.tasks.frequency_discrimination import FrequencyDiscriminationConfig, FrequencyDiscriminationTask

from . import inputs, presented  # noqa: F401  (importing them registers their tasks)

WORDS = ("other", "bad", "good", "film")


@register_task("words", dataclass=FrequencyDiscriminationConfig)
class WordsTask(FrequencyDiscriminationTask):
    class_names = ("negative", "positive")

    def build_embedding(self):
        return nn.Embedding(len(WORDS), self.input_size)

    def encode(self, raw):
        if not isinstance(raw, str):
            raise ValueError(f"expected a text, got {type(raw).__name__}")
        return np.array([WORDS.index(word) if word in WORDS else 0 for word in raw.split()], dtype=np.int64)


@register_task("images", dataclass=FrequencyDiscriminationConfig)
class ImagesTask(FrequencyDiscriminationTask):
    def encode(self, raw):
        image = np.asarray(raw)
        if image.dtype != np.uint8 or image.shape not in ((3, 3), (9,)):
            raise ValueError(f"expected an image, uint8 [3, 3] or [9], got {image.dtype} {image.shape}")
        return image.reshape(9, 1) / 255


def make_checkpoint(frozen, task, path):
    """Write the checkpoint ``frozen``, a model of one feature and two classes, to ``path`` as a model of ``task``."""
    checkpoint = torch.load(frozen, weights_only=False)
    checkpoint["cfg"]["task"]["_name"] = task
    if task in ("words", "own_levels"):
        checkpoint["model"]["embedding.weight"] = torch.linspace(-2, 2, 4)[:, None]
    torch.save(checkpoint, path)
