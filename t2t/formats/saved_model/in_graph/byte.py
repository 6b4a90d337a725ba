"""Text as its UTF-8 bytes, see `t2t.text.byte`.

Legend: B texts, N rows of ids, P pieces.
"""

import tensorflow as tf

from t2t.formats.saved_model.in_graph.base import GraphVocabulary, joined, valid
from t2t.text.byte import ByteEncoder

_FIRST = 2


class GraphByte(GraphVocabulary):
    """id = byte + 2."""

    def __init__(self, encoder: ByteEncoder):
        self._bytes = [bytes([byte]) for byte in range(encoder.vocab_size - _FIRST)]

    def encode(self, texts_B):
        """One id a byte."""
        bytes_BP = tf.strings.bytes_split(texts_B)
        numbers_P = tf.reshape(tf.io.decode_raw(bytes_BP.flat_values, tf.uint8), [-1])
        return bytes_BP.with_flat_values(tf.cast(numbers_P, tf.int32) + _FIRST)

    def decode(self, ids_NP):
        """Bytes that are not UTF-8 become U+FFFD."""
        return valid(joined(tf.gather(self._bytes, ids_NP - _FIRST)))
