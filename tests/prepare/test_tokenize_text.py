"""Tokenizers: words by the fixed rule, pieces by a model, and the tokenizer of a prepared folder."""

import json
import sys

import numpy as np
import pytest
from fairseq.data import Dictionary

from skiprnn_plugin.prepare.tokenize_text import (
    encode_text,
    load_tokenizer,
    sentencepiece_tokenizer,
    tokenize_words,
    tokenize_words_without_marks,
    train_sentencepiece,
)

SENTENCES = ["a good film, a good plot.", "a bad film!<br />a bad plot!"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("A GOOD film.", ["a", "good", "film", "."]),
        ("What?! No...", ["what", "?", "!", "no", ".", ".", "."]),
        ("I don't like O'Hara's 'film'", ["i", "don't", "like", "o'hara's", "film"]),
        ("don\u2019t it\u00b4s rock'n'roll", ["don't", "it's", "rock'n'roll"]),
        ("good.<br /><br />Bad<BR>end", ["good", ".", "bad", "end"]),
        ('sci-fi, (10/10) snake_case; "x"', ["sci", "fi", "10", "10", "snake", "case", "x"]),
        ("Cliche\u0301 \u00dcber", ["clich\u00e9", "\u00fcber"]),
        (" ,\n", []),
    ],
)
def test_words(text, words):
    assert tokenize_words(text) == words
    assert tokenize_words_without_marks(text) == words


@pytest.mark.parametrize(
    "text, words",
    [
        ("यह फिल्म बहुत अच्छी है।", ["यह", "फिल्म", "बहुत", "अच्छी", "है"]),
        ("\u0958\u0932\u092e!", ["\u0915\u093c\u0932\u092e", "!"]),  # a letter that NFC takes apart
        ("ภาพยนตร์ ที่ ดี", ["ภาพยนตร์", "ที่", "ดี"]),
        ("كِتَابٌ جَمِيلٌ؟", ["كِتَابٌ", "جَمِيلٌ"]),
        ("סֵפֶר טוֹב", ["סֵפֶר", "טוֹב"]),
        ("தமிழ் படம், 2.", ["தமிழ்", "படம்", "2", "."]),
        ("می\u200cخواهم ක්\u200dරම", ["می\u200cخواهم", "ක්\u200dරම"]),
        ("m\u0300ba\u0301 x\u0302's", ["m\u0300b\u00e1", "x\u0302's"]),  # the first and the last do not compose
        ("İstanbul I\u0307zmir", ["i\u0307stanbul", "i\u0307zmir"]),
        ("J\u030c", ["\u01f0"]),  # composes in lower case only
    ],
    ids=["Hindi", "composed", "Thai", "Arabic", "Hebrew", "Tamil", "joiners", "accents", "dotted I", "J with caron"],
)
def test_words_with_combining_marks_stay_whole(text, words):
    assert tokenize_words(text) == words != tokenize_words_without_marks(text)


@pytest.mark.parametrize(
    "text, words",
    [
        ("\u2764\ufe0f अच्छी 1\ufe0f\u20e3 film\U0001f44d\U0001f3fd", ["अच्छी", "1", "film"]),
        ("\u0301 - \u0e34 फिल्म\u200c \u200db", ["फिल्म", "b"]),
    ],
    ids=["emoji", "alone"],
)
def test_marks_that_belong_to_no_letter_are_dropped(text, words):
    assert tokenize_words(text) == words


def test_pieces():
    model = train_sentencepiece(SENTENCES, 24)
    assert train_sentencepiece(iter(SENTENCES), 24) == model
    tokenize = sentencepiece_tokenizer(model)
    for sentence in SENTENCES:
        assert "".join(tokenize(sentence)).replace("\u2581", " ").strip() == sentence.replace("<br />", " ")
    assert tokenize("a \u00e9")[-1] == "<unk>"


@pytest.mark.parametrize("size", [1, 8000, 2**40])
def test_pieces_that_can_not_be_made(size):
    with pytest.raises(
        ValueError, match=f"^vocab_size: expected a size that a model of this text can have, got {size} \\(.+\\)$"
    ):
        train_sentencepiece(SENTENCES, size)


def test_an_interruption_while_pieces_are_made():
    def texts():
        yield from SENTENCES
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_sentencepiece(texts(), 24)


def test_tokenizer_of_a_folder(tmp_path):
    record = tmp_path / "prepare.json"
    record.write_text(json.dumps({"bpe": "none", "combining_marks": True}))
    assert load_tokenizer(tmp_path) is tokenize_words
    record.write_text(json.dumps({"bpe": "none"}))  # as made before words kept their marks
    assert load_tokenizer(tmp_path) is tokenize_words_without_marks
    record.write_text(json.dumps({"bpe": "sentencepiece"}))
    model = train_sentencepiece(SENTENCES, 24)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    assert load_tokenizer(tmp_path)("a bad film") == sentencepiece_tokenizer(model)("a bad film")
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"hello")
    with pytest.raises(ValueError, match="sentencepiece.bpe.model: not a sentencepiece model"):
        load_tokenizer(tmp_path)
    (tmp_path / "sentencepiece.bpe.model").unlink()
    with pytest.raises(ValueError, match="sentencepiece.bpe.model: not a sentencepiece model .*No such file"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"bpe": "gpt2"}'])
def test_a_folder_of_something_else(tmp_path, content):
    (tmp_path / "prepare.json").write_text(content)
    with pytest.raises(ValueError, match="prepare.json: not a record of skiprnn-prepare"):
        load_tokenizer(tmp_path)


def test_without_sentencepiece(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ImportError, match=r"pip install 'skiprnn-plugin\[text\]'"):
        train_sentencepiece(SENTENCES, 24)


def test_token_ids_of_a_text():
    dictionary = Dictionary()
    good, film = dictionary.add_symbol("good"), dictionary.add_symbol("film")
    token_ids = encode_text("Good, odd film", tokenize_words, dictionary)
    np.testing.assert_array_equal(token_ids, [good, dictionary.unk(), film])
    assert token_ids.dtype == np.int64 and encode_text("", tokenize_words, dictionary).shape == (0,)
