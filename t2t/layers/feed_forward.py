"""The position-wise feed-forward sub-layer: section 3.3.

Legend: B batch, T length, D width, F inner width.
"""

import keras

from t2t.layers.dropout import Dropout


class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (section 3.3, equation 2), applied to each position.

    `gated`: (max(0, x W_1 + b_1) * (x V + c)) W_2 + b_2, elementwise * (Shazeer 2020, arXiv:2002.05202, equations 5 and
    6, whose maps have no biases): with relu ReGLU, with gelu GEGLU, with silu SwiGLU.
    """

    def __init__(self, width: int, filter_size: int, activation: str, dropout: float, gated: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.width, self.filter_size = width, filter_size
        self.inner = keras.layers.Dense(filter_size, activation=activation, dtype=self.dtype_policy, name="inner")
        self.linear = keras.layers.Dense(filter_size, dtype=self.dtype_policy, name="linear") if gated else None
        self.outer = keras.layers.Dense(width, dtype=self.dtype_policy, name="outer")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the maps for inputs (B, T, D)."""
        self.inner.build(input_shape)
        if self.linear is not None:
            self.linear.build(input_shape)
        self.outer.build((*input_shape[:-1], self.filter_size))
        self.dropout.build()

    def call(self, x_BTD, seed=None, keep_BT=None):
        """Returns (B, T, D); `keep_BT` matters only to layers that take its place."""
        inner_BTF = self.inner(x_BTD)
        if self.linear is not None:
            inner_BTF = inner_BTF * self.linear(x_BTD)
        return self.outer(self.dropout(inner_BTF, seed=seed))
