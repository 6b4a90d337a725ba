"""The residual connection and layer normalisation around a sub-layer: section 3.1.

Legend: B batch, T length, D width.
"""

from collections.abc import Callable

import keras

from t2t.layers.dropout import Dropout
from t2t.layers.norm import LayerNorm


class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))), the paper's (post), or x + Dropout(Sublayer(LayerNorm(x))) (pre).

    Args:
        norm_position: `post` or `pre`.
        epsilon: added to the variance.
        dropout: rate on the sub-layer's output (section 5.4).
    """

    def __init__(self, norm_position: str, epsilon: float, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.norm_position = norm_position
        self.norm = LayerNorm(epsilon, dtype=self.dtype_policy, name="norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the norm for inputs (B, T, D)."""
        self.norm.build(input_shape)
        self.dropout.build()

    def before(self, x_BTD):
        """Returns what the sub-layer is given."""
        return self.norm(x_BTD) if self.norm_position == "pre" else x_BTD

    def after(self, x_BTD, y_BTD, seed=None):
        """Returns the sub-layer's output `y_BTD` joined to its input `x_BTD`."""
        joined = x_BTD + self.dropout(y_BTD, seed=seed)
        return self.norm(joined) if self.norm_position == "post" else joined

    def call(self, x_BTD, sublayer: Callable, seed=None):
        """Returns (B, T, D); `sublayer` maps (B, T, D) to (B, T, D)."""
        return self.after(x_BTD, sublayer(self.before(x_BTD)), seed=seed)
