"""Recurrent ByteNets against ones in numpy (tests/reference/byte_net.py), and in decoding."""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.recurrent_byte_net import (
    RecurrentByteNetHParams,
    recurrent_byte_net_convolutional,
    recurrent_byte_net_tiny,
)
from t2t.models.recurrent_byte_net import RecurrentByteNet
from tests.builders import batch, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.byte_net import RecurrentByteNet as Reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
ENCODERS = ("convolutional", "forward", "reversed", "bidirectional")
"""Kinds of encoders: convolutional blocks, or recurrent layers in some direction."""


def tiny(encoder, dtype="float32", **changes):
    """A model of two layers or blocks that read and two layers that write, 8 units each, its weights random."""
    if encoder != "convolutional":
        changes = {"encoder_direction": encoder, **changes}
        encoder = "recurrent"
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_decoder_layers": 2, "dilations": (1, 3), "dropout": 0.0}
    hparams = RecurrentByteNetHParams(encoder=encoder, unfolding_offset=1, **(sizes | changes))
    return randomise(RecurrentByteNet(hparams, tokens_spec(), dtype=dtype))


def reference_of(encoder, weights):
    return Reference(weights, 2, "relu", (1, 3), 1.2, 1, 2, None if encoder == "convolutional" else encoder)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(encoder):
    model = tiny(encoder)
    check_logits(model, reference_of(encoder, weights_of(model)), SOURCES, TARGETS, 11)


@pytest.mark.exhaustive
@pytest.mark.parametrize("encoder", ["convolutional", "bidirectional"])
def test_gradients_are_those_of_finite_differences_of_the_independent_model(encoder):
    model = tiny(encoder, label_smoothing=0.0)
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: reference_of(encoder, weights), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


@pytest.mark.parametrize(
    ("encoder", "cell", "dtype"),
    [
        ("convolutional", "lstm", "float32"),
        ("bidirectional", "lstm", "float32"),
        ("bidirectional", "gru", "float32"),
        ("bidirectional", "lstm", "mixed_bfloat16"),
    ],
)
def test_steps_of_several_beams_are_teacher_forcing(encoder, cell, dtype):
    """Of targets of 6 words, which are longer than what the source of one word unfolds to."""
    check_steps_of_beams(tiny(encoder, dtype, cell=cell), dtype, SOURCES, length=6)


@pytest.mark.parametrize("encoder", ["convolutional", "bidirectional"])
def test_dropout_is_a_function_of_its_seed(encoder):
    check_dropout_follows_its_seed(tiny(encoder, dropout=0.5))


def test_paths_of_weights_are_a_format_and_stay():
    cell = ("input_kernel", "recurrent_kernel", "bias")
    assert sorted(weights_of(tiny("bidirectional"))) == sorted([
        "target_embedding/table",
        *(f"encoder/layer_{i}_{way}/cell/{name}" for i in (0, 1) for way in ("forward", "backward") for name in cell),
        *(f"decoder/stack/cell_{i}/{name}" for i in (0, 1) for name in cell),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("hparams", "text"),
    [
        (
            recurrent_byte_net_tiny().replace(hidden_size=7),
            "hparam hidden_size=7 is odd; a bidirectional encoder has half in each direction",
        ),
        (
            recurrent_byte_net_convolutional().replace(hidden_size=7),
            "hparam hidden_size=7 is odd; block=relu has half inside",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(hparams, text):
    with pytest.raises(UserError) as caught:
        hparams.freeze()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("hparams", "text"),
    [
        (recurrent_byte_net_tiny().replace(block="cascade"), "hparam block='cascade': .*encoder=convolutional"),
        (recurrent_byte_net_tiny().replace(kernel_size=5), "hparam kernel_size=5: .*encoder=convolutional"),
        (recurrent_byte_net_tiny().replace(dilations=(1, 2)), r"hparam dilations=.*encoder=convolutional"),
        (
            recurrent_byte_net_convolutional().replace(encoder_direction="forward"),
            "hparam encoder_direction='forward': .*encoder=recurrent",
        ),
    ],
)
def test_hparams_of_the_other_kind_of_encoder_are_refused(hparams, text):
    with pytest.raises(UserError, match=text):
        hparams.freeze()


def test_another_kind_of_encoder_leaves_none_of_the_hparams_of_the_first():
    hparams = recurrent_byte_net_tiny().override("encoder=convolutional,kernel_size=5")
    assert (hparams.freeze().kernel_size, hparams.encoder_direction) == (5, RecurrentByteNetHParams().encoder_direction)
