"""Convolutions in two parts, windows and channels: sections 2 and 3.1 of Kaiser et al. (2017, arXiv:1706.03059).

Legend: B batch, T length, C input channels, F output channels, N rows decoded together.
"""

from typing import NamedTuple

import keras
from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution, DepthwiseConvolution
from t2t.layers.norm import LayerNorm


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
