"""The position-wise feed-forward sub-layer: section 3.3.

Legend: B batch, T length, D width, F inner width.
"""

import keras

from t2t.layers.dropout import Dropout


class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (section 3.3, equation 2), applied to each position."""

    def __init__(self, width: int, filter_size: int, activation: str, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.width, self.filter_size = width, filter_size
        self.inner = keras.layers.Dense(filter_size, activation=activation, dtype=self.dtype_policy, name="inner")
        self.outer = keras.layers.Dense(width, dtype=self.dtype_policy, name="outer")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds both maps for inputs (B, T, D)."""
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.filter_size))
        self.dropout.build()

    def call(self, x_BTD, seed=None, keep_BT=None):
        """Returns (B, T, D); `keep_BT` matters only to layers that take its place."""
        return self.outer(self.dropout(self.inner(x_BTD), seed=seed))
