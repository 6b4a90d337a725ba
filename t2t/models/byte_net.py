"""ByteNet, in the order of section 3 of Kalchbrenner et al., *Neural Machine Translation in Linear Time* (2016).

Legend: B batch, S source length, U length of its representation, T target length, D width, N rows decoded together.
"""

from typing import Any

from keras import ops

from t2t.hparams.byte_net import ByteNetHParams
from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.dilated_blocks import bottleneck, cascade
from t2t.layers.norm import LayerNorm
from t2t.layers.residual import CompositeLayer, build_all
from t2t.layers.unfolding import column_at, resize_length, unfolded_length
from t2t.models.base import READ_AS_VECTORS
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import ProblemSpec


@register_model
class ByteNet(EncoderDecoder):
    """Neural Machine Translation in Linear Time: dilated convolutions, the decoder's on top of the encoder's."""

    hparams_class = ByteNetHParams
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: ByteNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width = self.dtype_policy, hparams.hidden_size
        self.encoder = DilatedStack(hparams, causal=False, dtype=policy, name="encoder")
        self.join = Convolution(width, hparams.kernel_size, causal=True, dtype=policy, name="join")
        self.decoder = DilatedStack(hparams, causal=True, dtype=policy, name="decoder")
        self.output_map: Any = None
        self.output_norm: Any = None
        if hparams.block != "cascade":
            self.output_map = Convolution(width, 1, dtype=policy, name="output_map")
            self.output_norm = LayerNorm(dtype=policy, name="output_norm")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_ends()
        hidden = (None, None, self.hparams.hidden_size)
        self.encoder.build(hidden)
        self.join.build((None, None, 2 * self.hparams.hidden_size))
        self.decoder.build(hidden)
        build_all((self.output_map, self.output_norm), hidden)

    def encode(self, features: dict[str, Any], seed=None):
        """Returns the representation of the source (B, U, D), zeros where it is longer than its own bound."""
        inputs = features[INPUTS]
        keep_BS = self.source_embedding.keep(inputs)
        x_BSD = self.source_embedding(inputs, seed=seed) * ops.cast(keep_BS, self.compute_dtype)[..., None]
        unfolding = (self.hparams.unfolding_factor, self.hparams.unfolding_offset)
        bound_B = unfolded_length(ops.sum(ops.cast(keep_BS, "int32"), axis=1), *unfolding)
        longest = unfolded_length(ops.cast(ops.shape(x_BSD)[1], "int32"), *unfolding)
        keep_BU = ops.arange(longest)[None, :] < bound_B[:, None]
        x_BUD = self.encoder(resize_length(x_BSD, longest), keep_BU, seed=seed)
        return x_BUD * ops.cast(keep_BU, x_BUD.dtype)[..., None]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        if cache is None:
            columns = resize_length(encoded, ops.shape(ids)[1])
        else:
            columns = column_at(encoded, cache.position, ops.shape(ids)[0])
        x = ops.concatenate([columns, self.target_embedding.before(ids)], axis=-1)
        x = self.decoder(self.join(x, cache=cache), cache=cache, seed=seed)
        # After the blocks one more convolution and ReLU; the last convolution is the output layer (section 3.6).
        return x if self.output_map is None else ops.relu(self.output_norm(self.output_map(x, cache=cache)))


class DilatedStack(CompositeLayer):
    """Residual blocks and, since nothing normalises their sum, a norm."""

    def __init__(self, hparams: ByteNetHParams, causal: bool, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [
            _block(hparams, i, causal, dtype=self.dtype_policy, name=f"block_{i}")
            for i in range(hparams.num_hidden_layers)
        ]
        self.norm = LayerNorm(dtype=self.dtype_policy, name="norm")

    def call(self, x, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns (B, T, D), or with a cache (N, D); windows read zeros where `keep_BT` (B, T) bool is False."""
        for block in self.blocks:
            x = block(x, keep_BT, cache=cache, seed=seed)
        return self.norm(x)


def _block(hparams: ByteNetHParams, i: int, causal: bool, **kwargs):
    width, size, dilations = hparams.hidden_size, hparams.kernel_size, hparams.dilations
    if hparams.block == "cascade":
        return cascade(width, size, dilations, causal, hparams.dropout, **kwargs)
    multiplicative, dilation = hparams.block == "multiplicative", dilations[i % len(dilations)]
    return bottleneck(width, size, dilation, causal, multiplicative, hparams.dropout, **kwargs)
