"""Residual networks against an independent numpy implementation: pixels to logits.

Legend: B batch, Y rows, X columns.
"""

import numpy as np
import pytest

from t2t.hparams.resnet import ResnetHParams
from t2t.hparams.shake_shake import ShakeShakeHParams
from t2t.models.resnet import Resnet
from t2t.models.shake_shake import ShakeShake
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import numpy, randomise, weights_of
from tests.models import dropout_seed
from tests.reference import resnet as reference

SPEC = ProblemSpec(
    name="pictures",
    features={
        "inputs": FeatureSpec(kind=FeatureKind.IMAGE, shape=(9, 8, 3)),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=5),
    },
)
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 9, 8, 3)).astype(np.uint8)


def stem(weights, stride=1):
    """The first convolution on standardised pixels."""
    own = reference.part(weights, "source_embedding/convolution")
    return reference.convolve(reference.standardised(PIXELS), own["kernel"], stride, own.get("bias", 0.0))


def resnet_by_hand(weights, hparams, trains):
    norm, pre = reference.part(weights, "norm"), hparams.preactivation
    x = stem(weights, 2 if hparams.input_modality == "strided_image" else 1)
    x = x if pre else reference.relu(reference.batch_norm(x, norm, trains))
    if hparams.stem_pooling:
        x = pooled(x)
    for stage, size in enumerate(hparams.layer_sizes):
        for i in range(size):
            own = reference.part(weights, f"stage_{stage}_block_{i}")
            block = reference.Block(own, 2 if stage and not i else 1, trains)
            x = block.preactivated(x) if pre else block.postactivated(x)
    x = reference.relu(reference.batch_norm(x, norm, trains)) if pre else x
    return reference.classify(weights, x)


def pooled(x):
    """The largest of 3 x 3 around every second position."""
    rows, columns = (-(-side // 2) for side in x.shape[1:3])
    found = np.zeros((len(x), rows, columns, x.shape[-1]))
    for r in range(rows):
        for c in range(columns):
            found[:, r, c] = x[:, max(2 * r - 1, 0) : 2 * r + 2, max(2 * c - 1, 0) : 2 * c + 2].max((1, 2))
    return found


def check(model, expected, trains):
    found = numpy(model({"inputs": PIXELS}, seed=dropout_seed(1) if trains else None))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("trains", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("preactivation", [False, True], ids=["2015", "2016"])
@pytest.mark.parametrize("block_fn", ["residual", "bottleneck"])
def test_logits_are_those_of_the_reference(block_fn, preactivation, trains):
    large = {"input_modality": "strided_image", "stem_pooling": True} if block_fn == "bottleneck" else {}
    sizes = {"hidden_size": 4, "layer_sizes": (1, 2), "block_fn": block_fn}
    hparams = ResnetHParams(**sizes, preactivation=preactivation, **large)
    model = randomise(Resnet(hparams, SPEC))
    check(model, resnet_by_hand(weights_of(model), hparams, trains), trains)


def test_shake_shake_evaluates_as_the_reference():
    hparams = ShakeShakeHParams(hidden_size=4, num_hidden_layers=14)
    model = randomise(ShakeShake(hparams, SPEC))
    weights = weights_of(model)
    x = reference.batch_norm(stem(weights), reference.part(weights, "norm"), trains=False)
    for stage in range(3):
        for i in range(2):
            own = reference.part(weights, f"stage_{stage}_block_{i}")
            x = reference.shake_block(x, own, 2 if stage and not i else 1, trains=False)
    check(model, reference.classify(weights, reference.relu(x)), trains=False)
