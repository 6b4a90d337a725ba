"""Convolutions in two parts, windows and channels, and SliceNet's modules of them.

Kaiser et al. (2017, arXiv:1706.03059), sections 2, 3.1 and 3.2.

Legend: B batch, S source length, T target length, C input channels, F output channels, D width, N rows decoded
together, Q rows of each sentence.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution, DepthwiseConvolution
from t2t.layers.dropout import Dropout
from t2t.layers.masks import float32_product, probabilities
from t2t.layers.norm import LayerNorm
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Tensor


class Separability(NamedTuple):
    """How a convolution is factored."""

    kind: str = "separable"
    """`separable`: each channel's window, then a map of the channels in groups (one group: depthwise separable, section
    2.1; several: super-separable, section 2.2). `grouped`: windows over the channels of each group, then a map of all
    channels (sub-separable, section 2.1). `full`: one convolution."""
    groups: int = 1
    """Groups of channels; unused by `full`."""


class SeparableConvolution(keras.layers.Layer):
    """PointwiseConv(W_p, DepthwiseConv(W_d, x)), or another `Separability`.

    With windows of k positions, c channels in and out and g groups, it has k c + c^2 / g weights if `separable`,
    k c^2 / g + c^2 if `grouped` and k c^2 if `full` (Table 1); there are no biases. Windows are those of
    `WindowedLayer`.
    """

    def __init__(self, channels: int, kernel_size: int, separability: Separability, *, name: str, dtype=None, **window):
        super().__init__(name=name, dtype=dtype)
        self.channels, self.kernel_size, self.separability, self._window = channels, kernel_size, separability, window

    def build(self, input_shape):
        """Creates and builds the parts for (B, T, C)."""
        kind, groups = self.separability
        given = {**self._window, "dtype": self.dtype_policy, "name": "windows"}
        if kind == "separable":
            self.windows = DepthwiseConvolution(self.kernel_size, **given)
        elif kind == "grouped":
            self.windows = Convolution(input_shape[-1], self.kernel_size, groups=groups, use_bias=False, **given)
        else:
            self.windows = Convolution(self.channels, self.kernel_size, use_bias=False, **given)
        self.windows.build(input_shape)
        self.map = None
        if kind != "full":
            mixed = groups if kind == "separable" else 1
            self.map = Convolution(
                self.channels, 1, groups=mixed, use_bias=False, dtype=self.dtype_policy, name="channels"
            )
            self.map.build(input_shape)

    def call(self, x, keep_BT=None, cache: StepCache | None = None):
        """Returns (B, T, F), or with a cache (N, F); positions where `keep_BT` (B, T) is False are read as zeros."""
        y = self.windows(x, keep_BT, cache=cache)
        return y if self.map is None else self.map(y, cache=cache)


class ConvStep(keras.layers.Layer):
    """LN(SepConv(ReLU(x))) (section 3.1), with the arguments of `SeparableConvolution`."""

    def __init__(self, *made_of, name: str, dtype=None, **window):
        super().__init__(name=name, dtype=dtype)
        self.convolution = SeparableConvolution(*made_of, dtype=self.dtype_policy, name="convolution", **window)
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm")

    def build(self, input_shape):
        """Builds the parts for (B, T, C)."""
        self.convolution.build(input_shape)
        self.norm.build((*input_shape[:-1], self.convolution.channels))

    def call(self, x, keep_BT=None, cache: StepCache | None = None):
        """Returns (B, T, F), or with a cache (N, F); positions where `keep_BT` (B, T) is False are read as zeros."""
        return self.norm(self.convolution(ops.relu(x), keep_BT, cache=cache))


class SliceSource(NamedTuple):
    """An encoded source."""

    hidden: Tensor
    """(B, S, D)."""
    keep: Tensor
    """(B, S) bool, True at data."""


Step = tuple[int, int, Separability]
"""Positions of a window, dilation and separability."""


class ConvModule(CompositeLayer):
    """Four steps with two connections around them, then dropout (section 3.1).

        h_1 = step_1(x),  h_2 = x + step_2(h_1),  h_3 = step_3(h_2),  h_4 = x + step_4(h_3)

    If `causal`, windows end at their own position.
    """

    def __init__(self, width: int, steps: Sequence[Step], causal: bool, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.steps = [
            ConvStep(width, size, kind, dilation=dilation, causal=causal, dtype=self.dtype_policy, name=f"step_{i}")
            for i, (size, dilation, kind) in enumerate(steps, start=1)
        ]
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D); positions where `keep_BT` (B, T) is False are read as zeros."""
        step_1, step_2, step_3, step_4 = self.steps
        given = {"keep_BT": keep_BT, "cache": cache}
        h_2 = x + step_2(step_1(x, **given), **given)
        return self.dropout(x + step_4(step_3(h_2, **given), **given), seed=seed)


class MixedTarget(CompositeLayer):
    """a(target): two steps after timing signals (section 3.2), with windows of 5 positions and dilations 1 and 4."""

    def __init__(self, width: int, separabilities: Sequence[Separability], **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.timing = SinusoidalPositions(width, dtype=policy, name="timing")
        self.steps = [
            ConvStep(width, 5, separability, dilation=dilation, causal=True, dtype=policy, name=f"step_{i}")
            for i, (separability, dilation) in enumerate(zip(separabilities, (1, 4), strict=True), start=1)
        ]

    def mixed(self, x, cache: StepCache | None = None):
        """Returns (B, T, D), or with a cache (N, D)."""
        x = self.timing(x, cache=cache)
        for step in self.steps:
            x = step(x, cache=cache)
        return x


class SourceAttention(MixedTarget):
    """Attend(source, a(target)): inner products with the source (section 3.2).

    Attend(s, t) = softmax(t s^T / sqrt(D)) s has no weights.
    """

    def call(self, x, source: SliceSource, cache: StepCache | None = None):
        """Returns the output of attention to the source, (B, T, D), or with a cache (N, D)."""
        query = self.mixed(x, cache=cache)
        if cache is None:
            return attend(query, source, self.path)
        query_BQD = cache.by_sentence(query, ops.shape(source.hidden)[0])
        return ops.reshape(attend(query_BQD, source, self.path), ops.shape(x))


def attend(query_BTD, source: SliceSource, layer: str):
    """Returns softmax(t s^T / sqrt(D)) s, (B, T, D), over the kept positions of the source; `layer` is its path."""
    scaled_BTD = query_BTD * query_BTD.shape[-1] ** -0.5
    weights_BTS = probabilities(float32_product(scaled_BTD, source.hidden), source.keep[:, None, :], layer)
    return ops.matmul(ops.cast(weights_BTS, source.hidden.dtype), source.hidden)
