"""The convolutional sequence-to-sequence model: its scales, by hand; gradients against its reference."""

import numpy as np
import pytest

from t2t.hparams.conv_s2s import conv_s2s, conv_s2s_tiny
from t2t.layers.multi_step_attention import MultiStepAttention
from t2t.layers.recurrent_attention import Memory
from t2t.models.conv_s2s import ConvS2s
from tests.builders import batch, numpy, tokens_spec
from tests.models import directional_derivatives, loss_of_reference
from tests.unit.models.references import UNTIED, reference_of, tiny


@pytest.mark.parametrize(
    ("attentions", "changes"),
    [
        (1, {"num_hidden_layers": 1}),
        pytest.param(2, {**UNTIED, "layer_channels": (6, 10), "kernel_sizes": (3, 5)}, marks=pytest.mark.slow),
    ],
)
def test_gradients_are_those_of_finite_differences_but_in_the_encoder_divided_by_the_attentions(attentions, changes):
    model = tiny("conv_s2s", label_smoothing=0.0, **changes)
    features = batch(sources=(5, 1, 7), targets=(4, 6, 2), widths=(9, 8))
    loss, checked = loss_of_reference(lambda weights: reference_of(model, weights), features), set()
    for path, found, expected in directional_derivatives(model, features, loss):
        part = path.partition("/")[0]
        if attentions > 1 and part in ("source_embedding", "source_positions"):  # through the encoder and next to it
            continue
        expected = expected / (attentions if part == "encoder" else 1)
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)
        checked.add(part)
    assert checked > {"encoder", "decoder", "target_embedding", "target_positions"}


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
    ids = batch(sources=(60,), targets=(60,))["inputs"]
    x_BSC = model.encoder.narrow(model.source_positions(model.source_embedding(ids) * 0.1))
    before = numpy(x_BSC).std()
    for layer in model.encoder.layers_:
        x_BSC = layer(x_BSC, ids != 0)
    assert 0.5 < numpy(x_BSC).std() / before < 2.0


def test_vectors_of_words_and_positions_begin_with_the_papers_deviation():
    model = ConvS2s(conv_s2s_tiny().replace(hidden_size=256), tokens_spec(500, 500))
    assert abs(numpy(model.source_embedding(np.arange(500)[None]) * 0.1).std() - 0.1) < 2e-3
    assert abs(numpy(model.target_positions.table).std() - 0.1) < 2e-3
    assert tiny("conv_s2s", max_length=16).longest_sequence == 16
