"""The convolutional sequence-to-sequence model against one in numpy (tests/reference/conv_s2s.py), and in decoding.

Legend: B batch, S source length, T target length, N rows decoded together.
"""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.conv_s2s import ConvS2sHParams, conv_s2s, conv_s2s_tiny, conv_s2s_wmt_ende, conv_s2s_wmt_enfr
from t2t.layers.multi_step_attention import MultiStepAttention
from t2t.layers.recurrent_attention import Memory
from t2t.models.conv_s2s import ConvS2s
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.conv_s2s import ConvS2s as Reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
WIDER = {"layer_channels": (6, 10), "kernel_sizes": (3, 5)}
UNTIED = {"shared_embedding": False, "shared_embedding_and_softmax_weights": False}


def tiny(dtype="float32", **changes):
    """A model of two layers of 8 channels without dropout, its weights random."""
    changes = {"hidden_size": 8, "num_hidden_layers": 2, "max_length": 16, "dropout": 0.0, **changes}
    return randomise(ConvS2s(ConvS2sHParams(**changes), tokens_spec(), dtype=dtype))


@pytest.mark.parametrize("layers", [{}, WIDER], ids=["alike", "widening"])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_an_independent_model_whatever_the_padding(tied, layers):
    model = tiny(**layers, **({} if tied else UNTIED))
    reference = Reference(weights_of(model), 2, tied)
    check_logits(model, reference, SOURCES, TARGETS, 9, atol=2e-5)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_but_in_the_encoder_divided_by_the_attentions():
    model = tiny(label_smoothing=0.0, **UNTIED, **WIDER)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    reference = loss_of_reference(lambda weights: Reference(weights, 2, tied=False), features)
    checked = set()
    for path, found, expected in directional_derivatives(model, features, reference):
        part = path.partition("/")[0]
        if part in ("source_embedding", "source_positions"):  # through the encoder and next to it
            continue
        np.testing.assert_allclose(
            found, expected / (2 if part == "encoder" else 1), rtol=2e-3, atol=1e-3, err_msg=path
        )
        checked.add(part)
    assert checked == {"encoder", "decoder", "target_embedding", "output_embedding", "target_positions"}


def test_gradients_of_one_layer_are_those_of_finite_differences_everywhere():
    model = tiny(label_smoothing=0.0, num_hidden_layers=1)
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    reference = loss_of_reference(lambda weights: Reference(weights, 1, tied=True), features)
    for path, found, expected in directional_derivatives(model, features, reference):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_of_several_beams_are_teacher_forcing(dtype):
    check_steps_of_beams(tiny(dtype, **WIDER), dtype)


def test_contexts_grow_with_the_root_of_the_sentence_by_hand():
    """Keys all alike: a_ij = 1/m. Values 6 and 2: c = sqrt(2) * 4. Of three kept ones 6, 2, 4: sqrt(3) * 4."""
    layer = MultiStepAttention(1, 1)
    layer.build((None, None, 1))
    for part in (layer.query, layer.context):
        part.kernel.assign([[[1.0]]])
        part.length.assign([1.0])
    values = np.array([[6.0, 2.0, 4.0]], np.float32)[..., None]
    for words, expected in ((2, np.sqrt(2) * 4), (3, np.sqrt(3) * 4)):
        memory = Memory(np.ones((1, 3, 1), np.float32), values, np.arange(3)[None] < words)
        found = layer(np.zeros((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32), memory)
        np.testing.assert_allclose(numpy(found).item(), expected * 0.5**0.5, rtol=1e-6)


def test_hidden_states_keep_about_their_variance_through_twenty_layers():
    model = ConvS2s(conv_s2s().replace(hidden_size=64, dropout=0.0), tokens_spec())
    features = batch(sources=(60,), targets=(60,))
    x_BSD = model.source_positions(model.source_embedding(features["inputs"]) * 0.1)
    before = numpy(model.encoder.narrow(x_BSD)).std()
    x_BSC, keep = model.encoder.narrow(x_BSD), features["inputs"] != 0
    for layer in model.encoder.layers_:
        x_BSC = layer(x_BSC, keep)
    assert 0.5 < numpy(x_BSC).std() / before < 2.0


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))


def test_vectors_of_words_and_positions_begin_with_the_papers_deviation():
    model = ConvS2s(conv_s2s_tiny().replace(hidden_size=256), tokens_spec(500, 500))
    assert abs(numpy(model.source_embedding(np.arange(500)[None]) * 0.1).std() - 0.1) < 2e-3
    assert abs(numpy(model.target_positions.table).std() - 0.1) < 2e-3


def test_the_published_layers():
    ende, enfr = conv_s2s_wmt_ende().freeze().layers(), conv_s2s_wmt_enfr().freeze().layers()
    assert ende == [(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2
    assert enfr == [(512, 3)] * 5 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1), (4096, 1)]
    assert 1 + sum(size - 1 for _, size in enfr) == 25  # the words that an output sees, section 5.1
    assert conv_s2s().freeze().layers() == [(512, 3)] * 20


def test_longest_sequence_is_that_of_the_positions():
    assert tiny().longest_sequence == 16


def test_paths_of_weights_are_a_format_and_stay():
    names = ("kernel", "length", "bias")
    model = tiny(num_hidden_layers=1, layer_channels=(6,))
    side = ("narrow", "layer_0/gated/convolution", "wide")
    assert sorted(weights_of(model)) == sorted([
        "target_embedding/table", "source_positions/table", "target_positions/table",
        *(f"{stack}/{part}/{name}" for stack in ("encoder", "decoder") for part in side for name in names),
        *(f"decoder/attention_0/{part}/{name}" for part in ("query", "context") for name in names),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kernel_sizes": (3, 4)}, "hparam kernel_sizes holds 4; a window has an odd number of positions, 1 or more"),
        ({"kernel_sizes": ()}, "hparam kernel_sizes has 0 numbers for 2 layers; give 1 or more, and no more than num_"),
        ({"layer_channels": (1, 2, 3)}, "hparam layer_channels has 3 numbers for 2 layers; give 1 or more, and no"),
        ({"layer_channels": (-1,)}, r"hparam layer_channels=\(-1,\): channels are at least 1, or 0 for hidden_size"),
    ],
)
def test_layers_that_cannot_be_are_refused(changes, text):
    with pytest.raises(UserError, match=text):
        conv_s2s_tiny().replace(**changes).freeze()
