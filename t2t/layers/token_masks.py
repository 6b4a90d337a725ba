"""Which words of a target are masked in training: Ghazvininejad et al. 2019 (arXiv:1904.09324), section 2.2.

Legend: B batch, T target length.
"""

import keras
from keras import ops

from t2t.layers.dropout import GivenSeed, SeededLayer

_LAST = 2**31 - 1
"""Larger than every random number."""


class TokenMasks(SeededLayer):
    """Chooses n of the N words of each row uniformly, n itself being uniform from 1 to N."""

    def call(self, is_word_BT, seed=None):
        """Returns which words are masked, (B, T) bool, under `seed` (2,) int; all of them where seed is None.

        `is_word_BT` (B, T) bool tells words from padding and end of sequence.
        """
        if seed is None:
            return is_word_BT
        rows, width = ops.shape(is_word_BT)
        # Integers, which XLA draws like TensorFlow.
        drawn = keras.random.randint(
            (rows, width + 1), -(2**31), _LAST, dtype="int32", seed=GivenSeed(self.own_seed(seed))
        )
        words_B = ops.sum(ops.cast(is_word_BT, "int32"), axis=1)
        share_B = ops.cast(drawn[:, 0], "float32") * 2.0**-32 + 0.5
        count_B = ops.minimum(1 + ops.cast(share_B * ops.cast(words_B, "float32"), "int32"), words_B)
        order_BT = ops.argsort(ops.where(is_word_BT, drawn[:, 1:], _LAST), axis=1)
        return ops.cast(ops.argsort(order_BT, axis=1), "int32") < count_B[:, None]
