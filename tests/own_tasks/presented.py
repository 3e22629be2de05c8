"""A user's tasks that say how their sequences are drawn; their data are artificial."""

from dataclasses import dataclass

import numpy as np
import torch
from fairseq.data import FairseqDataset
from fairseq.tasks import register_task
from torch import nn

from skiprnn_plugin.tasks.presentation import Drawing
from skiprnn_plugin.tasks.sequence import SequenceTask, SequenceTaskConfig

NUM_SEQUENCES = 6
LETTERS = "abcd"


@dataclass
class OwnConfig(SequenceTaskConfig):
    pass


class OwnTask(SequenceTask):
    """A subclass makes one sequence and its target."""

    def make_item(self, random):
        raise NotImplementedError

    def load_dataset(self, split, **kwargs):
        random = np.random.default_rng(len(split))
        self.datasets[split] = OwnDataset([self.make_item(random) for _ in range(NUM_SEQUENCES)])


@register_task("own_temperatures", dataclass=OwnConfig)
class OwnTemperaturesTask(OwnTask):
    """Predict the mean temperature of the hours that are marked; sequences differ in length."""

    input_size = 2
    output_size = 1
    predicts = "numbers"
    drawing = Drawing(
        "points",
        time_label="hours",
        first_time=0,
        time_step=0.5,
        value_label="temperature",
        marked_feature=1,
        marked_label="sunny",
    )

    def make_item(self, random):
        steps = random.integers(4, 12)
        x = np.stack([random.normal(size=steps), random.integers(2, size=steps)], axis=1)
        return x, np.float32(x[:, 0].mean())

    def encode(self, raw):
        return np.asarray(raw) / 10  # from tenths of a degree

    @classmethod
    def solved_at(cls, options):
        return {"mse": 0.25}


@register_task("own_curves", dataclass=OwnConfig)
class OwnCurvesTask(OwnTask):
    """Says no more than it must."""

    input_size = 3
    output_size = 2
    predicts = "classes"

    def make_item(self, random):
        x = random.normal(size=(random.integers(4, 12), 3))
        return x, int(x.mean() > 0)


@register_task("own_pictures", dataclass=OwnConfig)
class OwnPicturesTask(OwnTask):
    """Images of 2 x 3 pixels, the last pixel first."""

    input_size = 1
    output_size = 2
    predicts = "classes"
    class_names = ("dark", "bright")
    drawing = Drawing("images", image_shape=(2, 3), pixel_order=np.arange(6)[::-1])

    def make_item(self, random):
        x = random.random((6, 1))
        return x, int(x.mean() > 0.5)

    def encode(self, raw):
        image = np.asarray(raw)
        if image.shape != (2, 3):
            raise ValueError(f"expected an image [2, 3], got {image.shape}")
        return image.reshape(6, 1)[::-1].copy() / 255


@register_task("own_letters", dataclass=OwnConfig)
class OwnLettersTask(OwnTask):
    """Texts whose steps are letters; it has no dictionary."""

    input_size = 5
    output_size = 2
    predicts = "classes"
    class_names = ("few", "many")

    def make_item(self, random):
        token_ids = random.integers(len(LETTERS), size=random.integers(4, 12))
        return token_ids, int((token_ids == 0).sum() > 2)

    def build_embedding(self):
        return nn.Embedding(len(LETTERS), self.input_size)

    def encode(self, raw):
        return np.array([LETTERS.index(letter) for letter in raw], dtype=np.int64)

    def fit_token_ids(self, token_ids):
        return token_ids[:4]


class OwnDataset(FairseqDataset):
    """Pairs of an array and its target."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return index

    def collater(self, indices):
        arrays, targets = zip(*(self.items[index] for index in indices))
        tensors = [torch.from_numpy(array) for array in arrays]
        x = nn.utils.rnn.pad_sequence(tensors, batch_first=True)
        lengths = torch.tensor([len(array) for array in arrays])
        return {
            "id": torch.tensor(indices),
            "nsentences": len(indices),
            "ntokens": int(lengths.sum()),
            "net_input": {"x": x.float() if x.is_floating_point() else x, "lengths": lengths},
            "target": torch.tensor(targets),
        }

    def num_tokens(self, index):
        return len(self.items[index][0])

    size = num_tokens
