"""A trained model for sentence prediction in your own program, with the methods of fairseq's RoBERTa."""

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

import torch
from fairseq import utils
from fairseq.data import encoders
from fairseq.data.data_utils import post_process
from fairseq.registry import REGISTRIES
from torch import Tensor, nn

from .arguments import check_choice
from .checkpoints import find_checkpoint, load_model
from .prepare.record import RECORD
from .prepare.tokenize_text import MODEL, load_tokenizer
from .reading import first_sentence

__all__ = ["SkipRNNTextHub", "text_from_pretrained"]

SENTENCEPIECE = "sentencepiece"
BPE = REGISTRIES["bpe"]


class SkipRNNTextHub(nn.Module):
    """A trained model that takes texts. It is in evaluation mode until ``train()`` is called.

    Attributes:
        model: the fairseq model.
        cfg: the stored configuration.
        task: the fairseq task, with its dictionaries but without its data.
        bpe: fairseq's object that splits a text into pieces, or None.
    """

    def __init__(self, model, cfg, task, bpe=None):
        super().__init__()
        self.model = model
        self.cfg = cfg
        self.task = task
        self.bpe = bpe
        self.folder = Path(task.cfg.data)
        self.tokenizer = None if bpe or not (self.folder / RECORD).exists() else load_tokenizer(self.folder)
        self.eval()

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def class_names(self) -> List[str]:
        """The names of the classes that a head predicts, in the order of its numbers; empty for regression."""
        labels = self.task.label_dictionary
        return [] if self.task.cfg.regression_target else labels.symbols[labels.nspecial :][: self.task.cfg.num_classes]

    def encode(self, text: str, *more: str) -> Tensor:
        """The token ids of a text, or of a pair of texts, as in the data that the model was trained with, int64 [T].

        They include the ends of sentences, and what ``--init-token`` and ``--separator-token`` added in training. With
        ``--shorten-method truncate`` they are the first ``--max-positions`` of these.
        """
        options, dictionary = self.task.cfg, self.task.source_dictionary
        tokens = [] if options.init_token is None else [options.init_token]
        for number, part in enumerate((text, *more)):
            if not isinstance(part, str):
                raise ValueError(f"text: expected a text (str), got {type(part).__name__}")
            if number > 0 and options.separator_token is not None:
                tokens.append(options.separator_token)
            tokens += [*map(dictionary.index, self._split(part)), dictionary.eos()]
        if str(options.shorten_method) == "truncate":
            tokens = tokens[: options.max_positions]
        return torch.tensor(tokens)

    def _split(self, text: str) -> List[str]:
        if self.bpe is not None:
            return self.bpe.encode(text).split()
        return (self.tokenizer or str.split)(text)

    def decode(self, tokens: Tensor) -> Union[str, List[str]]:
        """The text of token ids, int64 [T], or a list of the texts of a pair. Unknown words are ``<unk>``."""
        options, dictionary = self.task.cfg, self.task.source_dictionary
        if tokens.dim() != 1:
            raise ValueError(f"tokens: expected the token ids of one text [T], got shape {tuple(tokens.shape)}")
        texts: List[List[int]] = [[]]
        for token in tokens.tolist():
            if token == dictionary.eos():
                texts.append([])
            elif texts[-1] or token not in (dictionary.pad(), options.init_token, options.separator_token):
                texts[-1].append(token)
        joined = [self._join(" ".join(dictionary[token] for token in text)) for text in texts if text]
        return joined[0] if len(joined) == 1 else joined or ""

    def _join(self, pieces: str) -> str:
        if self.bpe is not None:
            return self.bpe.decode(pieces)
        return post_process(pieces, SENTENCEPIECE if (self.folder / MODEL).exists() else None)

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """What a head predicts: logarithms of the classes' probabilities, float32 [B, num_classes].

        Args:
            head: the head's name, ``sentence_classification_head`` unless ``--classification-head-name`` was given.
            tokens: token ids of a text, int64 [T], or of several, [B, T], padded as by fairseq's ``collate_tokens``.
            return_logits: whether to return what the head computes, as for regression.
        """
        check_choice("head", head, list(self.model.classification_heads))
        output = self.model(self._batch(tokens), classification_head_name=head)
        return output[0] if return_logits else self.model.get_normalized_probs(output, log_probs=True)

    def used_tokens(self, tokens: Tensor) -> Tensor:
        """Which tokens the model read, and did not skip: bool [B, T], or [B, 2, T] for two directions, forward and
        backward, both in the order of the text. The argument is that of :meth:`predict`."""
        updates = self.model(self._batch(tokens))[1]["updates"] > 0
        return updates.squeeze(1)

    def extract_features(self, tokens: Tensor) -> Tensor:
        """The outputs at all steps, [B, T, units], twice as many units with two directions. The argument is that of
        :meth:`predict`."""
        return self.model(self._batch(tokens))[0]

    def register_classification_head(self, name: str, num_classes: int) -> None:
        """Add a head that is not trained yet."""
        self.model.register_classification_head(name, num_classes)

    def _batch(self, tokens: Tensor) -> Tensor:
        known = len(self.task.source_dictionary)
        tokens = torch.as_tensor(tokens)
        if tokens.dim() not in (1, 2) or tokens.numel() == 0 or tokens.is_floating_point() or tokens.is_complex():
            raise ValueError(f"tokens: expected token ids [T] or [B, T], got {tokens.dtype} {tuple(tokens.shape)}")
        if tokens.min() < 0 or tokens.max() >= known:
            wrong = tokens[(tokens < 0) | (tokens >= known)][0]
            raise ValueError(f"tokens: expected token ids from 0 to {known - 1}, got {wrong}")
        return (tokens.unsqueeze(0) if tokens.dim() == 1 else tokens).to(self.device, torch.int64)


