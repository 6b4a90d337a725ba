"""ByteNet, in the order of section 3 of Kalchbrenner et al., *Neural Machine Translation in Linear Time* (2016).

Legend: B batch, S source length, U length of its representation, T target length, D width, V vocabulary, N rows decoded
together, Q rows of each sentence (N = B * Q).
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.hparams.byte_net import ByteNetHParams
from t2t.layers.convolution import Convolution
from t2t.layers.dilated_blocks import EPSILON, bottleneck, cascade
from t2t.layers.norm import LayerNorm
from t2t.models.base import READ_AS_VECTORS, DecodeContext, SequenceModel
from t2t.registry import register_model
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec


class DecoderCache(NamedTuple):
    """What the decoder has unfolded so far: of every window, (N, R, channels), what it reaches."""

    join: Any
    blocks: tuple


@register_model
class ByteNet(SequenceModel):
    """Neural Machine Translation in Linear Time: dilated convolutions, the decoder's on top of the encoder's."""

    hparams_class = ByteNetHParams
    accepts_inputs = READ_AS_VECTORS

    def __init__(self, hparams: ByteNetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy, width = self.dtype_policy, hparams.hidden_size
        self.encoder = DilatedStack(hparams, causal=False, dtype=policy, name="encoder")
        self.join = Convolution(width, hparams.kernel_size, causal=True, dtype=policy, name="join")
        self.decoder = DilatedStack(hparams, causal=True, dtype=policy, name="decoder")
        self.output_map = None
        if hparams.block != "cascade":
            self.output_map = Convolution(width, 1, dtype=policy, name="output_map")
            self.output_norm = LayerNorm(EPSILON, dtype=policy, name="output_norm")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_ends()
        hidden = (None, None, self.hparams.hidden_size)
        self.encoder.build(hidden)
        self.join.build((None, None, 2 * self.hparams.hidden_size))
        self.decoder.build(hidden)
        if self.output_map is not None:
            self.output_map.build(hidden)
            self.output_norm.build(hidden)

    def body(self, features: dict[str, Any], seed=None):
        """Returns the decoder's output, (B, T, D); see the base class."""
        shifted_BT = ops.pad(features[TARGETS][:, :-1], ((0, 0), (1, 0)))
        columns_BTD = _resize_length(self._encode(features[INPUTS], seed), ops.shape(shifted_BT)[1])
        before_BTD = self.target_embedding.before(shifted_BT)
        x_BTD = self.join(ops.concatenate([columns_BTD, before_BTD], axis=-1))
        return self._finish(self.decoder(x_BTD, seed=seed))

    def _encode(self, inputs, seed=None):
        """Returns the representation of the source (B, U, D), zeros where it is longer than its own bound."""
        keep_BS = self.source_embedding.keep(inputs)
        x_BSD = self.source_embedding(inputs, seed=seed) * ops.cast(keep_BS, self.compute_dtype)[..., None]
        bound_B = self._bound(ops.sum(ops.cast(keep_BS, "int32"), axis=1))
        longest = self._bound(ops.cast(ops.shape(x_BSD)[1], "int32"))
        keep_BU = ops.arange(longest)[None, :] < bound_B[:, None]
        x_BUD = self.encoder(_resize_length(x_BSD, longest), keep_BU, seed=seed)
        return x_BUD * ops.cast(keep_BU, x_BUD.dtype)[..., None]

    def _bound(self, length):
        """Returns |t| = a |s| + b rounded up (section 3.2, equation 2), int32 of the shape of `length`."""
        stretched = ops.cast(length, "float32") * self.hparams.unfolding_factor
        # Less a little, so that 1.2 * 5 is 6 whatever the last bit of the product.
        return ops.cast(ops.ceil(stretched - 1e-3), "int32") + self.hparams.unfolding_offset

    def _finish(self, x):
        # After the blocks one more convolution and ReLU; the last convolution is the output layer (section 3.6).
        return x if self.output_map is None else ops.relu(self.output_norm(self.output_map(x)))

    def encode(self, features: dict[str, Any]):
        """Returns the representation of the source, (B, U, D)."""
        return self._encode(features[INPUTS])

    def init_cache(self, encoded: Any, rows: Any, length: Any, beams: int = 1) -> DecoderCache:
        """Returns what windows reach before the first position, zeros; see the base class."""
        return DecoderCache(self.join.empty(rows), self.decoder.empty(rows))

    def step(self, ids_N, position, cache: DecoderCache, prepared: DecodeContext):
        """Returns (N, D) and the unfolding with this position; see the base class."""
        column_BD = _column(prepared.encoded, position)
        column_ND = ops.repeat(column_BD, ops.shape(ids_N)[0] // ops.shape(column_BD)[0], axis=0)
        before_ND = self.target_embedding.before(ids_N)
        x_ND, join = self.join.step(ops.concatenate([column_ND, before_ND], axis=-1), cache.join)
        x_N1D, blocks = self.decoder.step(x_ND[:, None], cache.blocks)
        return self._finish(x_N1D)[:, 0], DecoderCache(join, blocks)


class DilatedStack(keras.layers.Layer):
    """Residual blocks and, since nothing normalises their sum, a norm."""

    def __init__(self, hparams: ByteNetHParams, causal: bool, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [
            _block(hparams, i, causal, dtype=self.dtype_policy, name=f"block_{i}")
            for i in range(hparams.num_hidden_layers)
        ]
        self.norm = LayerNorm(EPSILON, dtype=self.dtype_policy, name="norm")

    def build(self, input_shape):
        """Builds every block for (B, T, D)."""
        for layer in (*self.blocks, self.norm):
            layer.build(input_shape)

    def call(self, x_BTD, keep_BT=None, seed=None):
        """Returns (B, T, D); windows read zeros where `keep_BT` (B, T) bool is False."""
        for block in self.blocks:
            x_BTD = block(x_BTD, keep_BT, seed=seed)
        return self.norm(x_BTD)

    def empty(self, rows) -> tuple:
        """Returns of every block what its windows reach before the first position."""
        return tuple(block.empty(rows) for block in self.blocks)

    def step(self, x_N1D, pasts: tuple):
        """Returns one position (N, 1, D), and what the windows of the next reach."""
        after = []
        for block, past in zip(self.blocks, pasts, strict=True):
            x_N1D, cached = block.step(x_N1D, past)
            after.append(cached)
        return self.norm(x_N1D), tuple(after)


def _block(hparams: ByteNetHParams, i: int, causal: bool, **kwargs):
    width, size, dilations = hparams.hidden_size, hparams.kernel_size, hparams.dilations
    if hparams.block == "cascade":
        return cascade(width, size, dilations, causal, hparams.dropout, **kwargs)
    multiplicative, dilation = hparams.block == "multiplicative", dilations[i % len(dilations)]
    return bottleneck(width, size, dilation, causal, multiplicative, hparams.dropout, **kwargs)


def _resize_length(x_BUD, length):
    """Returns (B, length, D), cut or with zeros at the end."""
    batch, longest, width = ops.shape(x_BUD)
    missing_BXD = ops.zeros((batch, ops.maximum(length - longest, 0), width), x_BUD.dtype)
    return ops.concatenate([x_BUD, missing_BXD], axis=1)[:, :length]


def _column(x_BUD, position):
    """Returns (B, D) at a position, zeros beyond the last."""
    last = ops.shape(x_BUD)[1] - 1
    column_BD = ops.take(x_BUD, ops.minimum(position, last), axis=1)
    return column_BD * ops.cast(position <= last, column_BD.dtype)
