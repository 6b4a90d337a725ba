"""ByteNet, in the order of section 3 of Kalchbrenner et al., *Neural Machine Translation in Linear Time* (2016).

Legend: B batch, S source length, U length of its representation, T target length, D width, N rows decoded together.
"""

from typing import Any, ClassVar

from keras import ops

from t2t.hparams.byte_net import ByteNetHParams, DilatedHParams
from t2t.layers.cache import StepCache
from t2t.layers.convolution import Convolution
from t2t.layers.dilated_blocks import bottleneck, cascade
from t2t.layers.dropout import Dropout
from t2t.layers.norm import LayerNorm
from t2t.layers.residual import CompositeLayer, build_all
from t2t.layers.unfolding import columns, unfolded
from t2t.models.base import READ_AS_VECTORS
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


@register_model
class ByteNet(EncoderDecoder):
    """Neural Machine Translation in Linear Time: dilated convolutions, the decoder's on top of the encoder's."""

    hparams_class = ByteNetHParams
    accepts_inputs: ClassVar[tuple[FeatureKind | None, ...]] = READ_AS_VECTORS

    def __init__(self, hparams: ByteNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width = self.dtype_policy, hparams.hidden_size
        self.encoder: Any = None
        self.join: Any = None
        if spec.inputs:
            self.encoder = DilatedStack(hparams, causal=False, dtype=policy, name="encoder")
            self.join = Convolution(width, hparams.kernel_size, causal=True, dtype=policy, name="join")
        self.decoder = DilatedStack(hparams, causal=True, dtype=policy, name="decoder")
        self.output_map: Any = None
        self.output_norm: Any = None
        if hparams.block != "cascade":
            self.output_map = Convolution(width, 1, dtype=policy, name="output_map")
            self.output_norm = LayerNorm(dtype=policy, name="output_norm")
        self.output_dropout = Dropout(hparams.output_dropout, dtype=policy, name="output_dropout")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        hidden = (None, None, self.hparams.hidden_size)
        build_all((self.encoder,), hidden)
        build_all((self.join,), (None, None, 2 * self.hparams.hidden_size))
        build_all((self.decoder, self.output_map, self.output_norm, self.output_dropout), hidden)

    def encode(self, features: dict[str, Any], seed=None):
        """Returns the representation of the source (B, U, D), zeros beyond its own end; None without inputs."""
        if self.encoder is None:
            return None
        inputs = features[INPUTS]
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs)
        x_BUD, keep_BU = unfolded(x_BSD, keep_BS, self.hparams.unfolding_factor, self.hparams.unfolding_offset)
        x_BUD = self.encoder(x_BUD, keep_BU, seed=seed)
        return x_BUD * ops.cast(keep_BU, x_BUD.dtype)[..., None]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; see the base class."""
        x = self.target_embedding.before(ids, seed=seed)
        if self.join is not None:
            x = self.join(ops.concatenate([columns(encoded, ids, cache), x], axis=-1), cache=cache)
        x = self.decoder(x, cache=cache, seed=seed)
        if self.output_map is not None:
            # One more convolution and ReLU after the blocks; the last convolution is the output layer (section 3.6).
            x = ops.relu(self.output_norm(self.output_map(x, cache=cache)))
        return self.output_dropout(x, seed=seed)


class DilatedStack(CompositeLayer):
    """Residual blocks and, since nothing normalises their sum, a norm."""

    def __init__(self, hparams: DilatedHParams, causal: bool, **kwargs):
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


def _block(hparams: DilatedHParams, i: int, causal: bool, **kwargs):
    width, size, dilations = hparams.hidden_size, hparams.kernel_size, hparams.dilations
    if hparams.block == "cascade":
        return cascade(width, size, dilations, causal, hparams.dropout, **kwargs)
    multiplicative, dilation = hparams.block == "multiplicative", dilations[i % len(dilations)]
    return bottleneck(width, size, dilation, causal, multiplicative, hparams.dropout, **kwargs)
