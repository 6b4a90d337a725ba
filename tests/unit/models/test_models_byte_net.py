"""ByteNet against one in numpy (tests/reference/byte_net.py), its unfolding, and in decoding.

Legend: B batch, S source length, T target length, U length of the source's representation, D width.
"""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.byte_net import ByteNetHParams, byte_net, byte_net_tiny, bytenet_base
from t2t.layers.dilated_blocks import MultiplicativeUnit
from t2t.models.byte_net import ByteNet
from tests.builders import batch, numpy, padded, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.byte_net import ByteNet as Reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
BLOCKS = ("relu", "multiplicative", "cascade")
SHAPE = {"dilations": (1, 3), "unfolding_factor": 1.2, "unfolding_offset": 1}


def tiny(block, dtype="float32", **changes):
    """A model of three blocks of 8 channels without dropout, its weights random."""
    changes = {"hidden_size": 8, "num_hidden_layers": 3, "dropout": 0.0, **SHAPE, **changes}
    return randomise(ByteNet(ByteNetHParams(block=block, **changes), tokens_spec(), dtype=dtype))


def reference_of(block, weights, layers=3):
    return Reference(weights, layers, block, (1, 3), 1.2, 1)


@pytest.mark.parametrize("block", BLOCKS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(block):
    model = tiny(block)
    reference = reference_of(block, weights_of(model))
    check_logits(model, reference, SOURCES, TARGETS, 11)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.exhaustive
def test_gradients_are_those_of_finite_differences_of_the_independent_model(block):
    layers = 1 if block == "cascade" else 2  # a block with both dilations, or one for each
    model = tiny(block, label_smoothing=0.0, num_hidden_layers=layers)
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: reference_of(block, weights, layers), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.exhaustive
def test_steps_of_several_beams_are_teacher_forcing(block, dtype):
    check_steps_of_beams(tiny(block, dtype, num_hidden_layers=2), dtype)


def test_the_source_is_given_a_times_its_length_and_b_more():
    """1.2 * 5 = 6, 1.2 * 1 -> 2, 1.2 * 7 = 8.4 -> 9, each and 1 more; zeros after that, whatever the padding."""
    encoded = numpy(tiny("relu").encode({"inputs": batch(sources=SOURCES, widths=(12, 0))["inputs"]}))
    assert encoded.shape[1] == 16  # 1.2 * 12 -> 15 and 1
    assert [int((row != 0).any(axis=1).sum()) for row in encoded] == [7, 3, 10]
    assert [int(np.flatnonzero((row != 0).any(axis=1))[-1]) for row in encoded] == [6, 2, 9]


def test_a_target_may_be_longer_than_what_it_unfolds_over():
    model = tiny("relu", unfolding_factor=1.0, unfolding_offset=0)
    features = {"inputs": padded([[4, 1]]), "targets": padded([[5, 6, 7, 8, 9, 1]])}
    full = numpy(model(features))
    encoded = model.encode(features)
    cache, last = model.init_cache(encoded, 1, 6), np.zeros(1, np.int32)
    for position in range(6):
        logits, cache = model.decode_step(last, position, cache, encoded)
        np.testing.assert_allclose(numpy(logits), full[:, position], rtol=1e-4, atol=1e-5)
        last = features["targets"][:, position]


def test_a_position_sees_as_far_as_the_dilations_reach_and_no_farther():
    """Windows of 3 with dilations 1 and 2 after the join's window of 3: 2 + 2 + 4 = 8 positions back."""
    model = tiny("relu", num_hidden_layers=2, dilations=(1, 2))
    ids = np.full((1, 14), 5, np.int32)
    inputs = np.full((1, 14), 4, np.int32)
    full = numpy(model({"inputs": inputs, "targets": ids}))
    changed = ids.copy()
    changed[0, 2] = 7
    differs = np.abs(numpy(model({"inputs": inputs, "targets": changed})) - full).max(axis=(0, 2)) > 1e-6
    assert differs.tolist() == [False] * 3 + [True] * 9 + [False] * 2  # read from position 3 on


def test_a_multiplicative_unit_by_hand():
    """One channel: a norm of one value is its beta, so the gates are sigmoid(beta) and the update tanh(beta)."""
    layer = MultiplicativeUnit(1, 3, name="unit", causal=True)
    layer.build((None, None, 1))
    for norm, beta in zip(layer.norms, (0.0, 50.0, -50.0, 0.7), strict=True):
        norm.beta.assign([beta])
    # g = 1/2, 1, 0: tanh(h) / 2
    np.testing.assert_allclose(numpy(layer(np.full((1, 2, 1), 0.3, np.float32))), np.full((1, 2, 1), np.tanh(0.3) / 2))
    layer.norms[2].beta.assign([50.0])
    found = numpy(layer(np.full((1, 2, 1), 0.3, np.float32)))
    np.testing.assert_allclose(found, np.full((1, 2, 1), np.tanh(0.3 + np.tanh(0.7)) / 2), rtol=1e-6)


@pytest.mark.parametrize("block", BLOCKS)
def test_dropout_is_a_function_of_its_seed(block):
    check_dropout_follows_its_seed(tiny(block, dropout=0.5))


def test_parameters_of_a_block_by_hand():
    """Of 2d = 8 channels: 8*4 + 4 narrow, 3*4*4 + 4 window, 4*8 + 8 wide, norms 2 * (8 + 4 + 4)."""
    count = {block: sum(np.size(v) for v in tiny(block).decoder.blocks[0].variables) for block in BLOCKS}
    assert count["relu"] == 36 + 52 + 40 + 32
    # The unit: four windows and their norms in place of one window and the norm before it.
    assert count["multiplicative"] == 36 + 4 * 52 + 40 + 2 * (8 + 4 + 4 * 4)
    assert count["cascade"] == 2 * (3 * 8 * 8 + 16) + 16


def test_published_sizes():
    paper, simpler = byte_net().freeze(), bytenet_base().freeze()
    assert (paper.hidden_size // 2, paper.num_hidden_layers, paper.dilations) == (800, 30, (1, 2, 4, 8, 16))
    assert (simpler.hidden_size, simpler.num_hidden_layers, simpler.dilations) == (768, 4, (1, 2, 4, 8))


def test_paths_of_weights_are_a_format_and_stay():
    model = tiny("relu", num_hidden_layers=1)
    norm, convolution = ("gamma", "beta"), ("kernel", "bias")
    block = [
        *(f"{part}/norm/{name}" for part in ("narrow", "window", "wide") for name in norm),
        *(f"{part}/convolution/{name}" for part in ("narrow", "window", "wide") for name in convolution),
    ]
    assert sorted(weights_of(model)) == sorted([
        "target_embedding/table",
        *(f"{part}/{name}" for part in ("join", "output_map") for name in convolution),
        *(f"{part}/{name}" for part in ("encoder/norm", "decoder/norm", "output_norm") for name in norm),
        *(f"{stack}/block_0/{path}" for stack in ("encoder", "decoder") for path in block),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"hidden_size": 7}, "hparam hidden_size=7 is odd; block=relu has half inside"),
        ({"dilations": (1, 0)}, r"hparam dilations=\(1, 0\): give one or more, each 1 or more"),
        ({"unfolding_factor": 0.5}, "hparam unfolding_factor=0.5: it is at least 1.0"),
    ],
)
def test_what_cannot_be_built_is_refused(changes, text):
    with pytest.raises(UserError, match=text):
        byte_net_tiny().replace(**changes).freeze()
