"""What the source says of the word that comes next in the output, where outputs are about its words in their order.

Legend: B sentences, S source length, T target length, D width. In a decoding step: N rows of one position each, and a
tensor named only `x` is (B, T, D) or (N, D).
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.cache import StepCache


class SourceWords(NamedTuple):
    """The encoder's output by words."""

    number: Any
    """(B, S) float32: the number of the word of each position, -1 at padding."""
    vectors: Any
    """(B, S, D): the projected output of the encoder."""


class NextWord(keras.layers.Layer):
    """Adds to each position the mean of the encoder's output over the pieces of its next word, projected.

    Attention would have to find that word; Liu et al. 2018 (*Improving Sequence-to-Sequence Constituency Parsing*,
    AAAI) restrict attention to it, for the same reason. After the last word, nothing is added.

    Args:
        width: D.
    """

    def __init__(self, width: int, **kwargs):
        # Otherwise Keras would round the counts, which are fractions, to 16 bits.
        super().__init__(autocast=False, **kwargs)
        self.project = keras.layers.Dense(width, use_bias=False, dtype=self.dtype_policy, name="project")

    def build(self, input_shape):
        """Builds the projection of vectors (B, S, D)."""
        self.project.build(input_shape)

    def read_source(self, x_BSD, count_BS, keep_BS) -> SourceWords:
        """Returns the words of the encoder's output.

        Args:
            x_BSD: output of the encoder.
            count_BS: float32, of `WordCounts`.
            keep_BS: bool, True at data.
        """
        return SourceWords(ops.where(keep_BS, ops.floor(count_BS), -1.0), self.project(x_BSD))

    def call(self, x, count, words: SourceWords, cache: StepCache | None = None):
        """Returns `x` with the vectors added; `count` is of `WordCounts`, (B, T) float32, or with a cache (N,)."""
        number = ops.floor(count)
        if cache is not None:
            number = cache.by_sentence(number[:, None], ops.shape(words.number)[0])[:, :, 0]
        share_BTS = ops.cast(ops.equal(number[:, :, None], words.number[:, None, :]), "float32")
        share_BTS = share_BTS / ops.maximum(ops.sum(share_BTS, axis=2, keepdims=True), 1.0)
        found_BTD = ops.matmul(ops.cast(share_BTS, words.vectors.dtype), words.vectors)
        return x + ops.reshape(found_BTD, ops.shape(x))
