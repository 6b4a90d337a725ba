"""Attention at every layer of a convolutional decoder: section 3.3 of Gehring et al. (2017, arXiv:1705.03122).

Legend: B batch, S source length, Q queries of a sentence, C channels of the decoder's layer, D width of embeddings,
N rows of a step, N = B * Q.
"""

import keras
from keras import ops

from t2t.layers.attention_record import probabilities
from t2t.layers.cache import StepCache
from t2t.layers.gated_convolution import ROOT_HALF, linear
from t2t.layers.products import float32_product
from t2t.layers.recurrent_attention import Memory


class MultiStepAttention(keras.layers.Layer):
    """c_i = sum_j a_ij (z_j + e_j) with a_i = softmax_j(d_i . z_j), d_i = W h_i + b + g_i (equations 1 and 2).

    A sum of m terms with weights of about 1/m is m^-1/2 times as large as one term, so c is scaled by m sqrt(1/m)
    (section 3.4). Then it is mapped from D to C and added to h.
    """

    def __init__(self, channels: int, width: int, **kwargs):
        super().__init__(**kwargs)
        self.channels, self.width = channels, width
        self.query = linear(width, channels, dtype=self.dtype_policy, name="query")
        self.context = linear(channels, width, dtype=self.dtype_policy, name="context")

    def build(self, input_shape):
        """Builds both maps for (B, Q, C)."""
        self.query.build((*input_shape[:-1], self.channels))
        self.context.build((*input_shape[:-1], self.width))

    def call(self, h, g, memory: Memory, cache: StepCache | None = None):
        """Returns sqrt(1/2) * (h + c), (B, Q, C), or with a cache (N, C).

        Args:
            h: (B, Q, C) or (N, C), the output of the layer's gates.
            g: (B, Q, D) or (N, D), embeddings of the tokens before each position.
            memory: keys z and values of the source.
            cache: in a decoding step.
        """
        d_BQD = (self.query(h, cache=cache) + g) * ROOT_HALF
        if cache is not None:
            d_BQD = cache.by_sentence(d_BQD, ops.shape(memory.keys)[0])
        weights_BQS = probabilities(float32_product(d_BQD, memory.keys), memory.keep[:, None, :], self.path)
        # m sqrt(1/m) = sqrt(m), where m is the number of words of the sentence, at least 1.
        words_B11 = ops.maximum(ops.sum(ops.cast(memory.keep, "float32"), axis=1), 1.0)[:, None, None]
        weights_BQS = ops.cast(weights_BQS * ops.sqrt(words_B11), h.dtype)
        context = self.context(ops.matmul(weights_BQS, memory.values))
        return (h + ops.reshape(context, ops.shape(h))) * ROOT_HALF
