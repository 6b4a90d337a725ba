"""WaveNet without inputs, in long decoding, by hand, and in learning. Legend: D residual and K skip channels."""

import math

import numpy as np
import pytest

from t2t.hparams.wavenet import wavenet_tiny
from t2t.layers.wavenet import GatedBlock
from t2t.models.wavenet import WaveNet
from tests import learning
from tests.builders import batch, numpy, padded, rows, tokens_spec
from tests.unit.models.references import reference_of, tiny
from tests.unit.models.test_models_sizes import count, shapes


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
    full = numpy(model(features))
    encoded = model.encode(features)
    cache, last = model.init_cache(encoded, 3, None), np.zeros(3, np.int32)
    for position in range(20):
        logits, cache = model.decode_step(last, position, cache, encoded)
        np.testing.assert_allclose(numpy(logits), full[:, position], rtol=1e-4, atol=1e-5)
        last = features["targets"][:, position]


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
