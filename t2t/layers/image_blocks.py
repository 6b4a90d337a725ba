"""Blocks of networks for images: residual blocks, and Xception's blocks of separable convolutions.

He et al. 2015 (arXiv:1512.03385), section 3, and 2016 (arXiv:1603.05027), figure 4; Chollet 2017, *Xception*, figure 5,
whose batch norms are layer norms over the channels here, as in Tensor2Tensor: no example depends on the others of its
batch, and there is no state besides the weights. Sequences are grids of one column.

Legend: B batch, Y rows, X columns, C channels in, D channels out, M convolutions of a block.
"""

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.norm import BatchNorm, LayerNorm
from t2t.layers.residual import CompositeLayer


class PaddedConvolution(keras.layers.Conv2D):
    """A convolution without bias, padded with equally many zeros on all sides for every stride and image size."""

    def __init__(self, channels: int, kernel: int, stride: int = 1, **kwargs):
        super().__init__(channels, kernel, strides=stride, use_bias=False, kernel_initializer="he_normal", **kwargs)
        self.edge = kernel // 2

    def call(self, x_BYXC):
        """Returns (B, Y / stride, X / stride, D), rounded up."""
        sides = (self.edge, self.edge)
        return super().call(ops.pad(x_BYXC, ((0, 0), sides, sides, (0, 0))) if self.edge else x_BYXC)


class ResidualBlock(keras.layers.Layer):
    """ReLU(shortcut(x) + F(x)), or with `preactivation` shortcut(x) + F(x).

    F is two 3 x 3 convolutions, or a bottleneck of 1 x 1, 3 x 3 and 1 x 1. Each is followed by a batch norm and, but
    for the last, a ReLU; with `preactivation` each follows a batch norm and a ReLU (2016, figure 4e). Where the shape
    changes, the shortcut is a 1 x 1 convolution (2015, section 3.3, option B).

    Args:
        inputs: C.
        channels: of the 3 x 3 convolutions.
        outputs: D; if it differs from `channels`, the block is a bottleneck.
        stride: of the first 3 x 3 convolution and of the shortcut.
        preactivation: whether norms and ReLUs come before convolutions.
    """

    def __init__(self, inputs: int, channels: int, outputs: int, stride: int, preactivation: bool, **kwargs):
        super().__init__(**kwargs)
        self.inputs, self.preactivation, policy = inputs, preactivation, self.dtype_policy
        plain, bottleneck = ((3, channels), (3, outputs)), ((1, channels), (3, channels), (1, outputs))
        kernels = plain if outputs == channels else bottleneck
        first_wide = [kernel for kernel, _ in kernels].index(3)
        self.convolutions = [
            PaddedConvolution(wide, kernel, stride if i == first_wide else 1, dtype=policy, name=f"convolution_{i}")
            for i, (kernel, wide) in enumerate(kernels)
        ]
        self.norms = [BatchNorm(dtype=policy, name=f"norm_{i}") for i in range(len(kernels))]
        self.shortcut = self.shortcut_norm = None
        if stride > 1 or inputs != outputs:
            self.shortcut = PaddedConvolution(outputs, 1, stride, dtype=policy, name="shortcut")
            self.shortcut_norm = None if preactivation else BatchNorm(dtype=policy, name="shortcut_norm")

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        grid, channels = tuple(input_shape[:-1]), input_shape[-1]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            convolution.build((*grid, channels))
            norm.build((*grid, channels if self.preactivation else convolution.filters))
            channels = convolution.filters
        if self.shortcut is not None:
            self.shortcut.build(input_shape)
        if self.shortcut_norm is not None:
            self.shortcut_norm.build((*grid, channels))

    def call(self, x_BYXC, seed=None):
        """Returns (B, Y / stride, X / stride, D), rounded up; see `BatchNorm` for `seed`."""
        return self._preactivated(x_BYXC, seed) if self.preactivation else self._postactivated(x_BYXC, seed)

    def _postactivated(self, x, seed):
        y = x
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = norm(convolution(ops.relu(y) if i else y), seed=seed)
        carried = x if self.shortcut is None else self.shortcut_norm(self.shortcut(x), seed=seed)
        return ops.relu(carried + y)

    def _preactivated(self, x, seed):
        y = carried = x
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = ops.relu(norm(y, seed=seed))
            if i == 0 and self.shortcut is not None:
                carried = self.shortcut(y)
            y = convolution(y)
        return carried + y


