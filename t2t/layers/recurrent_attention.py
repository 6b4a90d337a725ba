"""Additive and multiplicative attention of a recurrent decoder to the encoder's output.

Legend: B batch, S source length, D width, N rows decoded together, Q rows of each sentence (N = B * Q).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.attention_record import probabilities
from t2t.layers.products import float32_product


class Memory(NamedTuple):
    """An encoded source, ready to be attended to."""

    keys: Any
    """(B, S, D): compared with queries in the scores."""
    values: Any
    """(B, S, D): the encoder's output."""
    keep: Any
    """(B, S) bool, True at data."""


class MemoryAttention(keras.layers.Layer):
    """Context vectors c_t = sum_s a_ts h_s with a_t = softmax of scores (Bahdanau et al. 2015, equations 5 and 6)."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def build(self, input_shape):
        """Creates the projection of the memory, (D, D) Glorot uniform."""
        self.memory_kernel = self.add_weight(name="memory_kernel", shape=(self.width, self.width))

    def memory(self, values_BSD, keep_BS) -> Memory:
        """Returns the encoder's output (B, S, D) with its keys; positions where `keep_BS` is False get no weight."""
        return Memory(ops.matmul(values_BSD, ops.cast(self.memory_kernel, values_BSD.dtype)), values_BSD, keep_BS)

    def stepper(self, memory: Memory) -> Callable:
        """Returns `attend(query_ND) -> (N, D)`; row n belongs to sentence n // (N / B)."""
        score = self.scorer(memory.keys)
        keep_B1S = memory.keep[:, None, :]
        sentences = ops.shape(memory.keys)[0]

        def attend(query_ND):
            scores_BQS = score(ops.reshape(query_ND, (sentences, -1, self.width)))
            weights_BQS = probabilities(scores_BQS, keep_B1S, self.path)
            found_BQD = ops.matmul(ops.cast(weights_BQS, memory.values.dtype), memory.values)
            return ops.reshape(found_BQD, (-1, self.width))

        return attend

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        raise NotImplementedError


class AdditiveAttention(MemoryAttention):
    """score(s, h) = v^T tanh(W s + U h) (Bahdanau et al. 2015, appendix A.1.2)."""

    def build(self, input_shape):
        """Creates U, W and v, Glorot uniform."""
        super().build(input_shape)
        self.query_kernel = self.add_weight(name="query_kernel", shape=(self.width, self.width))
        self.score_kernel = self.add_weight(name="score_kernel", shape=(self.width, 1))

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        query_kernel, score_kernel = (ops.cast(w, keys_BSD.dtype) for w in (self.query_kernel, self.score_kernel))
        score_kernel_1D = ops.transpose(score_kernel)

        def score(query_BQD):
            sums_BQSD = ops.matmul(query_BQD, query_kernel)[:, :, None] + keys_BSD[:, None]
            rows_ND = ops.reshape(ops.tanh(sums_BQSD), (-1, self.width))
            return ops.reshape(float32_product(rows_ND, score_kernel_1D), ops.shape(sums_BQSD)[:-1])

        return score


class FactoredAttention(AdditiveAttention):
    """score(s, h) = sum over d of v_d tanh(W s)_d tanh(U h)_d (Shazeer et al. 2017, arXiv:1701.06538, appendix G).

    All scores are one matrix product, whereas `AdditiveAttention` needs a tanh for every pair.
    """

    def memory(self, values_BSD, keep_BS) -> Memory:
        """Returns the encoder's output (B, S, D) with its keys, tanh(U h); see the base class."""
        memory = super().memory(values_BSD, keep_BS)
        return memory._replace(keys=ops.tanh(memory.keys))

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        query_kernel, score_kernel = (ops.cast(w, keys_BSD.dtype) for w in (self.query_kernel, self.score_kernel))

        def score(query_BQD):
            return float32_product(ops.tanh(ops.matmul(query_BQD, query_kernel)) * score_kernel[:, 0], keys_BSD)

        return score


class MultiplicativeAttention(MemoryAttention):
    """score(h_t, h_s) = h_t^T W h_s, called general (Luong et al. 2015, equation 8)."""

    def scorer(self, keys_BSD) -> Callable:
        """Returns `score(query_BQD) -> (B, Q, S)` float32."""
        return lambda query_BQD: float32_product(query_BQD, keys_BSD)
