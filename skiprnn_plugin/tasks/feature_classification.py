"""Label sequences of features: of a video's frames (UCF-101), of a sensor's readings, or any other."""

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
    """Predicts the class of a sequence, which the manifest's column ``label`` holds."""

    predicts = "classes"
    columns = ("label",)

    def make_dataset(self, positions: Sequence[int], key: Tuple[int, ...], fixed: bool) -> FeatureDataset:
        places = {name: place for place, name in enumerate(self.class_names)}
        targets = [places[self.items[position].label] for position in positions]
        return FeatureDataset(self.store, self.frames, positions, targets, key, fixed)