def text_from_pretrained(
    path: Union[str, Path],
    checkpoint_file: Optional[str] = None,
    data_name_or_path: Union[str, Path, None] = None,
    bpe: Optional[str] = None,
    user_dir: Optional[str] = None,
    **options: Any,
) -> SkipRNNTextHub:
    """Load a model that fairseq's task ``sentence_prediction`` has trained, with the heads that its checkpoint has.

    Texts are split as ``bpe`` says; else as ``--bpe`` said in training; else as ``skiprnn-prepare`` made the data; else
    at spaces.

    Args:
        path: a checkpoint, or a folder that holds it.
        checkpoint_file: the checkpoint's name in that folder; None for ``checkpoint_best.pt``, or, if that does not
            exist, ``checkpoint_last.pt``.
        data_name_or_path: the folder with ``input0/dict.txt`` and ``label/dict.txt``; None or "." for the
            checkpoint's folder if it has them, and otherwise the folder that the model was trained with.
        bpe: what fairseq's ``--bpe`` takes, as ``sentencepiece``, whose model is ``sentencepiece.bpe.model``
            beside the checkpoint or the data unless ``sentencepiece_model`` is given.
        user_dir: the folder of your own fairseq plugin, if the model was trained with one.
        options: options of ``bpe``, as ``sentencepiece_model``; others replace the checkpoint's, as
            ``encoder_embed_path=None`` where the file of pretrained embeddings no longer exists.

    Raises:
        FileNotFoundError: the checkpoint does not exist.
        ValueError: it can't be loaded, or is of another task; or there is no such ``bpe``, or its model is missing.
    """
    if user_dir is not None:
        utils.import_user_module(argparse.Namespace(user_dir=str(user_dir)))
    file = find_checkpoint(path, checkpoint_file)
    if data_name_or_path not in (None, "."):
        options["data"] = str(data_name_or_path)
    elif (file.parent / "input0/dict.txt").is_file():
        options["data"] = str(file.parent)
    known = BPE["dataclass_registry"].get(bpe)
    bpe_options = {name: options.pop(name) for name in list(options) if known and name in known.__dataclass_fields__}
    loaded = load_model(file, options)
    if not hasattr(loaded.model, "classification_heads"):
        raise ValueError(f"{file}: expected a model with classification heads, got a {type(loaded.model).__name__}")
    if bpe is None:
        encoder = encoders.build_bpe(loaded.cfg.bpe)
    else:
        encoder = _build_bpe(bpe, bpe_options, [file.parent, Path(loaded.task.cfg.data)])
    return SkipRNNTextHub(loaded.model, loaded.cfg, loaded.task, encoder)


def _build_bpe(name: str, options: Dict[str, Any], folders: List[Path]):
    check_choice("bpe", name, list(BPE["registry"]))
    if name == SENTENCEPIECE and "sentencepiece_model" not in options:
        found = [folder / MODEL for folder in folders if (folder / MODEL).is_file()]
        if not found:
            raise ValueError(f"sentencepiece_model: expected a file, as {folders[-1]} has no {MODEL}, got none")
        options = {**options, "sentencepiece_model": str(found[0])}
    try:
        return encoders.build_bpe(argparse.Namespace(bpe=name, **options))
    except Exception as error:  # an encoder fails in its own way if its files are missing or broken
        raise ValueError(f"bpe: {name} with {options} can't be used ({first_sentence(error)})") from error
