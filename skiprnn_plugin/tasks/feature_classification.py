"""Label sequences of features: videos by their frames' (UCF-101), what sensors record, or any other."""

from dataclasses import dataclass
from typing import Sequence, Tuple

from fairseq.tasks import register_task

from ..data.features import FeatureDataset
from .features import FeatureTask, FeatureTaskConfig


@dataclass
class FeatureClassificationConfig(FeatureTaskConfig):
    pass


@register_task("feature_classification", dataclass=FeatureClassificationConfig)
class FeatureClassificationTask(FeatureTask):
    """The manifest's column ``label`` says what a sequence is."""

    predicts = "classes"
    columns = ("label",)

    def make_dataset(self, positions: Sequence[int], key: Tuple[int, ...], fixed: bool) -> FeatureDataset:
        targets = [self.class_names.index(self.items[position].label) for position in positions]
        return FeatureDataset(self.store, self.frames, positions, targets, key, fixed)
