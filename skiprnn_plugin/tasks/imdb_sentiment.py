"""Label texts: the sentiment of IMDB's reviews, or any other data set of texts with one label each."""

import logging
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Dict, List, Optional

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.tasks import register_task
from torch import nn

from ..arguments import check_choice, check_size
from ..data.fit import Fit
from ..data.sequence import split_key
from ..data.text import TextDataset, find_classes, load_dictionary, load_items, load_labels
from ..data.word2vec import load_word_vectors
from ..prepare.record import RECORD
from ..prepare.tokenize_text import MODEL, Tokenizer, encode_text, load_tokenizer
from .presentation import Inputs
from .sequence import SequenceTask, SequenceTaskConfig

logger = logging.getLogger(__name__)

DICTIONARIES = ("input0/dict.txt", "label/dict.txt")  # of texts and labels
FILES = (*DICTIONARIES, RECORD, MODEL)  # of the folder that a trained model needs; its checkpoints hold their contents
INITIAL_RANGE = 0.25  # as in the paper, for words without a vector in --embedding-path


def load_dictionaries(folder: Path, files: Dict[str, bytes]) -> List[Dictionary]:
    """Those of texts and labels, from the contents of the folder's files."""
    return [load_dictionary(folder / name, files[name]) for name in DICTIONARIES]


def find_fingerprint(source_dictionary: Dictionary, label_dictionary: Dictionary) -> int:
    """A number that tells other words or labels, or another order of them."""
    return zlib.crc32("\n".join([*source_dictionary.symbols, *label_dictionary.symbols]).encode())


@dataclass
class ImdbSentimentConfig(SequenceTaskConfig):
    data_dir: str = field(
        default="",
        metadata={
            "help": "folder made by skiprnn-prepare imdb; or by fairseq-preprocess, with the texts in its folder "
            "input0 and their labels in label"
        },
    )
    sequence_length: int = field(default=200, metadata={"help": "steps of a sequence; longer texts are cropped"})
    crop: str = field(default="tail", metadata={"help": "which end of a longer text is kept: head or tail"})
    pad_side: str = field(default="left", metadata={"help": "side on which shorter texts are padded: left or right"})
    padding: str = field(
        default="data",
        metadata={
            "help": "data: every sequence has --sequence-length steps, and the model reads padding like other words "
            "(as in the paper); masked: shorter texts stay short, without padding"
        },
    )
    embedding_path: Optional[str] = field(
        default=None, metadata={"help": "word2vec file, binary or text, with initial vectors of the words"}
    )
    embedding_dim: int = field(default=300, metadata={"help": "size of a word's vector"})


