"""Find what happens in feature sequences, and when: several labels at each step (Charades)."""

import logging
import math
from dataclasses import dataclass, field
from typing import Sequence, Tuple

from fairseq.tasks import register_task

from ..arguments import check_size
from ..data.features import FolderFacts
from ..data.localization import LocalizationDataset
from ..data.manifest import find_manifest
from ..prepare.frame_encoder import read_encoding
from .features import FeatureTask, FeatureTaskConfig

logger = logging.getLogger(__name__)


@dataclass
class FeatureLocalizationConfig(FeatureTaskConfig):
    frame_rate: float = field(
        default=6.0, metadata={"help": "steps in a second: the --frame-rate that skiprnn-prepare video was given"}
    )
    eval_points: int = field(
        default=100,
        metadata={
            "help": "equally spaced points of each held-out sequence at which the mean average precision is computed "
            "(100 in the paper; 25 in Charades' official program)"
        },
    )


@register_task("feature_localization", dataclass=FeatureLocalizationConfig)
class FeatureLocalizationTask(FeatureTask):
    """Predicts any number of labels at every step.

    The manifest's column ``annotations`` says what happens in a sequence and when, in seconds; its column ``duration``
    says how long the sequence is.
    """

    predicts = "labels"
    per_step = True
    columns = ("annotations", "duration")

    def __init__(self, cfg: FeatureLocalizationConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        check_size("--eval-points", cfg.eval_points)
        if not 0 < cfg.frame_rate < math.inf:
            raise ValueError(f"--frame-rate: expected steps in a second, more than 0, got {cfg.frame_rate}")
        self.frame_rate = cfg.frame_rate

    def use(self, facts: FolderFacts) -> None:
        """Raises ValueError if the sequences were made from videos at another rate."""
        super().use(facts)
        try:
            made = read_encoding(self.folder, facts.record or {})
        except ValueError:  # they were not made from videos
            return
        if made.frame_rate != self.cfg.frame_rate:
            raise ValueError(
                f"--frame-rate: expected {made.frame_rate:.10g}, at which skiprnn-prepare video made {self.folder}, "
                f"got {self.cfg.frame_rate:.10g}"
            )

    def make_dataset(self, positions: Sequence[int], key: Tuple[int, ...], fixed: bool) -> LocalizationDataset:
        """Warns if a held-out split has no annotation at any of its points.

        Raises ValueError if ``--frame-rate`` can't be that of the sequences.
        """
        items = [self.items[position] for position in positions]
        rate = sum(item.steps for item in items) / sum(item.duration for item in items)
        if not 0.5 < rate / self.cfg.frame_rate < 2:
            manifest = find_manifest(self.folder).name
            raise ValueError(
                f"--frame-rate: expected about {rate:.3g}, by the steps and durations in {manifest}, "
                f"got {self.cfg.frame_rate:g}"
            )
        dataset = LocalizationDataset(
            self.store,
            self.frames,
            positions,
            key,
            fixed,
            classes=self.class_names,
            frame_rate=self.cfg.frame_rate,
            eval_points=self.cfg.eval_points,
        )
        if fixed and not dataset.has_positives():
            logger.warning(
                f"{find_manifest(self.folder)}: no annotation of split {items[0].split!r} covers any of the "
                "--eval-points: its mAP is nan, which can't tell which checkpoint is best"
            )
        return dataset
