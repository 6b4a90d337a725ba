"""Stacks of dilated convolutions: section 3 of Kalchbrenner et al., *Neural Machine Translation in Linear Time* (2016).

Layer normalisation precedes each activation (section 3.6).

Legend: B batch, T length, D width of the residual stream, I inner width, N rows decoded together.
"""

from collections.abc import Sequence

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.dropout import Dropout
from t2t.layers.norm import LayerNorm
from t2t.layers.residual import CompositeLayer


class NormedConvolution(CompositeLayer):
    """Conv(ReLU(LN(x))), with the arguments of `Convolution`."""

    def __init__(self, channels: int, kernel_size: int, *, name: str, dtype=None, **window):
        super().__init__(name=name, dtype=dtype)
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm")
        self.convolution = Convolution(channels, kernel_size, dtype=self.dtype_policy, name="convolution", **window)
        self.channels, self.reach = channels, self.convolution.reach

    def call(self, x, keep_BT=None, cache: StepCache | None = None):
        """Returns (B, T, channels), or with a cache (N, channels); windows read zeros where `keep_BT` is False."""
        return self.convolution(ops.relu(self.norm(x)), keep_BT, cache=cache)


class MultiplicativeUnit(keras.layers.Layer):
    """MU(h) = g_1 * tanh(g_2 * h + g_3 * u) (Kalchbrenner et al. 2016, *Video Pixel Networks*, section 4.1).

    The gates g_i = sigmoid(LN(W_i h)) and the update u = tanh(LN(W_4 h)) read windows of h. h and the output have I
    `channels`; the other arguments are those of `Convolution`.
    """

    def __init__(self, channels: int, kernel_size: int, *, name: str, dtype=None, **window):
        super().__init__(name=name, dtype=dtype)
        policy = self.dtype_policy
        self.convolution = Convolution(4 * channels, kernel_size, dtype=policy, name="convolution", **window)
        self.channels, self.reach = channels, self.convolution.reach
        self.norms = [LayerNorm(dtype=policy, name=f"norm_{i}") for i in range(4)]

    def build(self, input_shape):
        """Builds the parts for (B, T, I)."""
        self.convolution.build(input_shape)
        for norm in self.norms:
            norm.build((*input_shape[:-1], self.channels))

    def call(self, h, keep_BT=None, cache: StepCache | None = None):
        """Returns (B, T, I), or with a cache (N, I); windows read zeros where `keep_BT` (B, T) bool is False."""
        gates = ops.split(self.convolution(h, keep_BT, cache=cache), 4, axis=-1)
        parts = [norm(part) for norm, part in zip(self.norms, gates, strict=True)]
        (g_1, g_2, g_3), u = (ops.sigmoid(part) for part in parts[:3]), ops.tanh(parts[3])
        return g_1 * ops.tanh(g_2 * h + g_3 * u)


class DilatedBlock(keras.layers.Layer):
    """x + Dropout(f(x)), where f is a chain of layers, some with windows, and a final norm if `normed`."""

    def __init__(self, chain: Sequence[NormedConvolution | MultiplicativeUnit], dropout: float, normed: bool, **kwargs):
        super().__init__(**kwargs)
        self.chain = list(chain)
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm") if normed else None
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the layers for (B, T, D)."""
        for layer in self.chain:
            layer.build(input_shape)
            input_shape = (*input_shape[:-1], layer.channels)
        if self.norm is not None:
            self.norm.build(input_shape)
        self.dropout.build()

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D); windows read zeros where `keep_BT` (B, T) bool is False."""
        y = x
        for layer in self.chain:
            y = layer(y, keep_BT if layer.reach else None, cache=cache)
        return x + self.dropout(y if self.norm is None else self.norm(y), seed=seed)


def bottleneck(
    width: int, kernel_size: int, dilation: int, causal: bool, multiplicative: bool, dropout: float, dtype=None,
    **kwargs,
) -> DilatedBlock:  # fmt: skip
    """Returns the paper's block (figure 3): from D to half as many channels, a layer with a window, and back to D.

    That layer is a multiplicative unit (right of the figure) or a convolution (left).
    """
    middle, inner = MultiplicativeUnit if multiplicative else NormedConvolution, width // 2
    chain = (
        NormedConvolution(inner, 1, dtype=dtype, name="narrow"),
        middle(inner, kernel_size, dilation=dilation, causal=causal, dtype=dtype, name="window"),
        NormedConvolution(width, 1, dtype=dtype, name="wide"),
    )
    return DilatedBlock(chain, dropout, normed=False, dtype=dtype, **kwargs)


def cascade(
    width: int, kernel_size: int, dilations: Sequence[int], causal: bool, dropout: float, dtype=None, **kwargs
) -> DilatedBlock:
    """Returns Tensor2Tensor's block: a sequence of convolutions of D channels with rising dilations, and a norm."""
    window = {"causal": causal, "use_bias": False, "dtype": dtype}
    chain = [
        NormedConvolution(width, kernel_size, dilation=dilation, name=f"window_{i}", **window)
        for i, dilation in enumerate(dilations)
    ]
    return DilatedBlock(chain, dropout, normed=True, dtype=dtype, **kwargs)
