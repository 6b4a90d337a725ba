"""What only convolutional models have: ByteNet, ConvS2S, WaveNet.

Legend: B batch, S source length, D width or residual channels, K skip channels.
"""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.models.classics.conv_s2s import (
    ConvS2s,
    GatedConvolution,
    conv_s2s,
    conv_s2s_tiny,
    linear,
    with_scaled_gradient,
)
from t2t.models.classics.wavenet import GatedBlock, WaveNet, wavenet_tiny
from tests import learning
from tests.builders import batch, numpy, padded, rows, tokens_spec
from tests.models import directional_derivatives, loss_of_reference, stepwise
from tests.unit.models.references import UNTIED, reference_of, tiny
from tests.unit.models.test_models_sizes import count, shapes


# === ByteNet: long targets, size ===
def test_a_target_may_be_longer_than_what_it_unfolds_over():
    model = tiny("byte_net", unfolding_factor=1.0, unfolding_offset=0)
    features = {"inputs": padded([[4, 1]]), "targets": padded([[5, 6, 7, 8, 9, 1]])}
    steps = stepwise(model, features, features["targets"], 6)
    np.testing.assert_allclose(steps, numpy(model(features)), rtol=1e-4, atol=1e-5)


def test_parameters_of_a_cascade_by_hand():
    """Of 2d = 8 channels, with windows of 3. Those of other blocks are counted in whole sets."""
    block = tiny("byte_net", block="cascade").decoder.blocks[0]
    assert sum(np.size(v) for v in block.variables) == 2 * (3 * 8 * 8 + 16) + 16


# === ConvS2S: gradients against its reference, initial weights ===
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


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_maps_and_gates_keep_the_variance_of_what_they_are_given(dropout):
    """Of unit variance after dropout has multiplied it by 1 / p; a gate near 1/2 leaves a quarter of 4."""
    x = np.random.default_rng(0).normal(size=(4, 50, 256)) / (1.0 - dropout) ** 0.5
    plain = linear(512, 256, dropout)
    plain.build((None, None, 256))
    assert abs(numpy(plain(x.astype(np.float32))).std() - 1.0) < 0.02
    layer = GatedConvolution(512, 256, 3, causal=True, dropout=dropout)
    layer.build((None, None, 256))
    np.testing.assert_allclose(numpy(layer.convolution.length), (4 * (1 - dropout)) ** 0.5, rtol=1e-6)
    assert abs(numpy(layer.convolution.kernel).std() - (4 * (1 - dropout) / 768) ** 0.5) < 2e-3
    small = numpy(layer(1e-3 * x.astype(np.float32)))[:, 2:]  # gates of small sums are 1/2
    assert abs(small.std() / 1e-3 - 1.0) < 0.02


def test_a_scaled_gradient_is_that_of_the_same_value():
    x = tf.constant([1.0, -2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = with_scaled_gradient(x, 0.25)
        loss = tf.reduce_sum(y * y)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_allclose(tape.gradient(loss, x), [0.5, -1.0])


# === WaveNet without inputs, in long decoding, by hand, and in learning ===
def test_logits_without_inputs_with_tables_of_their_own_and_other_widths():
    own = {"kernel_size": 3, "skip_channels": 5, "shared_embedding_and_softmax_weights": False}
    model = tiny("wavenet", tokens_spec(inputs=0), **own)
    (target,) = rows(np.random.default_rng(1), (9,))
    np.testing.assert_allclose(
        numpy(model({"targets": padded([target])}))[0], reference_of(model).logits(None, target), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("inputs", [0, 13])
def test_steps_are_the_whole_pass_long_after_the_first_window_is_full(inputs):
    """Windows reach 1 + 1 + 3 + 1 = 6 positions back; 20 are decoded."""
    model = tiny("wavenet", tokens_spec(inputs=inputs, targets=13, shared=False))
    features = batch(sources=(5, 1, 7), targets=(20, 20, 20))
    features = features if inputs else {"targets": features["targets"]}
    steps = stepwise(model, features, features["targets"])
    np.testing.assert_allclose(steps, numpy(model(features)), rtol=1e-4, atol=1e-5)


def test_a_gated_block_by_hand():
    """One channel, x = (1, 2), a window of two: contents (3, 8), gates (1, 2), each with its condition."""
    block = GatedBlock(1, 1, 2, 1, name="block")
    block.build((None, None, 1))
    block.window.kernel.assign([[[2.0, 0.0]], [[3.0, 1.0]]])
    block.skip.kernel.assign([[[10.0]]])
    block.skip.bias.assign([0.5])
    block.residual.kernel.assign([[[-1.0]]])
    condition = np.array([[[0.1, -0.2]]], np.float32)
    following, skip = block(np.array([[[1.0], [2.0]]], np.float32), condition)
    z = [math.tanh(content + 0.1) / (1 + math.exp(-(gate - 0.2))) for content, gate in ((3, 1), (8, 2))]
    np.testing.assert_allclose(numpy(skip).ravel(), [10 * z[0] + 0.5, 10 * z[1] + 0.5], rtol=1e-6)
    np.testing.assert_allclose(numpy(following).ravel(), [1 - z[0], 2 - z[1]], rtol=1e-6)


@pytest.mark.slow
def test_learns_which_sound_is_which_class():
    """Square waves of a class each, half periods of 2 and of 3 samples, and their lengths; greedy decoding."""

    def sounds(rng, count, task):
        classes = rng.integers(2, 4, count)
        waves = [[*(4 + np.arange(8 + 3 * c) // c % 2).tolist(), 1] for c in classes]
        return {"inputs": padded([[int(c), 1] for c in classes]), "targets": padded(waves, 18)}

    hparams = wavenet_tiny().replace(num_hidden_layers=5, dilations=(1, 2, 4, 8, 16), learning_rate_warmup_steps=20)
    model = learning.trained(WaveNet, hparams, "sounds", steps=150, pairs=sounds)
    unseen = sounds(np.random.default_rng(2), 20, "sounds")
    np.testing.assert_array_equal(learning.greedy(model, unseen["inputs"], 18), unseen["targets"])


@pytest.mark.parametrize(("name", "D", "K", "layers"), [("wavenet", 128, 256, 50), ("wavenet_tiny", 32, 128, 20)])
def test_parameters_of_the_blocks_by_hand(name, D, K, layers):
    """A block: a window of 2 from D to 2 D, a map to D in all but the last, a map to K, and biases."""
    found = shapes("wavenet", name, tokens_spec(100, 259, shared=False))
    assert count(found, "block_") == layers * (2 * D * 2 * D + 2 * D + D * K + K) + (layers - 1) * (D * D + D)
    assert count(found, "output_map", "output_embedding") == K * K + K + 259 * K
    assert count(found, "condition") == D * 2 * D * layers
