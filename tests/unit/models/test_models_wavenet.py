"""WaveNet against one in numpy (tests/reference/wavenet.py), its receptive field, and in decoding.

Legend: B batch, S source length, T target length, D residual channels, N rows decoded together.
"""

import math

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.wavenet import WaveNetHParams, wavenet_tiny
from t2t.layers.wavenet import GatedBlock
from t2t.models.wavenet import WaveNet
from tests import learning
from tests.builders import batch, numpy, padded, randomise, rows, tokens_spec, weights_of
from tests.models import check_logits, check_steps_of_beams, directional_derivatives, loss_of_reference
from tests.reference.wavenet import WaveNet as Reference
from tests.unit.models.test_models_sizes import count, shapes

SOURCES, TARGETS = (5, 1, 7), (4, 8, 2)
LAYERS, DILATIONS = 3, (1, 3)


def tiny(dtype="float32", spec=None, **changes):
    """A model of three blocks of 8 channels, its weights random."""
    changes = {"hidden_size": 8, "num_hidden_layers": LAYERS, "dilations": DILATIONS, **changes}
    return randomise(WaveNet(WaveNetHParams(**changes), spec or tokens_spec(), dtype=dtype))


def test_logits_are_those_of_an_independent_model_whatever_the_padding():
    model = tiny()
    check_logits(model, Reference(weights_of(model), LAYERS, DILATIONS), SOURCES, TARGETS, 11)


def test_logits_without_inputs_with_tables_of_their_own_and_other_widths():
    model = tiny(spec=tokens_spec(inputs=0), kernel_size=3, skip_channels=5, shared_embedding_and_softmax_weights=False)
    reference = Reference(weights_of(model), LAYERS, DILATIONS)
    (target,) = rows(np.random.default_rng(1), (9,))
    np.testing.assert_allclose(
        numpy(model({"targets": padded([target])}))[0], reference.logits(None, target), rtol=1e-3, atol=1e-4
    )


@pytest.mark.exhaustive
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    model = tiny(label_smoothing=0.0)
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: Reference(weights, LAYERS, DILATIONS), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.exhaustive
def test_steps_of_several_beams_are_teacher_forcing(dtype):
    check_steps_of_beams(tiny(dtype), dtype)


@pytest.mark.parametrize("inputs", [0, 13])
def test_steps_are_the_whole_pass_long_after_the_first_window_is_full(inputs):
    """Windows reach 1 + 1 + 3 + 1 = 6 positions back; 20 are decoded."""
    model = tiny(spec=tokens_spec(inputs=inputs, targets=13, shared=False))
    features = batch(sources=SOURCES, targets=(20, 20, 20))
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


def test_a_position_sees_as_far_as_the_dilations_reach_and_no_farther():
    """Windows of 2: the first and dilations 1, 2 and 4 reach 1 + 1 + 2 + 4 = 8 positions back."""
    model = tiny(dilations=(1, 2, 4), spec=tokens_spec(inputs=0))
    ids = np.full((1, 14), 5, np.int32)
    full = numpy(model({"targets": ids}))
    changed = ids.copy()
    changed[0, 2] = 7
    differs = np.abs(numpy(model({"targets": changed})) - full).max(axis=(0, 2)) > 1e-6
    assert differs.tolist() == [False] * 3 + [True] * 9 + [False] * 2  # read from position 3 on


@pytest.mark.slow
def test_learns_which_sound_is_which_class(monkeypatch):
    """Square waves of a class each, half periods of 2 and of 3 samples, and their lengths; greedy decoding."""

    def sounds(rng, count, task):
        classes = rng.integers(2, 4, count)
        waves = [[*(4 + np.arange(8 + 3 * c) // c % 2).tolist(), 1] for c in classes]
        return {"inputs": padded([[int(c), 1] for c in classes]), "targets": padded(waves, 18)}

    monkeypatch.setattr(learning, "pairs", sounds)
    hparams = wavenet_tiny().replace(num_hidden_layers=5, dilations=(1, 2, 4, 8, 16), learning_rate_warmup_steps=20)
    model = learning.trained(WaveNet, hparams, "sounds", steps=150)
    unseen = sounds(np.random.default_rng(2), 20, "sounds")
    np.testing.assert_array_equal(learning.greedy(model, unseen["inputs"], 18), unseen["targets"])


def test_the_paths_of_weights_are_a_format_and_stay():
    model = tiny(num_hidden_layers=2)
    convolutions = ["first", "read", "output_map", "block_0/residual"]
    convolutions += [f"block_{i}/{part}" for i in range(2) for part in ("window", "skip")]
    assert sorted(weights_of(model)) == sorted([
        "target_embedding/table",
        "condition/kernel",
        *(f"{path}/{name}" for path in convolutions for name in ("kernel", "bias")),
    ])  # fmt: skip


@pytest.mark.parametrize(("name", "D", "K", "layers"), [("wavenet", 128, 256, 50), ("wavenet_tiny", 32, 128, 20)])
def test_parameters_of_the_blocks_by_hand(name, D, K, layers):
    """A block: a window of 2 from D to 2 D, a map to D in all but the last, a map to K, and biases."""
    found = shapes("wavenet", name, tokens_spec(100, 259, shared=False))
    assert count(found, "block_") == layers * (2 * D * 2 * D + 2 * D + D * K + K) + (layers - 1) * (D * D + D)
    assert count(found, "output_map", "output_embedding") == K * K + K + 259 * K
    assert count(found, "condition") == D * 2 * D * layers


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dilations": (1, 0)}, r"hparam dilations=\(1, 0\): give one or more, each 1 or more"),
        ({"kernel_size": 1}, "hparam kernel_size=1: it is at least 2"),
        (
            {"shared_embedding_and_softmax_weights": True},
            "hparam skip_channels=128: with shared_embedding_and_softmax_weights the output layer is a table of 32 "
            "channels; choose 0, or shared_embedding_and_softmax_weights=false",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(changes, text):
    with pytest.raises(UserError, match=text):
        wavenet_tiny().replace(**changes).freeze()
