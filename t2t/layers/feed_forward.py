"""The position-wise feed-forward sub-layer: section 3.3.

Legend: B batch, T length, D width, F inner width.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t.layers.dropout import Dropout


class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (section 3.3, equation 2), applied to each position.

    `gated`: (max(0, x W_1 + b_1) * (x V + c)) W_2 + b_2, elementwise * (Shazeer 2020, arXiv:2002.05202, equations 5 and
    6, whose maps have no biases): with relu ReGLU, with gelu GEGLU, with silu SwiGLU.
    """

    def __init__(
        self, width: int, filter_size: int, activation: str, dropout: float, gated: bool = False, use_bias: bool = True,
        **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.width, self.filter_size = width, filter_size
        maps: dict[str, Any] = {"use_bias": use_bias, "dtype": self.dtype_policy}
        self.inner = keras.layers.Dense(filter_size, activation=activation_function(activation), name="inner", **maps)
        self.linear = keras.layers.Dense(filter_size, name="linear", **maps) if gated else None
        self.outer = keras.layers.Dense(width, name="outer", **maps)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the maps for inputs (B, T, D)."""
        self.inner.build(input_shape)
        if self.linear is not None:
            self.linear.build(input_shape)
        self.outer.build((*input_shape[:-1], self.filter_size))
        self.dropout.build()

    def call(self, x_BTD, seed=None, keep_BT=None):
        """Returns (B, T, D); `keep_BT` is unused, and is there for `Experts`, which can replace this layer."""
        inner_BTF = self.inner(x_BTD)
        if self.linear is not None:
            inner_BTF = inner_BTF * self.linear(x_BTD)
        return self.outer(self.dropout(inner_BTF, seed=seed))


def activation_function(name: str) -> Callable:
    """Returns a Keras activation by name, or `gelu_tanh` or `gelu_sigmoid`.

    The latter are 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) and x sigmoid(1.702 x) (Hendrycks and Gimpel 2016,
    arXiv:1606.08415, section 2).
    """
    function: Callable = _GELUS[name] if name in _GELUS else keras.activations.get(name)
    return function


def _gelu_tanh(x):
    return keras.activations.gelu(x, approximate=True)


def _gelu_sigmoid(x):
    return x * ops.sigmoid(1.702 * x)


_GELUS = {"gelu_tanh": _gelu_tanh, "gelu_sigmoid": _gelu_sigmoid}
