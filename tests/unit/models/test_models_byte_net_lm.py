"""ByteNet's decoder alone against one in numpy (tests/reference/byte_net.py), what it sees, and in decoding."""

import numpy as np
import pytest

from t2t.hparams.byte_net import ByteNetHParams, byte_net_lm
from t2t.models.byte_net_lm import ByteNetLm
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.models import check_dropout_follows_its_seed, directional_derivatives
from tests.reference.byte_net import ByteNetLm as Reference

BLOCKS = ("relu", "multiplicative", "cascade")
TARGETS = (4, 6, 2)


def tiny(block, **changes):
    """A model of two blocks of 8 channels without dropout, its weights random."""
    changes = {"hidden_size": 8, "num_hidden_layers": 2, "dropout": 0.0, "dilations": (1, 3), **changes}
    return randomise(ByteNetLm(ByteNetHParams(block=block, **changes), tokens_spec(inputs=0)))


def reference_of(block, weights):
    return Reference(weights, 2, block, (1, 3), 1.0, 0)


@pytest.mark.parametrize("block", BLOCKS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(block):
    model = tiny(block)
    reference = reference_of(block, weights_of(model))
    targets = batch(targets=TARGETS, widths=(0, 9))["targets"]
    found = numpy(model({"targets": targets}))
    for row, ids in enumerate(targets):
        target = ids[ids != 0].tolist()
        np.testing.assert_allclose(found[row, : len(target)], reference.logits(target), rtol=1e-3, atol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", BLOCKS)
def test_gradients_are_those_of_finite_differences_of_the_independent_model(block):
    model = tiny(block, label_smoothing=0.0)
    features = {"targets": batch(targets=(3, 5), sources=(1, 1), widths=(0, 6))["targets"]}

    def loss(weights):
        reference, total = reference_of(block, weights), 0.0
        for ids in features["targets"]:
            target = ids[ids != 0].tolist()
            rows = zip(reference.logits(target), target, strict=True)
            total += sum(np.log(np.exp(row).sum()) - row[i] for row, i in rows)
        return total

    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


def test_a_position_sees_as_far_as_the_dilations_reach_and_no_farther():
    """Windows of 3 with dilations 1 and 3: 2 + 6 = 8 positions before the word before."""
    model, ids = tiny("relu"), np.full((1, 14), 5, np.int32)
    changed = ids.copy()
    changed[0, 2] = 7
    differs = np.abs(numpy(model({"targets": changed})) - numpy(model({"targets": ids}))).max(axis=(0, 2)) > 1e-6
    assert differs.tolist() == [False] * 3 + [True] * 9 + [False] * 2  # read from position 3 on


def test_the_papers_windows_reach_373_characters():
    """Six sets of dilations 1, 2, 4, 8, 16 and windows of 3: 6 * 2 * 31 before the last one."""
    hparams = byte_net_lm().freeze()
    dilations = hparams.dilations * (hparams.num_hidden_layers // len(hparams.dilations))
    assert len(dilations) == 30
    assert 1 + sum((hparams.kernel_size - 1) * dilation for dilation in dilations) == 373


@pytest.mark.parametrize("rate", ["dropout", "output_dropout"])
def test_dropout_is_a_function_of_its_seed(rate):
    check_dropout_follows_its_seed(tiny("relu", **{rate: 0.5}))


def test_paths_of_weights_are_a_format_and_stay():
    norm, convolution = ("gamma", "beta"), ("kernel", "bias")
    block = [
        *(f"{part}/norm/{name}" for part in ("narrow", "window", "wide") for name in norm),
        *(f"{part}/convolution/{name}" for part in ("narrow", "window", "wide") for name in convolution),
    ]
    assert sorted(weights_of(tiny("relu"))) == sorted([
        "target_embedding/table",
        *(f"output_map/{name}" for name in convolution),
        *(f"{part}/{name}" for part in ("decoder/norm", "output_norm") for name in norm),
        *(f"decoder/block_{i}/{path}" for i in range(2) for path in block),
    ])  # fmt: skip
