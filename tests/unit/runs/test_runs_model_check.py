"""`t2t.check_model`: what holds of a model that the commands can use, and the breaks that it finds."""

import keras
import numpy as np
import pytest
from keras import ops

import t2t
from t2t.layers.positions import SinusoidalPositions
from t2t.registry import HPARAMS, MODELS
from t2t.specs.features import FeatureKind
from tests.builders import tiny_hparams
from tests.errors import refused
from tests.registrations import registered


class Bag(t2t.EncoderDecoder):
    """A bag of words, of which each subclass breaks one thing."""

    hparams_class = t2t.HParams
    accepts_inputs = (FeatureKind.TOKENS,)

    def __init__(self, hparams, spec, dtype="float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.positions = SinusoidalPositions(hparams.hidden_size, dtype=self.dtype_policy, name="positions")
        self.mix = self.new_layer()
        self.build()

    def new_layer(self):
        return keras.layers.Dense(self.hparams.hidden_size, dtype=self.dtype_policy, name="mix")

    def build(self, input_shape=None):
        self.build_modality_weights()
        self.mix.build((None, None, self.hparams.hidden_size))

    def encode(self, features, seed=None):
        keep_BS1 = ops.cast(self.source_embedding.keep(features["inputs"]), "float32")[..., None]
        return ops.sum(self.source_embedding(features["inputs"]) * keep_BS1, axis=1)

    def decode(self, ids, encoded, keep_BT=None, cache=None, seed=None):
        x = self.positions(self.target_embedding.before(ids), cache=cache)
        x_BTD = x if cache is None else cache.by_sentence(x, ops.shape(encoded)[0])
        return ops.reshape(self.mix(x_BTD + encoded[:, None]), ops.shape(x))


class BuiltLate(Bag):
    def build(self, input_shape=None):
        self.build_modality_weights()


class WithoutName(Bag):
    def new_layer(self):
        return keras.layers.Dense(self.hparams.hidden_size)


class Untracked(Bag):
    def new_layer(self):
        layer = super().new_layer()
        layer.build((None, None, self.hparams.hidden_size))
        function = lambda x: layer(x)  # noqa: E731
        function.build = lambda shape: None
        return function


class Drawn(Bag):
    def new_layer(self):
        self.shift = np.random.default_rng().normal(size=self.hparams.hidden_size).astype("float32")
        return super().new_layer()

    def decode(self, ids, encoded, **options):
        return super().decode(ids, encoded, **options) + self.shift


class Random(Bag):
    def decode(self, ids, encoded, seed=None, **options):
        hidden = super().decode(ids, encoded, **options)
        return hidden if seed is not None else hidden + keras.random.normal(ops.shape(hidden))


class RandomInTraining(Bag):
    def decode(self, ids, encoded, seed=None, **options):
        hidden = super().decode(ids, encoded, **options)
        return hidden if seed is None else hidden + keras.random.normal(ops.shape(hidden))


class ReadsPadding(Bag):
    def encode(self, features, seed=None):
        return ops.sum(self.source_embedding(features["inputs"]) + 1.0, axis=1)


class ReadsOtherRows(Bag):
    def encode(self, features, seed=None):
        encoded_BD = super().encode(features)
        return encoded_BD - ops.mean(encoded_BD, axis=0)


class ReadsLaterTargets(Bag):
    def decode(self, ids, encoded, cache=None, **options):
        hidden = super().decode(ids, encoded, cache=cache, **options)
        later = 0.0 if cache is not None else ops.cast(ids[:, -1:, None], "float32")
        return hidden + later


class DecodesOtherwise(Bag):
    def decode(self, ids, encoded, cache=None, **options):
        hidden = super().decode(ids, encoded, cache=cache, **options)
        return hidden if cache is None else 2.0 * hidden


class KeepsBeamsInPlace(MODELS.get("transformer_lm")):
    accepts_inputs = (None,)

    def reorder_cache(self, cache, beams):
        return cache


class ReadsTargets(Bag):
    autoregressive = False

    def body(self, features, seed=None):
        read = features.get("targets", features["inputs"])
        width = ops.shape(read)[1]
        hidden_BTD = ops.repeat(self.encode(features)[:, None], width, axis=1)
        return self.mix(hidden_BTD + ops.cast(read, "float32")[..., None])


def check(model_class, hparams):
    with registered(MODELS, "of_a_test", model_class), registered(HPARAMS, "set_of_a_test", lambda: hparams):
        t2t.check_model("of_a_test", "set_of_a_test", hparams="hidden_size=8")


SMALL = t2t.HParams(max_length=32)


def test_a_model_that_the_commands_can_use_is_accepted():
    check(Bag, SMALL)


@pytest.mark.parametrize(
    ("model_class", "about"),
    [
        (BuiltLate, ["mix/kernel"]), (WithoutName, ["tokens"]), (Untracked, ["mix/bias,"]), (Drawn, ["tokens"]),
        (Random, ["without"]),
        (RandomInTraining, ["same"]), (ReadsPadding, ["padding"]), (ReadsOtherRows, ["batch"]),
        (ReadsLaterTargets, ["position", "span=CAUSAL"]), (DecodesOtherwise, ["position", "0"]),
        (ReadsTargets, ["targets"]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)  # fmt: skip
def test_what_a_model_breaks_is_named(model_class, about):
    with refused(model_class.__name__, *about):
        check(model_class, SMALL)


def test_beams_that_do_not_take_their_cache_along_are_found():
    with refused("KeepsBeamsInPlace", "position", 3):
        check(KeepsBeamsInPlace, tiny_hparams(num_hidden_layers=1))


def test_a_set_of_another_family_is_refused():
    with refused("transformer", "HParams"):
        t2t.check_model("transformer", "lstm_seq2seq")