@register_task("imdb_sentiment", dataclass=ImdbSentimentConfig)
class ImdbSentimentTask(SequenceTask):
    """The classes are the labels of ``label/dict.txt``, in its order. Only training reads ``--embedding-path``."""

    predicts = "classes"
    inputs = Inputs(("texts", "token_ids"))

    def __init__(self, cfg: ImdbSentimentConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        check_size("--sequence-length", cfg.sequence_length)
        check_size("--embedding-dim", cfg.embedding_dim)
        check_choice("--crop", cfg.crop, ("head", "tail"))
        check_choice("--pad-side", cfg.pad_side, ("left", "right"))
        check_choice("--padding", cfg.padding, ("data", "masked"))
        self.folder = Path(cfg.data_dir)
        if not self.from_checkpoint:  # a checkpoint brings the files
            self.use(self.read_files())

    def read_files(self) -> Dict[str, bytes]:
        """The contents of those :data:`FILES` that ``--data-dir`` has, by name.

        Raises ValueError if it has no dictionaries.
        """
        if self.cfg.data_dir == "" or not all((self.folder / name).is_file() for name in DICTIONARIES):
            raise ValueError(
                "--data-dir: expected a folder with input0/dict.txt and label/dict.txt, as skiprnn-prepare imdb makes, "
                f"got {self.cfg.data_dir!r}{self.data_moved}"
            )
        return {name: (self.folder / name).read_bytes() for name in FILES if (self.folder / name).is_file()}

    def use(self, files: Dict[str, bytes]) -> None:
        """Make the dictionaries, and how texts are split, those of this task."""
        self.files = files
        self.source_dictionary, self.label_dictionary = load_dictionaries(self.folder, files)
        self.class_names = [self.label_dictionary[symbol] for symbol in find_classes(self.label_dictionary)]
        if len(self.class_names) < 2:
            raise ValueError(f"{self.folder / DICTIONARIES[1]}: expected at least two labels, got {self.class_names}")
        cfg = self.cfg
        self.input_size = cfg.embedding_dim
        self.output_size = len(self.class_names)
        self.fit = Fit(cfg.sequence_length, cfg.crop, cfg.pad_side, cfg.padding, self.source_dictionary.pad())

    def load_dataset(self, split, combine=False, **kwargs):
        if self.from_checkpoint:
            self._check_dictionaries(find_fingerprint(*load_dictionaries(self.folder, self.read_files())))
        texts = load_items(self.folder / "input0" / split, self.source_dictionary)
        labels = load_labels(self.folder / "label" / split, self.label_dictionary)
        if len(labels) != len(texts.lengths):
            raise ValueError(
                f"--data-dir: expected a label for each text of the split {split!r}, got {len(texts.lengths)} texts "
                f"and {len(labels)} labels"
            )
        key = split_key(split, self.cfg.seed)
        self.datasets[split] = TextDataset(texts, labels, self.fit, key, fixed=not self.trains_on(split))

    def build_embedding(self) -> nn.Embedding:
        """The vectors in ``--embedding-path``, U(-0.25, 0.25) for other words, and 0 for padding. All are trained."""
        words = self.source_dictionary
        embedding = nn.Embedding(len(words), self.input_size)
        nn.init.uniform_(embedding.weight, -INITIAL_RANGE, INITIAL_RANGE)
        nn.init.zeros_(embedding.weight[words.pad()])
        if self.cfg.embedding_path and not self.from_checkpoint:
            vectors = load_word_vectors(self.cfg.embedding_path, words.symbols[words.nspecial :], self.input_size)
            for word, vector in vectors.items():
                embedding.weight.data[words.index(word)] = torch.from_numpy(vector)
            logger.info(f"{len(vectors):,} of {len(words):,} words have a vector in {self.cfg.embedding_path}")
        return embedding

    def state_dict(self):
        """The task's state, which fairseq saves in checkpoints."""
        return {**super().state_dict(), "files": self.files, "dictionaries": self.data_fingerprint}

    def load_state_dict(self, state_dict):
        """Take the files of a trained model, which its checkpoint holds.

        Raises ValueError for a checkpoint without these files if ``--data-dir`` has other dictionaries. A run that is
        resumed has its own check, :attr:`data_fingerprint`.
        """
        if self.from_checkpoint:
            self.use(state_dict.get("files") or self.read_files())
        self._check_dictionaries(state_dict.get("dictionaries", self.data_fingerprint))
        super().load_state_dict(state_dict)

    @property
    def data_fingerprint(self) -> int:
        return find_fingerprint(self.source_dictionary, self.label_dictionary)

    def _check_dictionaries(self, fingerprint: int) -> None:
        """Raise ValueError for another fingerprint than the model's, whose token ids mean other words."""
        if fingerprint != self.data_fingerprint:
            raise ValueError(
                "--data-dir: expected the dict.txt of texts and labels that the model was trained with, "
                f"{self.cfg.data_dir!r} has others"
            )

    def encode(self, raw: str) -> np.ndarray:
        """The token ids that the model reads of a text, int64 [T]; the text is split like those of the data set."""
        if not isinstance(raw, str):
            raise ValueError(f"expected a text (str), got {type(raw).__name__}")
        return self.fit_token_ids(encode_text(raw, self.tokenize, self.source_dictionary))

    def fit_token_ids(self, token_ids: np.ndarray) -> np.ndarray:
        return self.fit(token_ids)

    @cached_property
    def tokenize(self) -> Tokenizer:
        """Splits a text as ``skiprnn-prepare`` did; at spaces if the folder was made by fairseq-preprocess."""
        return load_tokenizer(self.folder, self.files) if RECORD in self.files else str.split
