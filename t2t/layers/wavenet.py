"""The gated block of WaveNet: van den Oord et al. (2016, arXiv:1609.03499), section 2.

Legend: B batch, T length, D residual channels, K skip channels, N rows decoded together.
"""

from keras import ops

from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.residual import CompositeLayer


class GatedBlock(CompositeLayer):
    """z = tanh(W_f * x + V_f h) sigmoid(W_g * x + V_g h); the next block reads x + W_r z, the output W_s z (figure 4).

    The last block of a stack (`is_last`) has no W_r. The condition V h is an argument of the call (section 2.5).
    """

    def __init__(
        self, channels: int, skip_channels: int, kernel_size: int, dilation: int, is_last: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.window = Convolution(
            2 * channels, kernel_size, dilation=dilation, causal=True, dtype=policy, name="window"
        )
        self.skip = Convolution(skip_channels, 1, dtype=policy, name="skip")
        self.residual = None if is_last else Convolution(channels, 1, dtype=policy, name="residual")

    def call(self, x, condition=None, cache: StepCache | None = None):
        """Returns the input of the next block, (B, T, D), and the skip output, (B, T, K).

        Args:
            x: (B, T, D); with a cache (N, D), and results (N, D) and (N, K).
            condition: [V_f h; V_g h], (B, 1, 2 D); with a cache (N, 2 D). None for none.
            cache: in a decoding step.
        """
        gates = self.window(x, cache=cache)
        content, gate = ops.split(gates if condition is None else gates + condition, 2, axis=-1)
        z = ops.tanh(content) * ops.sigmoid(gate)
        following = x if self.residual is None else x + self.residual(z, cache=cache)
        return following, self.skip(z, cache=cache)
