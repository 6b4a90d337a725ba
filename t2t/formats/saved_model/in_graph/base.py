"""Base class of the in-graph vocabularies, and string operations.

Legend: B texts, N rows of ids, P pieces of all rows end to end.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from t2t.text.encoder import TextEncoder
from t2t.text.white_space import SPACES

NUL = "\0"
"""Marker within texts; `cleaned` texts do not contain it."""

_REPLACEMENT = 0xFFFD


class GraphVocabulary(tf.Module):
    """An encoder as TensorFlow operations with the same ids and texts."""

    def __init__(self, encoder: TextEncoder):
        raise NotImplementedError

    def encode(self, texts_B: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids (B, None) int32, without end of sequence, of `cleaned` texts (B,) string."""
        raise NotImplementedError

    def decode(self, ids_NP: tf.RaggedTensor) -> tf.Tensor:
        """Returns texts (N,) string, valid UTF-8, for ids (N, None) int32 without end of sequence and padding."""
        raise NotImplementedError


def characters(of_class: Callable[[str], bool]) -> str:
    """Returns the ranges of a regular expression character class for all characters that satisfy `of_class`.

    RE2's own classes may follow another version of Unicode than Python.
    """
    codes = np.array([code for code in range(0x110000) if of_class(chr(code))])
    ranges = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    return "".join(f"\\x{{{codes[0]:X}}}-\\x{{{codes[-1]:X}}}" for codes in ranges)


WHITE = characters(str.isspace)
"""White space as in `str.split` and `str.strip`."""


def cleaned(texts_B: Any) -> tf.Tensor:
    """Returns texts as `t2t.files.lines.clean_line` leaves them: invalid UTF-8 replaced by U+FFFD, NULs removed."""
    return tf.strings.regex_replace(valid(texts_B), r"\x00+", "")


def valid(texts_B: Any) -> tf.Tensor:
    """Returns texts with invalid UTF-8 replaced by U+FFFD."""
    return tf.strings.unicode_transcode(texts_B, "UTF-8", "UTF-8", errors="replace", replacement_char=_REPLACEMENT)


def is_blank(texts_B: Any) -> tf.Tensor:
    """Returns whether each text has only white space, (B,) bool."""
    return tf.strings.regex_full_match(texts_B, f"[{WHITE}]*")


def single_spaced(texts_B: Any) -> tf.Tensor:
    """Returns texts as `t2t.text.white_space.single_spaced` does."""
    return tf.strings.strip(tf.strings.regex_replace(texts_B, SPACES, " "))


def joined(pieces_NP: tf.RaggedTensor, separator: str = "") -> tf.Tensor:
    """Joins the strings of each row, (N,)."""
    rows, count = pieces_NP.value_rowids(), pieces_NP.nrows()
    return tf.strings.unsorted_segment_join(pieces_NP.flat_values, rows, count, separator)


def sentencepiece_tokenizer(model: bytes, out_type: tf.DType) -> tf_text.SentencepieceTokenizer:
    """Returns the operations of a SentencePiece model.

    TensorFlow keeps one model for each operation name, also across the SavedModels that a process loads, so the name is
    that of the content.
    """
    return tf_text.SentencepieceTokenizer(model, out_type=out_type, name=f"model_{hashlib.sha256(model).hexdigest()}")


def table(keys: list[str], values: list, default: Any, dtype: tf.DType) -> tf.lookup.StaticHashTable:
    """Returns a table from strings; keys are unique."""
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values, tf.string, dtype)
    return tf.lookup.StaticHashTable(initializer, default)
