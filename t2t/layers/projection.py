"""Linear maps into attention heads, several in one matrix product.

Legend: B batch, T length, D width, H heads, K channels of one head.
"""

import keras
from keras import ops


class HeadProjection(keras.layers.Layer):
    """Projects hidden states into heads, once for each name: the W^Q, W^K, W^V of section 3.2.2.

    Each name has its kernel (D, H*K) and, with `use_bias`, a bias; projections that are called together are one matrix
    product. `heads` gives (H, K) by name.
    """

    def __init__(self, heads: dict[str, tuple[int, int]], use_bias: bool, **kwargs):
        super().__init__(**kwargs)
        self.heads, self.use_bias = dict(heads), use_bias
        self.channels = {name: count * size for name, (count, size) in heads.items()}

    def build(self, input_shape):
        """Creates the kernels, each Glorot uniform, for inputs (..., D)."""
        self.kernels, self.biases = {}, {}
        for name, channels in self.channels.items():
            self.kernels[name] = self.add_weight(name=f"{name}_kernel", shape=(input_shape[-1], channels))
            if self.use_bias:
                self.biases[name] = self.add_weight(name=f"{name}_bias", shape=(channels,), initializer="zeros")

    def call(self, x_BTD, names: tuple[str, ...], fused=None):
        """Returns one (B, H, T, K) tensor for each of `names`, in their order.

        Args:
            x_BTD: (B, T, D).
            names: of projections.
            fused: the result of `fused(names)`, if already computed.
        """
        kernel, bias = fused or self.fused(names)
        # As rows of a matrix: with unknown sizes, a product with more axes costs a dozen more small operations.
        y = ops.matmul(ops.reshape(x_BTD, (-1, x_BTD.shape[-1])), kernel)
        y = y if bias is None else y + bias
        ends = [sum(self.channels[n] for n in names[: i + 1]) for i in range(len(names) - 1)]
        parts = ops.split(y, ends, axis=-1) if ends else (y,)
        return tuple(self._split_heads(name, part, x_BTD) for name, part in zip(names, parts, strict=True))

    def fused(self, names: tuple[str, ...]):
        """Returns one kernel and one bias (None without biases) for several projections."""
        kernel = ops.concatenate([ops.convert_to_tensor(self.kernels[name]) for name in names], axis=1)
        if not self.use_bias:
            return kernel, None
        return kernel, ops.concatenate([ops.convert_to_tensor(self.biases[name]) for name in names], axis=0)

    def _split_heads(self, name: str, y, x_BTD):
        # If the number of positions is static, as in decoding, so is the new shape.
        lengths = (-1, x_BTD.shape[1]) if isinstance(x_BTD.shape[1], int) else ops.shape(x_BTD)[:2]
        count, size = self.heads[name]
        if count == 1:  # converters to ONNX mishandle the transposition of an axis of size 1
            return ops.reshape(y, (lengths[0], 1, lengths[1], size))
        y = ops.reshape(y, (*lengths, count, size))
        return ops.transpose(y, (0, 2, 1, 3))  # (B, T, H, K) -> (B, H, T, K)
