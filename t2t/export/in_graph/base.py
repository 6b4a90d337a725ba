"""What every vocabulary in a graph does, and the strings that it meets.

Legend: B texts, N rows of ids, P pieces of all rows end to end.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from t2t.text.encoder import TextEncoder

NUL = "\0"
"""What no text holds once it is `cleaned`, so that it can mark places in one."""

_CODES = range(0x110000)
_REPLACEMENT = 0xFFFD


class GraphVocabulary(tf.Module):
    """A vocabulary of text as operations; gives the ids and texts of the encoder that it is made from."""

    def __init__(self, encoder: TextEncoder):
        raise NotImplementedError

    def encode(self, texts_B: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids (B, None) int32, without end of sequence.

        Args:
            texts_B: (B,) string, see `cleaned`.
        """
        raise NotImplementedError

    def decode(self, ids_NP: tf.RaggedTensor) -> tf.Tensor:
        """Returns texts (N,) string, valid UTF-8.

        Args:
            ids_NP: (N, None) int32, without end of sequence and padding.
        """
        raise NotImplementedError


def characters(of_class: Callable[[str], bool]) -> str:
    """Returns the inside of a class of regular expressions: the ranges of the characters for which a function is True.

    Characters of Python's classes and of a regular expression's differ by the version of Unicode that each knows.
    """
    ranges: list[list[int]] = []
    for code in filter(lambda code: of_class(chr(code)), _CODES):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in ranges)


WHITE = characters(str.isspace)
"""What `str.split` and `str.strip` know as white space."""


def cleaned(texts_B: Any) -> tf.Tensor:
    """Returns texts as `t2t.files.lines.clean_line` leaves them: invalid UTF-8 replaced by U+FFFD, NULs removed."""
    return tf.strings.regex_replace(valid(texts_B), r"\x00+", "")


def valid(texts_B: Any) -> tf.Tensor:
    """Returns texts in which what is no UTF-8 is U+FFFD."""
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
