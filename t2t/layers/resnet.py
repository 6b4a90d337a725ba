"""Residual blocks of convolutions: He et al. 2015 (arXiv:1512.03385), section 3, and 2016 (arXiv:1603.05027), figure 4.

Legend: B batch, Y rows, X columns, C channels in, D channels out.
"""

import keras
from keras import ops

from t2t.layers.batch_norm import BatchNorm


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
