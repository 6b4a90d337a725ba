"""The modules of SliceNet: sections 3.1 and 3.2 of Kaiser et al. (2017, arXiv:1706.03059).

Legend: B batch, S source length, T target length, D width, N rows decoded together, Q rows of each sentence.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.attention_record import probabilities
from t2t.layers.dropout import Dropout
from t2t.layers.positions import SinusoidalPositions
from t2t.layers.products import float32_product
from t2t.layers.separable_convolution import ConvStep, Separability


class Source(NamedTuple):
    """An encoded source."""

    hidden: Any
    """(B, S, D)."""
    keep: Any
    """(B, S) bool, True at data."""


class StepSettings(NamedTuple):
    """What one step of a module looks at, and how."""

    kernel_size: int
    dilation: int
    separability: Separability


class ConvModule(keras.layers.Layer):
    """Four steps with two connections around them, then dropout (section 3.1).

        h_1 = step_1(x),  h_2 = x + step_2(h_1),  h_3 = step_3(h_2),  h_4 = x + step_4(h_3)

    Args:
        width: D.
        steps: the settings of the four.
        causal: whether windows end at their own position.
        dropout: rate.
    """

    def __init__(self, width: int, steps: Sequence[StepSettings], causal: bool, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.steps = [
            ConvStep(
                width, step.kernel_size, step.separability, dilation=step.dilation, causal=causal,
                dtype=self.dtype_policy, name=f"step_{i}",
            )
            for i, step in enumerate(steps, start=1)
        ]  # fmt: skip
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        """Builds the steps for (B, T, D)."""
        for layer in (*self.steps, self.dropout):
            layer.build(input_shape)

    def call(self, x_BTD, keep_BT=None, seed=None):
        """Returns (B, T, D); positions where `keep_BT` (B, T) bool is False are read as zeros."""
        step_1, step_2, step_3, step_4 = self.steps
        h_2 = x_BTD + step_2(step_1(x_BTD, keep_BT), keep_BT)
        return self.dropout(x_BTD + step_4(step_3(h_2, keep_BT), keep_BT), seed=seed)

    def empty(self, rows) -> tuple:
        """Returns of each step what its windows reach before the first position."""
        return tuple(step.empty(rows) for step in self.steps)

    def step(self, x_N1D, pasts: tuple):
        """Returns one position (N, 1, D), and what the windows of the next reach."""
        h, past_1 = self.steps[0].step(x_N1D, pasts[0])
        h, past_2 = self.steps[1].step(h, pasts[1])
        h, past_3 = self.steps[2].step(x_N1D + h, pasts[2])
        h, past_4 = self.steps[3].step(h, pasts[3])
        return x_N1D + h, (past_1, past_2, past_3, past_4)


class SourceAttention(keras.layers.Layer):
    """Attend(source, a(target)): inner products with the source after two steps with timing signals (section 3.2).

    Attend(s, t) = softmax(t s^T / sqrt(D)) s, without weights of its own.

    Args:
        width: D.
        separabilities: of the two steps, which have windows of 5 positions and dilations 1 and 4.
    """

    def __init__(self, width: int, separabilities: Sequence[Separability], **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.timing = SinusoidalPositions(width, dtype=policy, name="timing")
        self.steps = [
            ConvStep(width, 5, separability, dilation=dilation, causal=True, dtype=policy, name=f"step_{i}")
            for i, (separability, dilation) in enumerate(zip(separabilities, (1, 4), strict=True), start=1)
        ]

    def build(self, input_shape):
        """Builds the steps for (B, T, D)."""
        for layer in (self.timing, *self.steps):
            layer.build(input_shape)

    def call(self, x_BTD, source: Source):
        """Returns (B, T, D), of each position what it finds in the source."""
        query = self.timing(x_BTD)
        for step in self.steps:
            query = step(query)
        return attend(query, source, self.path)

    def empty(self, rows) -> tuple:
        """Returns of each step what its windows reach before the first position."""
        return tuple(step.empty(rows) for step in self.steps)

    def step(self, x_N1D, position, pasts: tuple, source: Source):
        """Returns one position (N, 1, D), and what the windows of the next reach."""
        query, after = self.timing(x_N1D, start=position), []
        for step, past in zip(self.steps, pasts, strict=True):
            query, cached = step.step(query, past)
            after.append(cached)
        query_BQD = ops.reshape(query, (ops.shape(source.hidden)[0], -1, query.shape[-1]))
        return ops.reshape(attend(query_BQD, source, self.path), ops.shape(x_N1D)), tuple(after)


def attend(query_BTD, source: Source, layer: str):
    """Returns softmax(t s^T / sqrt(D)) s, (B, T, D), over the kept positions of the source, for the layer of a path."""
    scaled_BTD = query_BTD * query_BTD.shape[-1] ** -0.5
    weights_BTS = probabilities(float32_product(scaled_BTD, source.hidden), source.keep[:, None, :], layer)
    return ops.matmul(ops.cast(weights_BTS, source.hidden.dtype), source.hidden)
