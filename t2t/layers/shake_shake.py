"""Residual blocks of two branches, summed with random weights: Gastaldi 2017, *Shake-Shake* (arXiv:1705.07485).

Legend: B batch, Y rows, X columns, C channels in, D channels out.
"""

import keras
from keras import ops

from t2t.layers.batch_norm import BatchNorm
from t2t.layers.dropout import GivenSeed, SeededLayer
from t2t.layers.resnet import PaddedConvolution


def mix_branches(first, second, forward, backward):
    """Returns forward * first + (1 - forward) * second, with the gradient of the same sum with `backward`."""
    computed = forward * first + (1.0 - forward) * second
    differentiated = backward * first + (1.0 - backward) * second
    return differentiated + ops.stop_gradient(computed - differentiated)


class ShakeBranch(keras.layers.Layer):
    """ReLU, 3 x 3 convolution, batch norm, twice; the first convolution has the `stride`."""

    def __init__(self, channels: int, stride: int, **kwargs):
        super().__init__(**kwargs)
        self.convolutions = [
            PaddedConvolution(channels, 3, step, dtype=self.dtype_policy, name=f"convolution_{i}")
            for i, step in enumerate((stride, 1))
        ]
        self.norms = [BatchNorm(dtype=self.dtype_policy, name=f"norm_{i}") for i in range(2)]

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        shape = tuple(input_shape)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            convolution.build(shape)
            shape = (*shape[:-1], convolution.filters)
            norm.build(shape)

    def call(self, x_BYXC, seed=None):
        """Returns (B, Y / stride, X / stride, D), rounded up."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x_BYXC = norm(convolution(ops.relu(x_BYXC)), seed=seed)
        return x_BYXC


class ShiftedShortcut(keras.layers.Layer):
    """The shortcut where the paper's network halves rows and columns (section 2.1).

    Every second pixel of ReLU(x), and of ReLU(x) shifted by one, each through a 1 x 1 convolution to half of the
    channels; then concatenated and normalised.
    """

    def __init__(self, channels: int, **kwargs):
        super().__init__(**kwargs)
        self.convolutions = [
            PaddedConvolution(channels // 2, 1, 2, dtype=self.dtype_policy, name=f"convolution_{i}") for i in range(2)
        ]
        self.norm = BatchNorm(dtype=self.dtype_policy, name="norm")

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        for convolution in self.convolutions:
            convolution.build(input_shape)
        self.norm.build((*input_shape[:-1], 2 * self.convolutions[0].filters))

    def call(self, x_BYXC, seed=None):
        """Returns (B, Y / 2, X / 2, D), rounded up; beyond the last row and column there are zeros."""
        x_BYXC = ops.relu(x_BYXC)
        moved_BYXC = ops.pad(x_BYXC[:, 1:, 1:], ((0, 0), (0, 1), (0, 1), (0, 0)))
        halves = [convolve(x) for convolve, x in zip(self.convolutions, (x_BYXC, moved_BYXC), strict=True)]
        return self.norm(ops.concatenate(halves, axis=-1), seed=seed)


class ShakeBlock(keras.layers.Layer):
    """shortcut(x) + a F(x) + (1 - a) G(x), F and G branches (equation 2).

    In training, a is drawn for each image, uniform in [0, 1), and again for the gradient: the paper's
    Shake-Shake-Image. Otherwise a = 1/2. `stride` 2 halves rows and columns; with `stride` 1, `channels` must be C.
    """

    def __init__(self, channels: int, stride: int, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.branches = [ShakeBranch(channels, stride, dtype=policy, name=f"branch_{i}") for i in range(2)]
        self.shortcut = ShiftedShortcut(channels, dtype=policy, name="shortcut") if stride > 1 else None
        self.noise = SeededLayer(name="noise")

    def build(self, input_shape):
        """Builds every part for (B, Y, X, C)."""
        for part in (*self.branches, self.shortcut, self.noise):
            if part is not None:
                part.build(input_shape)

    def call(self, x_BYXC, seed=None):
        """Returns (B, Y / stride, X / stride, D), rounded up."""
        first, second = (branch(x_BYXC, seed=seed) for branch in self.branches)
        carried = x_BYXC if self.shortcut is None else self.shortcut(x_BYXC, seed=seed)
        if seed is None:
            return carried + 0.5 * (first + second)
        noise_seed = GivenSeed(self.noise.own_seed(seed))
        shape = (2, ops.shape(x_BYXC)[0], 1, 1, 1)
        weights = ops.cast(keras.random.uniform(shape, dtype="float32", seed=noise_seed), first.dtype)
        return carried + mix_branches(first, second, weights[0], weights[1])
