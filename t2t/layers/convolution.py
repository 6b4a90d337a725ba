"""Convolutions along sequences: over whole sequences, or one position at a time with a cache of the earlier ones.

And dynamic unfolding: a target of any length read against a source, column by column (Kalchbrenner et al. 2016, 3.2).

Legend: B batch, T length, C input channels, F output channels, N rows decoded together, W positions of a window,
d dilation, R = (W - 1) * d, how far a window reaches, Q rows of d positions. Of a source: S its length, U the length of
its representation, D width.
"""

import math

import keras
import numpy as np
from keras import ops

from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.tensors import Tensor, at_least, missing_to_multiple


class WindowedLayer(CachingLayer):
    """A layer that reads W positions, `dilation` apart: around its own, or up to its own.

    Sequences are padded with zeros. `causal` windows end at their own position; others are centred on it.
    """

    def __init__(self, kernel_size: int, dilation: int = 1, causal: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.kernel_size, self.dilation, self.causal = kernel_size, dilation, causal
        self.reach = (kernel_size - 1) * dilation

    def call(self, x_BTC, keep_BT=None, cache: StepCache | None = None):
        """Returns (B, T, F); positions where `keep_BT` (B, T) bool is False are read as zeros.

        With a cache, (N, F) of (N, C), for a decoding step.
        """
        if cache is not None:
            seen_NWC = cache.extend_window(self.path, x_BTC) if self.reach else x_BTC[:, None]
            return self.convolve(seen_NWC[:, :: self.dilation, None])[:, 0, 0]
        if keep_BT is not None:
            x_BTC = x_BTC * ops.cast(keep_BT, x_BTC.dtype)[..., None]
        before = self.reach if self.causal else self.reach // 2
        if self.dilation == 1:
            return ops.squeeze(self.convolve(_padded(x_BTC, before, self.reach - before)[:, :, None]), axis=2)
        # In rows of d positions, a window is a column of neighbours: backends compute dilated convolutions slowly.
        batch, length, channels = ops.shape(x_BTC)
        after = self.reach - before + missing_to_multiple(length + self.reach, self.dilation)
        rows = ops.reshape(_padded(x_BTC, before, after), (batch, -1, self.dilation, channels))
        y_BQdF = self.convolve(rows)
        return ops.reshape(y_BQdF, (batch, -1, y_BQdF.shape[-1]))[:, :length]

    def convolve(self, x_BQdC):
        """Returns (B, Q - W + 1, d, F): one value for each W neighbours along Q."""
        raise NotImplementedError

    def empty_entry(self, rows, beams: int, length) -> Tensor | None:
        """Returns the window before the first position, (N, R, C) zeros; None if windows are not causal or W = 1."""
        if not self.causal or not self.reach:
            return None
        return ops.zeros((rows, self.reach, self.in_channels), self.compute_dtype)

    def build(self, input_shape):
        """Stores C of inputs (B, T, C)."""
        self.in_channels = input_shape[-1]


def _padded(x_BTC, before, after):
    nothing = isinstance(after, int) and before == after == 0
    return x_BTC if nothing else ops.pad(x_BTC, ((0, 0), (before, after), (0, 0)))


class Convolution(WindowedLayer):
    """y_t = b + sum over the window of x_s W_s.

    Args:
        channels: F.
        kernel_size: W.
        groups: number of independent groups into which both C and F are divided.
        use_bias: whether there is a b.
        deviation: standard deviation of initial weights, normal around 0; None for Glorot uniform.
        weight_norm: whether the weights of each output channel are a direction and a length (Salimans and Kingma 2016,
            equation 2); the initial length is that expected of the weights.
        **kwargs: see the base class.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        *,
        groups: int = 1,
        use_bias: bool = True,
        deviation: float | None = None,
        weight_norm: bool = False,
        **kwargs,
    ):
        super().__init__(kernel_size, **kwargs)
        self.channels, self.groups, self.use_bias = channels, groups, use_bias
        self.deviation, self.weight_norm = deviation, weight_norm

    def build(self, input_shape):
        """Creates the kernel (W, C / groups, F), the lengths (F,) and the bias (F,) for inputs (B, T, C)."""
        super().build(input_shape)
        shape = (self.kernel_size, self.in_channels // self.groups, self.channels)
        initializer = "glorot_uniform"
        if self.deviation is not None:
            initializer = keras.initializers.RandomNormal(stddev=self.deviation)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer, autocast=False)
        self.length = self.bias = None
        if self.weight_norm:
            length = keras.initializers.Constant(self.deviation * (shape[0] * shape[1]) ** 0.5)
            self.length = self.add_weight(name="length", shape=shape[2:], initializer=length, autocast=False)
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=shape[2:], initializer="zeros", autocast=False)

    def convolve(self, x_BQdC):
        """Returns (B, Q - W + 1, d, F)."""
        kernel = ops.convert_to_tensor(self.kernel)
        if self.length is not None:
            kernel = kernel * (self.length * ops.rsqrt(ops.sum(ops.square(kernel), axis=(0, 1))))
        kernel = ops.cast(kernel, x_BQdC.dtype)
        if self.groups == 1:
            y = _convolved(x_BQdC, kernel)
        else:  # group by group: on CPUs, grouped convolutions of the backends are many times slower
            parts = zip(*(ops.split(tensor, self.groups, axis=-1) for tensor in (x_BQdC, kernel)), strict=True)
            y = ops.concatenate([_convolved(x, part) for x, part in parts], axis=-1)
        return y if self.bias is None else y + ops.cast(self.bias, y.dtype)


def _convolved(x_BQdC, kernel_WCF):
    """Returns (B, Q - W + 1, d, F).

    Axes of size 1 are squeezed, not sliced: the gradient of a slice would copy everything.
    """
    window, channels, outputs = kernel_WCF.shape
    if window == 1:  # one product of all rows
        rows = ops.matmul(ops.reshape(x_BQdC, (-1, channels)), ops.squeeze(kernel_WCF, axis=0))
        return ops.reshape(rows, (*ops.shape(x_BQdC)[:-1], outputs))
    if x_BQdC.shape[2] == 1:
        return ops.conv(ops.squeeze(x_BQdC, axis=2), kernel_WCF, padding="valid")[:, :, None]
    return ops.conv(x_BQdC, kernel_WCF[:, None], padding="valid")


class DepthwiseConvolution(WindowedLayer):
    """Each channel separately: y_t = sum over the window of x_s * w_s (Kaiser et al. 2017, section 2.1)."""

    def build(self, input_shape):
        """Creates the kernel (W, C) for inputs (B, T, C)."""
        super().build(input_shape)
        # Glorot uniform as for one input and one output channel: each output has W inputs.
        limit = (3.0 / self.kernel_size) ** 0.5
        uniform, shape = keras.initializers.RandomUniform(-limit, limit), (self.kernel_size, self.in_channels)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=uniform, autocast=False)

    def convolve(self, x_BQdC):
        """Returns (B, Q - W + 1, d, C)."""
        kernel = ops.cast(ops.convert_to_tensor(self.kernel), x_BQdC.dtype)[:, None, :, None]
        return ops.depthwise_conv(x_BQdC, kernel, padding="valid")


def unfolded_length(length, factor: float, offset: int):
    """Returns `length` times `factor`, rounded up, plus `offset` (equation 2).

    Lengths are int, or a tensor of int32; so is the result.
    """
    if isinstance(length, int):
        return math.ceil(np.float32(length) * np.float32(factor) - np.float32(1e-3)) + offset
    # Subtracts a little, so that 1.2 * 5 with its rounding error does not become 7.
    return ops.cast(ops.ceil(ops.cast(length, "float32") * factor - 1e-3), "int32") + offset


def unfolded(x_BSD, keep_BS, factor: float, offset: int) -> tuple[Tensor, Tensor]:
    """Returns sources padded with zeros, (B, U, D), and which positions belong to each sentence, (B, U) bool.

    Of a sentence of n positions, True in `keep_BS`, these are `unfolded_length` of n.
    """
    keep = ops.cast(keep_BS, "int32")
    longest = unfolded_length(ops.shape(x_BSD)[1], factor, offset)
    keep_BU = ops.arange(longest)[None, :] < unfolded_length(ops.sum(keep, axis=1), factor, offset)[:, None]
    return resized(x_BSD * ops.cast(keep, x_BSD.dtype)[..., None], longest), keep_BU


def columns(x_BUD, ids, cache: StepCache | None):
    """Returns the columns of a source's representation that the decoder reads, zeros beyond its end.

    For `ids` (B, T) they are (B, T, D), one for each position. With a cache they are (N, D), the column at the step's
    position for each of N ids of B sentences.
    """
    if cache is None:
        return resized(x_BUD, ops.shape(ids)[1])
    last = ops.shape(x_BUD)[1] - 1
    column_BD = ops.take(x_BUD, ops.minimum(cache.position, last), axis=1)
    column_BD = column_BD * ops.cast(cache.position <= last, column_BD.dtype)
    return repeat_sentences(column_BD, ops.shape(ids)[0])


def resized(x_BUD, length):
    """Cuts (B, U, D) to (B, length, D), or pads it with zeros at the end."""
    batch, longest, width = ops.shape(x_BUD)
    missing_BXD = ops.zeros((batch, at_least(0, length - longest), width), x_BUD.dtype)
    return ops.concatenate([x_BUD, missing_BXD], axis=1)[:, :length]
