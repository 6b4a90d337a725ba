"""The Evolved Transformer against one in numpy (tests/reference/evolved_transformer.py), its sizes, and in decoding.

Legend: D width.
"""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.evolved_transformer import (
    EvolvedTransformerHParams,
    evolved_transformer_base,
    evolved_transformer_big,
    evolved_transformer_tiny,
)
from t2t.inference.ctranslate2.conversion import model_complaints
from t2t.models.evolved_transformer import EvolvedTransformer
from tests.builders import batch, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.evolved_transformer import EvolvedTransformer as Reference
from tests.reference.transformer import Architecture

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
NORMS = ("pre", "post")


def tiny(norm="pre", dtype="float32", **changes):
    """A model of 8 channels without dropout, its weights random."""
    sizes = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 2, "num_decoder_layers": 1}
    common = {**sizes, "max_length": 32, "layer_prepostprocess_dropout": 0.0, "norm_position": norm}
    return randomise(EvolvedTransformer(EvolvedTransformerHParams(**{**common, **changes}), tokens_spec(), dtype=dtype))


def reference_of(norm, weights):
    return Reference(weights, Architecture(heads=2, encoder_layers=2, decoder_layers=1, norm=norm), wide_heads=4)


@pytest.mark.parametrize("norm", NORMS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(norm):
    model = tiny(norm)
    check_logits(model, reference_of(norm, weights_of(model)), SOURCES, TARGETS, 11)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    model = tiny(label_smoothing=0.0)
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: reference_of("pre", weights), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


def test_steps_of_several_beams_are_teacher_forcing():
    check_steps_of_beams(tiny(), "float32")


def test_steps_are_teacher_forcing_in_half_precision():
    check_steps_of_beams(tiny(dtype="mixed_bfloat16"), "mixed_bfloat16")


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(layer_prepostprocess_dropout=0.5))


def test_ctranslate2_is_refused():
    (text,) = model_complaints(tiny())
    assert text.startswith("it is a EvolvedTransformer, its inputs are tokens, its targets tokens; a Transformer from")


def test_published_sizes():
    base, big, small = (
        made().freeze() for made in (evolved_transformer_base, evolved_transformer_big, evolved_transformer_tiny)
    )
    assert (base.encoder_layers, base.decoder_layers, base.num_heads, base.wide_heads) == (3, 4, 8, 16)
    assert (big.hidden_size, big.num_heads, big.wide_heads) == (1024, 16, 16)
    assert (small.num_heads, small.wide_heads) == (4, 8)


def test_biases_of_heads_are_refused():
    hparams = evolved_transformer_tiny().replace(positions="relative_bias")
    with pytest.raises(
        UserError, match="relative_bias: the decoder's first self-attention has 8 heads and the others 4"
    ):
        hparams.freeze()


def test_the_rate_falls_along_a_cosine_from_that_of_the_transformer():
    """Tensor2Tensor: constant 2 / warm-up^1/2, times D^-1/2, for 512 channels and 8,000 updates of warm-up."""
    base = evolved_transformer_base().freeze()
    assert base.learning_rate_schedule == "cosine"
    assert base.learning_rate == pytest.approx(2.0 / (512**0.5 * 8000**0.5))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"num_heads": 12, "hidden_size": 120},
            "num_heads=12: the decoder's first self-attention has 16 heads, which do",
        ),
        (
            {"num_heads": 12, "hidden_size": 96, "num_kv_heads": 3},
            "hparam num_kv_heads=3: the decoder's first self-attention has 16 heads, which it does not divide",
        ),
        (
            {"decoder_layer": "ssru"},
            "hparam decoder_layer=ssru: an Evolved Transformer has self-attention; leave it out",
        ),
        (
            {"filter_size": 32},
            "hparam filter_size=32: the encoder's left branch is its wider one, and the right one has",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(changes, text):
    with pytest.raises(UserError, match=text):
        evolved_transformer_tiny().replace(**changes).freeze()
