"""The simpler simple recurrent unit (SSRU) of Kim et al. 2019, along whole sequences and one position at a time.

Legend: B batch, T length, D width, N rows decoded together, R positions of a block, Q blocks of a sequence.
"""

import keras
from keras import ops

from t2t.layers.cache import CachingLayer, StepCache
from t2t.layers.loops import scan
from t2t.layers.mode import custom_gradient
from t2t.layers.tensors import Tensor, missing_to_multiple

BLOCK = 8
"""Positions that `linear_recurrence` computes in one iteration of its loop."""


class Ssru(CachingLayer):
    """A recurrent layer that replaces self-attention in a decoder, without matrix products between steps.

        f_t = sigmoid(x_t W_f + b_f)
        c_t = f_t c_(t-1) + (1 - f_t) x_t W,  c_(-1) = 0
        o_t = relu(c_t)

    Kim et al., *From Research to Production and Back: Ludicrously Fast Neural Machine Translation* (2019), section on
    SSRU: the unit of Lei et al. (2018) with one gate. Its state is one vector for all earlier positions, so a decoding
    step costs the same at every position. States are float32 in every precision.
    """

    def build(self, input_shape):
        """Creates W_f and W side by side (D, 2D), Glorot uniform each, and b_f (D,) for inputs (..., D)."""
        self.width = input_shape[-1]
        limit = (6.0 / (2 * self.width)) ** 0.5
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self.kernel = self.add_weight(name="kernel", shape=(self.width, 2 * self.width), initializer=uniform)
        self.gate_bias = self.add_weight(name="gate_bias", shape=(self.width,), initializer="zeros")

    def call(self, x, keep=None, cache: StepCache | None = None, seed=None):
        """Returns the outputs (B, T, D) of (B, T, D); with a cache (N, D) of (N, D), for a decoding step.

        `keep` and `seed` are unused, and are there for `MultiHeadAttention`, which this layer can replace.
        """
        # As rows of a matrix: with unknown sizes, a product with more axes costs a dozen more small operations.
        product = ops.reshape(ops.matmul(ops.reshape(x, (-1, self.width)), self.kernel), (*ops.shape(x)[:-1], -1))
        gate, fresh = ops.split(ops.cast(product, "float32"), 2, axis=-1)
        forget = ops.sigmoid(gate + ops.cast(self.gate_bias, "float32"))
        added = (1.0 - forget) * fresh
        if cache is None:
            state = linear_recurrence(forget, added)
        else:
            state = forget * cache.state(self.path) + added
            cache.set_state(self.path, state)
        return ops.cast(ops.relu(state), x.dtype)

    def empty_entry(self, rows, beams: int, length) -> Tensor:
        """Returns the state before the first position, (N, D) zeros."""
        return ops.zeros((rows, self.width), "float32")


def linear_recurrence(factor_BTD, added_BTD):
    """Returns c (B, T, D) float32: c_t = factor_t c_(t-1) + added_t, with c_(-1) = 0.

    Its gradient is written as another such recurrence, from the last position to the first. No loop is differentiated,
    so training keeps only the states, and XLA can compile it.
    """

    @custom_gradient
    def states_of(factor_BTD, added_BTD):
        state_BTD = _recurrence(factor_BTD, added_BTD)

        def gradient(upstream_BTD):
            # g_t = upstream_t + factor_(t+1) g_(t+1)
            later_BTD = ops.pad(factor_BTD[:, 1:], ((0, 0), (0, 1), (0, 0)))
            g_BTD = ops.flip(_recurrence(ops.flip(later_BTD, axis=1), ops.flip(upstream_BTD, axis=1)), axis=1)
            before_BTD = ops.pad(state_BTD[:, :-1], ((0, 0), (1, 0), (0, 0)))
            return g_BTD * before_BTD, g_BTD

        return state_BTD, gradient

    return states_of(factor_BTD, added_BTD)


def _recurrence(factor_BTD, added_BTD):
    """Returns c (B, T, D): computes all blocks in parallel, then a scan over the ends of the blocks."""
    batch, length, width = ops.shape(factor_BTD)
    missing = missing_to_multiple(length, BLOCK)

    def split_into_blocks(x_BTD):
        return ops.reshape(ops.pad(x_BTD, ((0, 0), (0, missing), (0, 0))), (batch, -1, BLOCK, width))

    factor_BQRD, added_BQRD = split_into_blocks(factor_BTD), split_into_blocks(added_BTD)
    product, state = factor_BQRD[:, :, 0], added_BQRD[:, :, 0]
    products, states = [product], [state]  # of the factors since the block's start; from a zero state there
    for r in range(1, BLOCK):
        product = product * factor_BQRD[:, :, r]
        state = factor_BQRD[:, :, r] * state + added_BQRD[:, :, r]
        products.append(product)
        states.append(state)

    def step(end_BD, given):
        product_BD, state_BD = given
        return product_BD * end_BD + state_BD

    _, ends_QBD = scan(step, ops.zeros_like(state[:, 0]), (ops.swapaxes(product, 0, 1), ops.swapaxes(state, 0, 1)))
    before_QBD = ops.pad(ends_QBD[:-1], ((1, 0), (0, 0), (0, 0)))
    before_BQ1D = ops.swapaxes(before_QBD, 0, 1)[:, :, None]
    state_BQRD = ops.stack(states, axis=2) + ops.stack(products, axis=2) * before_BQ1D
    return ops.reshape(state_BQRD, (batch, -1, width))[:, :length]
