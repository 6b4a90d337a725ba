"""The Image Transformer: Parmar et al. 2018 (arXiv:1802.05751), a decoder that writes intensities one after the other.

Clips are read by an encoder, as the paper reads small images of which it writes larger ones.

Legend: B batch, S vectors of the inputs, T length of an image and its end, D width. In a step of
decoding: N rows of one position each.
"""

from typing import Any

from keras import ops

from t2t.hparams.image_transformer import ImageTransformerHParams
from t2t.layers.cache import StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.pooling import mean_of_kept
from t2t.layers.positions import ImagePositions
from t2t.layers.residual import build_all
from t2t.models.encoder_decoder import EncoderDecoder
from t2t.models.transformer import Decoder, Encoder
from t2t.registry import register_model
from t2t.specs.constants import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


@register_model
class ImageTransformer(EncoderDecoder):
    """The Image Transformer: writes images intensity by intensity, with local self-attention."""

    hparams_class = ImageTransformerHParams
    accepts_inputs = (FeatureKind.TOKENS, FeatureKind.VIDEO, None)

    def __init__(self, hparams: ImageTransformerHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        policy = self.dtype_policy
        vectors = (hparams.hidden_size, hparams.row_positions, hparams.sinusoid_layout)
        added = hparams.positions == "sinusoidal"
        self.positions = ImagePositions(*vectors, dtype=policy, name="positions") if added else None
        self.dropout = Dropout(hparams.layer_prepostprocess_dropout, dtype=policy, name="target_dropout")
        reads_clips = any(one.inputs and one.inputs.kind == FeatureKind.VIDEO for one in spec.members or (spec,))
        self.encoder = Encoder(hparams, dtype=policy, name="encoder") if reads_clips else None
        self.source_dropout = Dropout(hparams.layer_prepostprocess_dropout, dtype=policy, name="source_dropout")
        self.decoder = Decoder(hparams, has_source=reads_clips, dtype=policy, name="decoder")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_ends()
        parts = (self.positions, self.encoder, self.source_dropout, self.decoder, self.dropout)
        build_all(parts, (None, None, self.hparams.hidden_size))

    def encode(self, features: dict[str, Any], seed=None):
        """Returns what the decoder knows of the inputs; None where there are none.

        Of a class it is the mean of the vectors of its words, (B, D); of a clip a `Source`.
        """
        if self.source_embedding is None:
            return None
        inputs = features[INPUTS]
        x_BSD, keep_BS = self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs)
        if self.encoder is None:
            return mean_of_kept(x_BSD, keep_BS)
        x_BSD = self.encoder(self.source_dropout(x_BSD, seed=seed), keep_BS, seed=seed)
        return self.decoder.read_source(x_BSD, keep_BS)

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`, which attends to a clip; a class is added to every position."""
        x = self.target_embedding.before(ids, seed=seed)
        x = x if self.positions is None else self.positions(x, cache=cache)
        is_class = encoded is not None and self.encoder is None
        if is_class:  # section 3.1
            by_image = x if cache is None else cache.by_sentence(x, ops.shape(encoded)[0])
            x = ops.reshape(by_image + encoded[:, None], ops.shape(x))
        return self.decoder(self.dropout(x, seed=seed), None if is_class else encoded, keep_BT, cache=cache, seed=seed)
