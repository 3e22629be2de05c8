"""Predict numbers for sequences of features, such as a sensor's readings."""

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import List, Sequence, Tuple

import numpy as np
from fairseq.tasks import register_task

from ..data.features import FeatureDataset, FolderFacts
from ..data.manifest import Item, find_manifest
from ..data.targets import measure_targets, read_targets
from .features import FeatureTask, FeatureTaskConfig


@dataclass
class FeatureRegressionConfig(FeatureTaskConfig):
    pass


@register_task("feature_regression", dataclass=FeatureRegressionConfig)
class FeatureRegressionTask(FeatureTask):
    """Predicts the numbers that the manifest's column ``label`` holds for a sequence: one, or several separated by
    spaces.

    The model is trained to predict them at mean 0 and standard deviation 1 over the split train, so that outputs of
    different units count alike in ``task_loss``. Its predictions for users are in the unit of the labels, and the
    ``mse`` that is logged is in its square, a mean over the outputs.
    """

    predicts = "numbers"
    columns = ("label",)

    def read_facts(self) -> FolderFacts:
        facts = super().read_facts()
        items = [item for item in self.items if item.split == "train"]
        if not items:
            raise ValueError(f"{find_manifest(self.folder)}: expected sequences of split 'train', got none")
        return facts._replace(targets=measure_targets(read_targets(self.folder, items)))

    @cached_property
    def data_fingerprint(self) -> int:
        """It also tells other labels of the split train, as their mean and standard deviation are the unit of the
        model's predictions. These are not compared, because their last digits may differ between machines."""
        targets = read_targets(self.folder, [item for item in self.items if item.split == "train"])
        return zlib.crc32(np.sort(targets, 0).tobytes(), super().data_fingerprint)

    def find_classes(self) -> List[str]:
        return []

    def use(self, facts: FolderFacts) -> None:
        super().use(facts)
        self.class_names, self.output_size = None, len(facts.targets.mean)
        self.target_scale, self.decode = facts.targets.scale, facts.targets.restore

    def check_items(self, items: Sequence[Item]) -> None:
        targets = read_targets(self.folder, items)
        if targets.shape[1] != self.output_size:
            raise ValueError(
                f"{find_manifest(self.folder)}:{items[0].line}: label: expected {self.output_size} numbers, as in "
                f"split train, got {items[0].label!r}"
            )

    def make_dataset(self, positions: Sequence[int], key: Tuple[int, ...], fixed: bool) -> FeatureDataset:
        targets = read_targets(self.folder, [self.items[position] for position in positions])
        targets = self.facts.targets.normalize(targets).astype(np.float32)
        return FeatureDataset(self.store, self.frames, positions, targets, key, fixed)

    def describe_outcome(self, target: np.ndarray, prediction: np.ndarray) -> str:
        if prediction.size > 1:
            return super().describe_outcome(self.decode(target), self.decode(prediction))
        return f"target {self.decode(target).item():.12g}, predicted {self.decode(prediction).item():.12g}"
