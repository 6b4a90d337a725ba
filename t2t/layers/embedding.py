"""Token embeddings and the output layer that may share their table: section 3.4.

Legend: B batch, T length, D width, V vocabulary.
"""

import keras
from keras import ops


class Embedding(keras.layers.Layer):
    """A table of token vectors, read scaled by sqrt(D) and, transposed and unscaled, usable as the output layer."""

    def __init__(self, vocab_size: int, width: int, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.width = width

    def build(self, input_shape=None):
        """Creates the table (V, D), N(0, D^-1/2), so that scaled vectors have unit variance."""
        self.table = self.add_weight(
            name="table",
            shape=(self.vocab_size, self.width),
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
        )

    def call(self, ids_BT):
        """Returns (B, T, D): sqrt(D) times the vectors of `ids_BT` (B, T) int32."""
        return ops.cast(ops.take(self.table, ids_BT, axis=0), self.compute_dtype) * self.width**0.5

    def output_kernel(self):
        """Returns the output layer's weights, (V, D)."""
        return ops.convert_to_tensor(self.table)
