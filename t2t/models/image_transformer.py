"""The Image Transformer: Parmar et al. 2018 (arXiv:1802.05751), a decoder that generates one intensity after another.

Legend: B batch, P vectors of the inputs, T length of an image including its end, D width. In a decoding step: N rows of
one position each.
"""

from keras import ops

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.image_transformer import ImageTransformerHParams
from t2t.layers.cache import StepCache
from t2t.layers.dropout import Dropout
from t2t.layers.masks import mean_of_kept
from t2t.layers.modalities.selection import Modalities
from t2t.layers.modalities.video import PixelVideo
from t2t.layers.positions import Positions, sinusoids_at
from t2t.layers.tensors import Features
from t2t.models.base import EncoderDecoder
from t2t.models.transformer import Decoder
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


class ImagePositions(Positions):
    """Adds sinusoids of the row to the first half of the channels, and of the position in the row to the second.

    Parmar et al. 2018 (arXiv:1802.05751), section 3.1; D is a multiple of 4.
    """

    def __init__(self, width: int, columns: int, layout: str = "interleaved", **kwargs):
        super().__init__(**kwargs)
        self.width, self.columns, self.layout = width, columns, layout

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D) float32."""
        places = (position_T // self.columns, position_T % self.columns)
        halves = [sinusoids_at(place_T, self.width // 2, self.layout) for place_T in places]
        return ops.concatenate(halves, axis=-1)


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
        self.decoder = Decoder(hparams, has_source=False, dtype=policy, name="decoder")
        self.build()

    def _modalities_of(self, spec: ProblemSpec, hparams: HParams) -> Modalities:
        """Returns the modalities; clips are read as one vector for each pixel of the generated image."""
        is_clip = spec.inputs is not None and spec.inputs.kind == FeatureKind.VIDEO
        if is_clip and not hparams.input_modality:
            hparams = hparams.replace(input_modality="pixel_video")
        modalities = super()._modalities_of(spec, hparams)
        if is_clip and not isinstance(modalities.source, PixelVideo):
            raise UserError(
                "model ImageTransformer reads clips as a vector for each pixel",
                "leave it empty, or name pixel_video",
                hparam="input_modality",
                value=hparams.input_modality,
            )
        return modalities

    def encode(self, features: Features, seed=None):
        """Returns a vector for each pixel of a clip, (B, P, D); None without inputs.

        For tokens, such as a class, it is one vector for all pixels, the mean of their embeddings, (B, 1, D).
        """
        if self.source_embedding is None:
            return None
        inputs = features[INPUTS]
        x_BPD = self.source_embedding(inputs, seed=seed)
        if isinstance(self.source_embedding, PixelVideo):
            return x_BPD
        return mean_of_kept(x_BPD, self.source_embedding.keep(inputs))[:, None]

    def decode(self, ids, encoded, keep_BT=None, cache: StepCache | None = None, seed=None):
        """Returns the decoder's output after `ids`; the vector of a class is added to every position (section 3.1).

        The vectors of a clip are added at the positions of their pixels, that of the last one also at the image's end.
        """
        x = self.target_embedding.before(ids, seed=seed)
        x = x if self.positions is None else self.positions(x, cache=cache)
        if encoded is not None:
            by_image = x if cache is None else cache.by_sentence(x, ops.shape(encoded)[0])
            position = ops.arange(ops.shape(x)[1]) if cache is None else ops.reshape(cache.position, (1,))
            vectors = ops.take(encoded, self._pixel(position, ops.shape(encoded)[1]), axis=1)
            x = ops.reshape(by_image + vectors, ops.shape(x))
        return self.decoder(self.dropout(x, seed=seed), None, keep_BT, cache=cache, seed=seed)

    def _pixel(self, position_T, count):
        """Returns the index, among `count` input vectors, of each position's pixel, (T,) int32."""
        channels = self.spec.inputs.shape[-1] if self.spec.inputs.shape else 1
        return ops.minimum(ops.cast(position_T, "int32") // channels, count - 1)
