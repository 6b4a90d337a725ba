"""What classes and real vectors have in common as targets: one dense layer on the hidden states.

Legend: D width, C classes or channels.
"""

from keras import ops

from t2t.layers.modalities.base import Top


class DenseTop(Top):
    """One dense layer with a bias; what is predicted of it is left to those that derive from it."""

    @property
    def outputs(self) -> int:
        """C."""
        raise NotImplementedError

    def build(self, input_shape=None):
        """Creates the kernel (D, C) and the bias (C,)."""
        self.kernel = self.add_weight(name="kernel", shape=(self.width, self.outputs), initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.outputs,), initializer="zeros")

    def call(self, hidden, decode_weights=None):
        """Returns (..., C) float32 for hidden states (..., D)."""
        kernel_DC = ops.cast(ops.cast(self.kernel, self.compute_dtype), "float32")
        return ops.matmul(ops.cast(hidden, "float32"), kernel_DC) + ops.cast(self.bias, "float32")
