"""The smallest sequence model that the commands can train and decode; it ignores the order of the source words.

Legend: B batch, S source length, T target length, D width, N rows decoded together (B times beams).
"""

from dataclasses import dataclass

from t2t import HParams, register_hparams


@dataclass(kw_only=True)
class BagHParams(HParams):
    """Only the fields that every model has."""


@register_hparams
def my_bag_tiny():
    """A bag of words of width 64."""
    return BagHParams(hidden_size=64, batch_size=1024, train_steps=200)


# === The network: it is imported, with Keras, when it is built ===
import keras
from keras import ops

from t2t import EncoderDecoder, register_model
from t2t.layers.positions import SinusoidalPositions
from t2t.specs.features import FeatureKind


@register_model
class MyBagOfWords(EncoderDecoder):
    """Predicts each word from the mean of the source, the word before it and its position."""

    hparams_class = BagHParams
    accepts_inputs = (FeatureKind.TOKENS,)

    def __init__(self, hparams, spec, dtype="float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        width = hparams.hidden_size
        self.positions = SinusoidalPositions(width, dtype=self.dtype_policy, name="positions")
        self.mix = keras.layers.Dense(width, activation="relu", dtype=self.dtype_policy, name="mix")
        self.build()

    def encode(self, features, seed=None):
        """Returns (B, D): the mean of the source's vectors."""
        keep_BS = ops.cast(self.source_embedding.keep(features["inputs"]), self.compute_dtype)
        total_BD = ops.einsum("bsd,bs->bd", self.source_embedding(features["inputs"]), keep_BS)
        return total_BD / ops.maximum(ops.sum(keep_BS, axis=1, keepdims=True), 1.0)

    def decode(self, ids, encoded, keep_BT=None, cache=None, seed=None):
        """Returns (B, T, D), or with a cache (N, D) of one position."""
        x = self.positions(self.target_embedding.before(ids), cache=cache)
        x_BTD = x if cache is None else cache.by_sentence(x, ops.shape(encoded)[0])
        return ops.reshape(self.mix(x_BTD + encoded[:, None]), ops.shape(x))