class SeparableUnit(keras.layers.Layer):
    """ReLU (if `first_relu`), a separable convolution without bias, a norm; padding is zeroed before the convolution.

    `kernel` is the number of rows and columns of a window.
    """

    def __init__(self, channels: int, kernel: tuple[int, int], first_relu: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.first_relu = first_relu
        self.convolution = keras.layers.SeparableConv2D(
            channels, kernel, padding="same", use_bias=False, dtype=self.dtype_policy, name="convolution"
        )
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm")

    def build(self, input_shape):
        """Builds both for (B, Y, X, C)."""
        self.convolution.build(input_shape)
        self.norm.build((self.convolution.filters,))

    def call(self, x_BYXC, keep_BYX1=None):
        """Returns (B, Y, X, D); `keep_BYX1` bool, False at padding, or None where there is none."""
        x_BYXC = ops.relu(x_BYXC) if self.first_relu else x_BYXC
        if keep_BYX1 is not None:
            x_BYXC = x_BYXC * ops.cast(keep_BYX1, x_BYXC.dtype)
        return self.norm(self.convolution(x_BYXC))


class MiddleBlock(CompositeLayer):
    """LayerNorm(x + Dropout(three separable units of x)): the middle flow, with Tensor2Tensor's norm and dropout.

    In the paper the sum is not `normed`.
    """

    def __init__(self, channels: int, kernel: tuple[int, int], dropout: float, normed: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.units = [SeparableUnit(channels, kernel, dtype=self.dtype_policy, name=f"unit_{i}") for i in range(3)]
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm") if normed else None

    def call(self, x_BYXD, keep_BYX1=None, seed=None):
        """Returns (B, Y, X, D)."""
        y_BYXD = x_BYXD
        for unit in self.units:
            y_BYXD = unit(y_BYXD, keep_BYX1)
        joined_BYXD = x_BYXD + self.dropout(y_BYXD, seed=seed)
        return joined_BYXD if self.norm is None else self.norm(joined_BYXD)


class DownBlock(keras.layers.Layer):
    """Two separable units and max pooling, plus a strided 1 x 1 convolution: halves rows and columns.

    The pooling has windows of 3 and stride 2. `channels` are the output channels of the two units. A kernel with one
    column does not halve the columns.
    """

    def __init__(self, channels: tuple[int, int], kernel: tuple[int, int] = (3, 3), **kwargs):
        super().__init__(**kwargs)
        self.units = [
            SeparableUnit(wide, kernel, dtype=self.dtype_policy, name=f"unit_{i}") for i, wide in enumerate(channels)
        ]
        self.window = tuple(3 if side > 1 else 1 for side in kernel)
        self.strides = tuple(2 if side > 1 else 1 for side in kernel)
        self.shortcut = keras.layers.Conv2D(
            channels[-1], 1, strides=self.strides, use_bias=False, dtype=self.dtype_policy, name="shortcut"
        )
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm")

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        self.units[0].build(input_shape)
        inner = (*input_shape[:-1], self.units[0].convolution.filters)
        self.units[1].build(inner)
        self.shortcut.build(input_shape)
        self.norm.build((self.shortcut.filters,))

    def call(self, x_BYXC, keep_BYX1=None):
        """Returns (B, Y / 2, X / 2, D), rounded up."""
        y = self.units[1](self.units[0](x_BYXC, keep_BYX1), keep_BYX1)
        if keep_BYX1 is not None:
            y = ops.where(keep_BYX1, y, ops.cast(-1e4, y.dtype))  # so that padding is never the maximum
        return self._pooled(y) + self.norm(self.shortcut(x_BYXC))

    def _pooled(self, y_BYXD):
        # Padded explicitly: with `same`, where strides of two start would depend on the width of the batch.
        sides = [(window // 2, window // 2) for window in self.window]
        padded = ops.pad(y_BYXD, ((0, 0), *sides, (0, 0)), constant_values=-1e4)
        return ops.max_pool(padded, self.window, self.strides, padding="valid")


class EntryFlow(keras.layers.Layer):
    """Maps images to a grid of one vector per 16 x 16 pixels: two convolutions, three blocks (figure 5; D = 728)."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        given = {"padding": "same", "use_bias": False, "dtype": self.dtype_policy}
        self.convolutions = [
            keras.layers.Conv2D(wide, 3, stride, name=f"convolution_{i}", **given)
            for i, (wide, stride) in enumerate(((32, 2), (64, 1)))
        ]
        self.norms = [LayerNorm(dtype=self.dtype_policy, name=f"norm_{i}") for i in range(2)]
        self.blocks = [
            DownBlock((wide, wide), dtype=self.dtype_policy, name=f"block_{i}")
            for i, wide in enumerate((128, 256, width))
        ]

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        channels = input_shape[-1]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            convolution.build((*input_shape[:-1], channels))
            channels = convolution.filters
            norm.build((channels,))
        for block in self.blocks:
            block.build((None, None, None, channels))
            channels = block.shortcut.filters

    def call(self, x_BYXC):
        """Returns (B, Y / 16, X / 16, D), rounded up."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x_BYXC = ops.relu(norm(convolution(x_BYXC)))
        for block in self.blocks:
            x_BYXC = block(x_BYXC)
        return x_BYXC
