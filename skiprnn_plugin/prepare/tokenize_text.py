"""Splits text into tokens: words by a fixed rule, or the pieces of a trained sentencepiece model."""

import io
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Callable, Iterable, List, Mapping, Optional

import numpy as np

from .record import RECORD, read_record

TOKENIZERS = ("none", "sentencepiece")  # --bpe
MODEL = "sentencepiece.bpe.model"

Tokenizer = Callable[[str], List[str]]

_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_APOSTROPHES = str.maketrans("\u2019\u00b4", "''")
_JOINERS = "\u200c\u200d"  # without width, between letters of a word in Persian and in languages of India
_WORD_WITHOUT_MARKS = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[.!?]")


def tokenize_words(text: str) -> List[str]:
    """Lower-case words, with ``.``, ``!`` and ``?`` as separate words.

    A word consists of letters and digits of any language (in Unicode's composed form, NFC) with their combining marks,
    such as the vowel signs of Hindi, Thai and Arabic, and perhaps with apostrophes or joiners inside: "don't", "film's"
    and "o'hara" stay whole. A typographic apostrophe, or an acute accent in its place, becomes a plain one. Everything
    else (hyphens, commas, quotes, brackets, ``<br />``) separates words and is dropped: word vectors seldom have these,
    and without them more of a review fits into the steps that a model reads. Text without spaces between words, as in
    Thai and Chinese, needs sentencepiece.
    """
    text = _without_line_breaks(text).translate(_APOSTROPHES).lower()
    text = unicodedata.normalize("NFC", text)  # after lower-casing, which makes marks, as that of U+0130
    pattern = _WORD_WITHOUT_MARKS if text.isascii() else _word_pattern()  # the former is faster
    return pattern.findall(text)


def tokenize_words_without_marks(text: str) -> List[str]:
    """As :func:`tokenize_words`, but combining marks separate words and are dropped.

    This is how folders were made whose record has no ``combining_marks``. Where no word has such marks, which is so in
    nearly all English text, the words are the same.
    """
    text = _without_line_breaks(text).translate(_APOSTROPHES)
    return _WORD_WITHOUT_MARKS.findall(unicodedata.normalize("NFC", text).lower())


@cache
def _word_pattern() -> re.Pattern:
    """Made when it is first needed, as it takes a moment to look up the category of every character."""
    candidates = map(chr, range(0x300, 0x20000))  # all marks but variation selectors, which choose a picture
    marks = "".join(
        character
        for character in candidates
        if unicodedata.category(character) in ("Mn", "Mc")
        and "VARIATION SELECTOR" not in unicodedata.name(character, "")
    )
    letters = rf"[^\W_]+(?:[{marks}]+[^\W_]*)*"
    return re.compile(rf"{letters}(?:['{_JOINERS}]{letters})*|[.!?]")


def train_sentencepiece(texts: Iterable[str], vocab_size: int) -> bytes:
    """Train a sentencepiece model (byte pair encoding) with ``vocab_size`` pieces.

    The same texts in the same order give the same model.

    Raises:
        ImportError: sentencepiece is missing.
        ValueError: the texts have too few different pieces, or more characters than ``vocab_size``.
    """
    sentencepiece, model = import_sentencepiece(), io.BytesIO()
    # A list, because sentencepiece turns every exception in its iterator, even Ctrl-C's, into a RuntimeError
    texts = list(map(_without_line_breaks, texts))
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            max_sentence_length=2**30,  # longer texts are left out
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).rpartition("] ")[2] or error  # without sentencepiece's line number and condition
        raise ValueError(
            f"vocab_size: expected a size that a model of this text can have, got {vocab_size} ({reason})"
        ) from error
    return model.getvalue()


def sentencepiece_tokenizer(model: bytes) -> Tokenizer:
    """The tokenizer of a trained model. It gives pieces, or ``<unk>`` where the model has none.

    ``<br />`` counts as a space, and letters keep their case.
    """
    processor = import_sentencepiece().SentencePieceProcessor(model_proto=model)
    return lambda text: processor.id_to_piece(processor.encode(_without_line_breaks(text)))


def load_tokenizer(folder: Path, files: Optional[Mapping[str, bytes]] = None) -> Tokenizer:
    """The tokenizer with which ``skiprnn-prepare`` made ``folder``.

    ``files`` are the contents of the folder's ``prepare.json`` and of the sentencepiece model, if it has one, by name;
    with them nothing is read in the folder.

    With the folder's dictionary, ``dictionary.encode_line(text, line_tokenizer=load_tokenizer(folder),
    add_if_not_exist=False)`` gives the same token ids for a text as in the prepared data.

    Raises:
        ValueError: ``prepare.json`` or the model is damaged or missing.
        ImportError: the folder needs sentencepiece, which is missing.
    """
    try:
        options = read_record(Path(folder), files)
        bpe = options["bpe"]
        if bpe not in TOKENIZERS:
            raise ValueError(f"bpe is {bpe!r}, expected one of {', '.join(TOKENIZERS)}")
    except (ValueError, KeyError) as error:
        raise ValueError(f"{Path(folder) / RECORD}: not a record of skiprnn-prepare ({error})") from error
    if bpe == "none":
        return tokenize_words if options.get("combining_marks") else tokenize_words_without_marks
    model = Path(folder) / MODEL
    try:
        return sentencepiece_tokenizer(model.read_bytes() if files is None else files[MODEL])
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise ValueError(f"{model}: not a sentencepiece model ({error})") from error


def encode_text(text: str, tokenize: Tokenizer, dictionary) -> np.ndarray:
    """The token ids of a text, int64 [T], by fairseq's ``dictionary``; it has one id for all tokens it lacks."""
    return np.array([dictionary.index(token) for token in tokenize(text)], dtype=np.int64)


def import_sentencepiece():
    """Import the optional library. Raises an ImportError that says how to install it."""
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            f"sentencepiece is missing ({error}); install it with: pip install 'skiprnn-plugin[text]'"
        ) from error
    return sentencepiece


def _without_line_breaks(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)
