"""What every vocabulary in a graph does, and the strings that it meets.

Legend: B texts, N rows of ids, P pieces of all rows end to end.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.text.encoder import TextEncoder

NUL = "\0"
"""Marks places in a text: no `cleaned` text holds it."""

_REPLACEMENT = 0xFFFD


class GraphVocabulary(tf.Module):
    """An encoder as TensorFlow operations that give the same ids and texts."""

    def __init__(self, encoder: TextEncoder):
        raise NotImplementedError

    def encode(self, texts_B: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids (B, None) int32, without end of sequence, of `cleaned` texts (B,) string."""
        raise NotImplementedError

    def decode(self, ids_NP: tf.RaggedTensor) -> tf.Tensor:
        """Returns texts (N,) string, valid UTF-8, of ids (N, None) int32 without end of sequence and padding."""
        raise NotImplementedError


def characters(of_class: Callable[[str], bool]) -> str:
    """Returns the ranges of a regular expression's class for the characters for which a function is True.

    Its own classes differ from Python's by the version of Unicode.
    """
    codes = np.array([code for code in range(0x110000) if of_class(chr(code))])
    ranges = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    return "".join(f"\\x{{{codes[0]:X}}}-\\x{{{codes[-1]:X}}}" for codes in ranges)


WHITE = characters(str.isspace)
"""White space of `str.split` and `str.strip`."""


def cleaned(texts_B: Any) -> tf.Tensor:
    """Returns texts as `t2t.files.lines.clean_line` leaves them: invalid UTF-8 replaced by U+FFFD, NULs removed."""
    return tf.strings.regex_replace(valid(texts_B), r"\x00+", "")


def valid(texts_B: Any) -> tf.Tensor:
    """Returns texts with invalid UTF-8 replaced by U+FFFD."""
    return tf.strings.unicode_transcode(texts_B, "UTF-8", "UTF-8", errors="replace", replacement_char=_REPLACEMENT)


def is_blank(texts_B: Any) -> tf.Tensor:
    """Returns which texts hold nothing but white space, (B,) bool."""
    return tf.strings.regex_full_match(texts_B, f"[{WHITE}]*")


def joined(pieces_NP: tf.RaggedTensor, separator: str = "") -> tf.Tensor:
    """Returns the strings of each row as one, (N,)."""
    rows, count = pieces_NP.value_rowids(), pieces_NP.nrows()
    return tf.strings.unsorted_segment_join(pieces_NP.flat_values, rows, count, separator)


def table(keys: list[str], values: list, default: Any, dtype: tf.DType) -> tf.lookup.StaticHashTable:
    """Returns a table from strings; keys are unique."""
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values, tf.string, dtype)
    return tf.lookup.StaticHashTable(initializer, default)
