"""Divides sequences into the splits train, valid and test, by their subjects or, without subjects, at random."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

import numpy as np

SPLITS = ("train", "valid", "test")


@dataclass
class Division:
    """How to divide sequences.

    Attributes:
        held_out_subjects: the subjects of the split test; None draws them.
        valid_subjects: the subjects of the split valid; None draws them.
        held_out_fraction, valid_fraction: the fraction of all subjects to draw for test and for valid; of the sequences
            of each class if they have no subjects.
        seed: the seed of these draws.
        given: the options that the user gave, of which there should be none where a file says the splits itself.
    """

    held_out_subjects: Optional[Sequence[str]]
    valid_subjects: Optional[Sequence[str]]
    held_out_fraction: float
    valid_fraction: float
    seed: int
    given: Sequence[str] = ()

    def __call__(
        self, labels: Sequence[str], subjects: Optional[Sequence[str]], names: Optional[Sequence[str]] = None
    ) -> List[str]:
        """The split of each sequence.

        Args:
            labels: the class of each sequence.
            subjects: the subject of each sequence; None without subjects.
            names: every subject once, in the order that the draws start from; None for the sorted names.

        Raises:
            ValueError: a named subject does not exist, a split gets no sequence, or a class gets none in train.
        """
        if subjects is None:
            self._refuse_subjects()
            splits = divide_classes(labels, {"test": self.held_out_fraction, "valid": self.valid_fraction}, self.seed)
        else:
            by_subject = self._divide_subjects(names or sorted(set(subjects)))
            splits = [by_subject[subject] for subject in subjects]
        for split in SPLITS:
            if split not in splits:
                divided = f"sequences for each split, got none of {len(splits)}"
                if subjects is not None:
                    divided = f"subjects for each split, got none of {len(set(subjects))}"
                raise ValueError(f"expected {divided} for {split}")
        check_classes(labels, splits)
        return splits

    def _refuse_subjects(self) -> None:
        for option, chosen in (("held_out", self.held_out_subjects), ("valid", self.valid_subjects)):
            if chosen:
                raise ValueError(f"{option}_subjects: the sequences have no subjects, got {', '.join(chosen)}")

    def _divide_subjects(self, names: Sequence[str]) -> Dict[str, str]:
        """The split of each subject."""
        splits: Dict[str, str] = {}
        parts = (
            ("test", "held_out_subjects", self.held_out_subjects, self.held_out_fraction),
            ("valid", "valid_subjects", self.valid_subjects, self.valid_fraction),
        )
        for split, option, chosen, _ in parts:
            for subject in chosen or ():
                if subject not in names or subject in splits:
                    raise ValueError(f"{option}: expected some of {', '.join(names)}, each once, got {subject!r}")
                splits[subject] = split
        free = [name for name in np.random.default_rng(self.seed).permutation(names).tolist() if name not in splits]
        for split, _, chosen, fraction in parts:
            count = 0 if chosen else round(fraction * len(names))
            splits.update(dict.fromkeys(free[:count], split))
            del free[:count]
        return {**dict.fromkeys(free, "train"), **splits}


@contextlib.contextmanager
def errors_named(path: Path, options: Division) -> Iterator[None]:
    """A block in which an error gets the name of the file in front, unless it begins with the name of an option."""
    try:
        yield
    except ValueError as error:
        if str(error).partition(":")[0] in vars(options):
            raise
        raise ValueError(f"{path}: {error}") from error


def check_classes(labels: Sequence[str], splits: Sequence[str]) -> None:
    """Raise ValueError if the split train has no sequence of a class, as a model can't learn it then."""
    learned = {label for label, split in zip(labels, splits) if split == "train"}
    for label, split in zip(labels, splits):
        if label not in learned:
            raise ValueError(f"expected sequences of every class in split train, got class {label!r} only in {split}")


def divide_classes(labels: Sequence[Any], fractions: Dict[str, float], seed: int) -> List[str]:
    """The split of each sequence. Every class is divided alike, so that the splits have the same mixture of classes.

    Args:
        labels: the class of each sequence.
        fractions: the fraction of each class for each split; ``train`` gets the rest, at least one. Where a class has
            more sequences than there are splits here, each of them gets one at least.
        seed: the seed of the draws.
    """
    splits = np.full(len(labels), "train", object)
    rng = np.random.default_rng(seed)
    found: Dict[Any, List[int]] = {}
    for place, label in enumerate(labels):
        found.setdefault(label, []).append(place)
    for label in sorted(found):
        places = rng.permutation(found[label])
        size, least = len(places), int(len(places) > len(fractions))
        for number, (split, fraction) in enumerate(fractions.items(), 1):
            others = 1 + least * (len(fractions) - number)  # sequences that train and the splits after this one need
            count = min(max(round(fraction * size), least), len(places) - others)
            splits[places[:count]] = split
            places = places[count:]
    return splits.tolist()
