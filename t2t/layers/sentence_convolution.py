"""Convolutions that reduce a sentence to n-grams or to one vector, and a recurrence conditioned on the result.

Kalchbrenner and Blunsom 2013, *Recurrent Continuous Translation Models*.

Legend: B batch, S number of columns, T target length, D width, N rows decoded together, W positions of a window.
"""

from typing import Any

import keras
from keras import ops

from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.convolution import DepthwiseConvolution
from t2t.layers.loops import scan
from t2t.layers.sizes import at_least


class NgramConvolutions(keras.layers.Layer):
    """Convolutions with windows of 2, 3, ... words, each of which removes W - 1 columns (section 3.3).

    Channels are convolved separately. A window as wide as the remaining columns, or wider, leaves one column, which
    later convolutions pass on. After windows of 2 and 3, a column represents an n-gram of four words.
    """

    def __init__(self, count: int, activation: str, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.convolutions = [
            DepthwiseConvolution(size, dtype=policy, name=f"windows_{size}") for size in range(2, count + 2)
        ]
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        """Creates the windows (W, D) for (B, S, D)."""
        for convolution in self.convolutions:
            convolution.build(input_shape)

    def call(self, x_BSD, length_B):
        """Returns the columns (B, at most S, D), zeros after the last, and their number, (B,) int32."""
        for convolution in self.convolutions:
            after_B = ops.maximum(length_B - convolution.reach, 1)
            y_BSD = _windows(convolution, ops.pad(x_BSD, ((0, 0), (0, convolution.reach), (0, 0))))
            y_BSD = with_zeros(self.activation(y_BSD), after_B)
            x_BSD = ops.where((length_B > 1)[:, None, None], y_BSD, x_BSD)
            x_BSD = x_BSD[:, : at_least(1, ops.shape(x_BSD)[1] - convolution.reach)]
            length_B = ops.minimum(length_B, after_B)
        return x_BSD, length_B


class InverseNgramConvolutions(NgramConvolutions):
    """The inverse convolutions (section 4.2): windows of ..., 3, 2 words, each of which adds W - 1 columns."""

    def call(self, x_BSD, length_B):
        """Returns the columns (B, S + added columns, D), zeros after the last, and their number, (B,) int32."""
        for convolution in reversed(self.convolutions):
            length_B = length_B + convolution.reach
            both = (convolution.reach, convolution.reach)
            y_BSD = _windows(convolution, ops.pad(x_BSD, ((0, 0), both, (0, 0))))
            x_BSD = with_zeros(self.activation(y_BSD), length_B)
        return x_BSD, length_B


def _windows(convolution: DepthwiseConvolution, x_BSD):
    """Returns one column for each W neighbours, (B, S - W + 1, D)."""
    return convolution.convolve(x_BSD[:, :, None])[:, :, 0]


def with_zeros(x_BSD, length_B):
    """Returns the columns (B, S, D) with zeros from the `length_B`-th on."""
    keep_BS = ops.arange(ops.shape(x_BSD)[1])[None, :] < length_B[:, None]
    return x_BSD * ops.cast(keep_BS, x_BSD.dtype)[..., None]


def stretch(x_BSD, length_B, wanted_B, most):
    """Returns (B, most, D): the first `length_B` columns, each repeated or skipped to make `wanted_B`, then zeros."""
    columns = ops.arange(most, dtype="int32")[None, :]
    # The middle of column j of w is at (j + 1/2) / w of the whole.
    read_BS = (2 * columns + 1) * length_B[:, None] // (2 * wanted_B[:, None])
    chosen = ops.one_hot(ops.minimum(read_BS, length_B[:, None] - 1), ops.shape(x_BSD)[1], dtype=x_BSD.dtype)
    return with_zeros(ops.matmul(chosen, x_BSD), wanted_B)


class ConditionedRecurrence(CachingLayer):
    """h_t = f(I x_t + R h_(t-1) + b + S c_t) with a condition c_t (equations of sections 3.2 and 4.3); h_(-1) = 0."""

    def __init__(self, width: int, activation: str, **kwargs):
        super().__init__(**kwargs)
        self.width, self.activation = width, keras.activations.get(activation)

    def build(self, input_shape):
        """Creates I and S, Glorot uniform, R, orthogonal, (D, D) each, and b (D,)."""
        shape = (self.width, self.width)
        self.input_kernel = self.add_weight(name="input_kernel", shape=shape)
        self.condition_kernel = self.add_weight(name="condition_kernel", shape=shape)
        self.recurrent_kernel = self.add_weight(name="recurrent_kernel", shape=shape, initializer="orthogonal")
        self.bias = self.add_weight(name="bias", shape=(self.width,), initializer="zeros")

    def call(self, x, condition, cache: StepCache | None = None):
        """Returns the states (B, T, D) of words (B, T, D) and conditions (B, T or 1, D); with a cache, all (N, D)."""
        given = ops.matmul(x, self.input_kernel) + self.bias + ops.matmul(condition, self.condition_kernel)
        kernel = ops.cast(self.recurrent_kernel, given.dtype)

        def step(state_ND, given):
            return self.activation(given[0] + ops.matmul(state_ND, kernel))

        if cache is not None:
            state_ND = step(cache.state(self.path), (given,))
            cache.set_state(self.path, state_ND)
            return state_ND
        _, states_TBD = scan(step, ops.zeros_like(given[:, 0]), (ops.transpose(given, (1, 0, 2)),))
        return ops.transpose(states_TBD, (1, 0, 2))

    def empty_entry(self, rows, beams: int, length) -> Any:
        """Returns the state before the first position, (N, D) zeros."""
        return ops.zeros((rows, self.width), self.compute_dtype)
