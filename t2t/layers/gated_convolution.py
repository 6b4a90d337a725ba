"""Stacks of gated convolutions: sections 3.2, 3.4 and 3.5 of Gehring et al. (2017, arXiv:1705.03122).

Legend: B batch, T length, C channels, N rows decoded together.
"""

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.dropout import Dropout
from t2t.layers.gradients import custom_gradient

ROOT_HALF = 0.5**0.5
"""Scales a sum of two terms to the variance of one (section 3.4)."""


def linear(channels: int, inputs: int, dropout: float = 0.0, **kwargs) -> Convolution:
    """Returns a linear map from n_l `inputs` that keeps the variance (section 3.5) of inputs with dropout."""
    return Convolution(channels, 1, deviation=((1.0 - dropout) / inputs) ** 0.5, weight_norm=True, **kwargs)


def with_scaled_gradient(x, factor: float):
    """Returns `x`; its gradient is multiplied by `factor`."""

    @custom_gradient
    def same(x):
        def gradient(*args, upstream=None):
            return (args[0] if upstream is None else upstream) * factor

        return x, gradient

    return same(x)


class GatedConvolution(keras.layers.Layer):
    """v([A B]) = A * sigmoid(B) of a convolution with twice the channels (section 3.2; Dauphin et al. 2016).

    Weights begin as N(0, sqrt(4 p / n_l)), since the gates halve the values and quarter their variance (section 3.5).
    n_l is `kernel_size` times `inputs`, the channels of the input; 1 - p is `dropout`, the rate on the input.
    """

    def __init__(self, channels: int, inputs: int, kernel_size: int, causal: bool, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.inputs = inputs
        deviation = (4.0 * (1.0 - dropout) / (kernel_size * inputs)) ** 0.5
        self.convolution = Convolution(
            2 * channels, kernel_size, deviation=deviation, weight_norm=True, causal=causal,
            dtype=self.dtype_policy, name="convolution",
        )  # fmt: skip
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the convolution for (B, T, channels of the input)."""
        self.convolution.build((*input_shape[:-1], self.inputs))
        self.dropout.build()

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, C), or with a cache (N, C); positions where `keep_BT` (B, T) is False are read as zeros."""
        a, b = ops.split(self.convolution(self.dropout(x, seed=seed), keep_BT, cache=cache), 2, axis=-1)
        return a * ops.sigmoid(b)


class GatedLayer(keras.layers.Layer):
    """A gated convolution in a residual connection: sqrt(1/2) * (v(W x + b) + x), with x mapped if its width differs.

    The arguments are those of `GatedConvolution`.
    """

    def __init__(self, channels: int, inputs: int, kernel_size: int, causal: bool, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.convolution = GatedConvolution(
            channels, inputs, kernel_size, causal, dropout, dtype=self.dtype_policy, name="gated"
        )
        self.channels, self.inputs, self.widen = channels, inputs, None
        if inputs != channels:
            self.widen = linear(channels, inputs, dtype=self.dtype_policy, name="widen")

    def build(self, input_shape):
        """Builds the parts for (B, T, channels of the input)."""
        for part in (self.convolution, self.widen):
            if part is not None:
                part.build((*input_shape[:-1], self.inputs))

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None, between=lambda y: y):
        """Returns (B, T, C), or with a cache (N, C); `between` maps the gates' output before the sum."""
        y = between(self.convolution(x, keep_BT, cache=cache, seed=seed))
        return (y + (x if self.widen is None else self.widen(x, cache=cache))) * ROOT_HALF
