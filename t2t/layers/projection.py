"""Linear maps into attention heads, several in one matrix product.

Legend: B batch, T length, D width, H heads, K channels of one head.
"""

import keras
from keras import ops


class HeadProjection(keras.layers.Layer):
    """Projects hidden states into heads, once for each name: the W^Q, W^K, W^V of section 3.2.2.

    Each name has a kernel (D, H*K) and, where asked, a bias of its own; names asked for together are multiplied as one
    matrix.

    Args:
        num_heads: H.
        channels: by name, the channels of all heads together, H*K.
        use_bias: whether projections have biases.
    """

    def __init__(self, num_heads: int, channels: dict[str, int], use_bias: bool, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.channels = dict(channels)
        self.use_bias = use_bias

    def build(self, input_shape):
        """Creates the kernels, Glorot uniform each for itself, for inputs (..., D)."""
        self.kernels, self.biases = {}, {}
        for name, channels in self.channels.items():
            self.kernels[name] = self.add_weight(
                name=f"{name}_kernel", shape=(input_shape[-1], channels), initializer="glorot_uniform"
            )
            if self.use_bias:
                self.biases[name] = self.add_weight(name=f"{name}_bias", shape=(channels,), initializer="zeros")

    def call(self, x_BTD, names: tuple[str, ...]):
        """Returns one (B, H, T, K) tensor for each of `names`, in their order."""
        kernel = ops.concatenate([ops.convert_to_tensor(self.kernels[name]) for name in names], axis=1)
        y = ops.matmul(x_BTD, kernel)
        if self.use_bias:
            y = y + ops.concatenate([ops.convert_to_tensor(self.biases[name]) for name in names], axis=0)
        ends = [sum(self.channels[n] for n in names[: i + 1]) for i in range(len(names) - 1)]
        return (
            tuple(self._split_heads(part) for part in ops.split(y, ends, axis=-1)) if ends else (self._split_heads(y),)
        )

    def _split_heads(self, y):
        shape = ops.shape(y)
        y = ops.reshape(y, (shape[0], shape[1], self.num_heads, y.shape[-1] // self.num_heads))
        return ops.transpose(y, (0, 2, 1, 3))  # (B, T, H, K) -> (B, H, T, K)
