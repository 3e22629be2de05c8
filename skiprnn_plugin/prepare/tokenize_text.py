"""From text to tokens: words by a fixed rule, or the pieces of a trained sentencepiece model."""

import io
import json
import re
import unicodedata
from pathlib import Path
from typing import Callable, Iterable, List

TOKENIZERS = ("none", "sentencepiece")  # --bpe
MODEL = "sentencepiece.bpe.model"
RECORD = "prepare.json"

Tokenizer = Callable[[str], List[str]]

_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_APOSTROPHES = str.maketrans("\u2019\u00b4", "''")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[.!?]")


def tokenize_words(text: str) -> List[str]:
    """Lower-case words, and each ``.``, ``!`` and ``?`` as a word of its own.

    A word is a run of letters and digits of any language (in Unicode's composed form, NFC) with apostrophes inside:
    "don't", "film's" and "o'hara" stay whole. A typographic apostrophe, or an acute accent in its place, becomes a
    plain one. All else, ``<br />`` included, separates words and is dropped: hyphens, commas, quotes, brackets. Word
    vectors seldom have these, and a model that reads a review's first steps reads further without them.
    """
    text = _without_line_breaks(text).translate(_APOSTROPHES)
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def train_sentencepiece(texts: Iterable[str], vocab_size: int) -> bytes:
    """A sentencepiece model (byte pair encoding) of so many pieces, the same for the same texts in the same order.

    Raises:
        ImportError: there is no sentencepiece.
        ValueError: the texts have too few different pieces, or more characters than pieces.
    """
    sentencepiece, model = import_sentencepiece(), io.BytesIO()
    # In a list, as sentencepiece makes an exception in its iterator, Ctrl-C's too, a RuntimeError
    texts = list(map(_without_line_breaks, texts))
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            max_sentence_length=2**30,  # longer texts would be left out
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).rpartition("] ")[2] or error  # behind sentencepiece's own line and condition
        raise ValueError(
            f"vocab_size: expected one that a model of this text can have, got {vocab_size} ({reason})"
        ) from error
    return model.getvalue()


def sentencepiece_tokenizer(model: bytes) -> Tokenizer:
    """The tokenizer of a trained model: pieces, ``<unk>`` where it has none. ``<br />`` is a space; case is kept."""
    processor = import_sentencepiece().SentencePieceProcessor(model_proto=model)
    return lambda text: processor.id_to_piece(processor.encode(_without_line_breaks(text)))


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer that ``skiprnn-prepare`` made ``folder`` with.

    With the folder's dictionary, ``dictionary.encode_line(text, line_tokenizer=load_tokenizer(folder),
    add_if_not_exist=False)`` gives a text's ids as the prepared ones are.

    Raises:
        ValueError: ``prepare.json`` or the model is damaged or not there.
        ImportError: the folder needs sentencepiece, and there is none.
    """
    record = Path(folder) / RECORD
    try:
        bpe = json.loads(record.read_text(encoding="utf-8"))["bpe"]
        if bpe not in TOKENIZERS:
            raise ValueError(f"bpe is {bpe!r}, expected one of {', '.join(TOKENIZERS)}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{record}: not a record of skiprnn-prepare's ({error})") from error
    if bpe == "none":
        return tokenize_words
    model = Path(folder) / MODEL
    try:
        return sentencepiece_tokenizer(model.read_bytes())
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{model}: not a sentencepiece model ({error})") from error


def import_sentencepiece():
    """The optional library, or an ImportError that says how to get it."""
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            f"sentencepiece is missing ({error}); install it with: pip install 'skiprnn-plugin[text]'"
        ) from error
    return sentencepiece


def _without_line_breaks(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)
