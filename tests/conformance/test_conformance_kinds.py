"""What every registered model must keep on every kind of features that it takes: images, clips, sound, text and others.

Legend: B batch, T length of targets.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.costs import Costed
from t2t.registry import MODELS
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import numpy, randomise
from tests.small_models import NAMES, small_hparams

RATE = 400
"""Samples a second of the sound here: a position every 16 samples, so that tests are quick."""
SPECS = {
    FeatureKind.TOKENS: FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=13),
    FeatureKind.IMAGE: FeatureSpec(kind=FeatureKind.IMAGE, shape=(6, 5, 3)),
    FeatureKind.AUDIO: FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=RATE),
    FeatureKind.REAL: FeatureSpec(kind=FeatureKind.REAL, shape=(4,)),
    FeatureKind.VIDEO: FeatureSpec(kind=FeatureKind.VIDEO, shape=(6, 5, 1)),
    FeatureKind.LABEL: FeatureSpec(kind=FeatureKind.LABEL, vocab_size=7),
}
LENGTHS = {
    FeatureKind.TOKENS: (5, 3, 7), FeatureKind.AUDIO: (100, 61, 240), FeatureKind.REAL: (5, 3, 7),
    FeatureKind.VIDEO: (3, 1, 4),
}  # fmt: skip


def example(kind, rng, length):
    """One example of a kind, as the pipeline would give it."""
    if kind == FeatureKind.TOKENS:
        return np.array([*rng.integers(2, 13, length - 1), 1], np.int32)
    if kind in (FeatureKind.IMAGE, FeatureKind.VIDEO):
        shape = SPECS[kind].shape if kind == FeatureKind.IMAGE else (length, *SPECS[kind].shape)
        return rng.integers(0, 256, shape).astype(np.uint8)
    if kind == FeatureKind.LABEL:
        return np.int32(rng.integers(0, 7))
    return rng.normal(0.0, 0.3, (length, 4) if kind == FeatureKind.REAL else length).astype(np.float32)


def column(kind, seed, width=0):
    """Three examples, padded where their lengths differ."""
    rng = np.random.default_rng(seed)
    rows = [example(kind, rng, length) for length in LENGTHS.get(kind, (0, 0, 0))]
    if kind not in LENGTHS:
        return np.stack(rows)
    array = np.zeros((3, max(width, *map(len, rows)), *rows[0].shape[1:]), rows[0].dtype)
    for place, row in zip(array, rows, strict=True):
        place[: len(row)] = row
    return array


QUICK = ("transformer", "conv_s2s", "lstm_seq2seq_attention", "slice_net", "multi_model")
"""Models that read images, as vectors, and write tokens in the default tests."""


def cases():
    for name in NAMES:
        model_class = MODELS.get(name)
        for source in model_class.accepts_inputs:
            for target in model_class.accepts_targets:
                if source is not None and (source, target) != (FeatureKind.TOKENS, FeatureKind.TOKENS):
                    is_first = target == model_class.accepts_targets[0]
                    marks = pytest.mark.exhaustive
                    if is_first and (name == "transformer" or source in (FeatureKind.TOKENS, FeatureKind.IMAGE)):
                        is_quick = name in QUICK or target != FeatureKind.TOKENS
                        marks = () if is_quick else pytest.mark.slow
                    yield pytest.param((model_class, source, target), id=f"{name}, {source} to {target}", marks=marks)


@pytest.fixture(params=cases(), scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def model(case):
    model_class, source, target = case
    spec = ProblemSpec(name="kinds", features={"inputs": SPECS[source], "targets": SPECS[target]})
    return randomise(model_class(small_hparams(model_class, {}), spec), seed=3)


@pytest.fixture(scope="module")
def features(case):
    _, source, target = case
    return {"inputs": column(source, 1), "targets": column(target, 2)}


@pytest.fixture(scope="module")
def logits(model, features):
    return numpy(model(features))


def data_of(features):
    """Which rows and positions of the logits are of data."""
    targets = features["targets"]
    return targets != 0 if targets.ndim > 1 else np.ones(len(targets), bool)


def test_gradients_reach_every_weight(model, features):
    with tf.GradientTape() as tape:
        loss, count = model.loss_sum(model.body(features), features["targets"])
    assert float(count) == data_of(features).sum()
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.path
        assert np.isfinite(np.abs(tf.convert_to_tensor(gradient)).max()), variable.path
        if "key_bias" not in variable.path:
            smallest = 0.0 if "noise_kernel" in variable.path else 1e-6  # noise where gates hardly differ
            assert np.abs(tf.convert_to_tensor(gradient)).max() > smallest, variable.path


@pytest.mark.parametrize("case", [one for one in cases() if one.values[0][1] == FeatureKind.IMAGE], indirect=True)
@pytest.mark.exhaustive
def test_a_trace_takes_any_batch(model, features):
    """Sequences are traced by the tests of training."""
    unknown = {name: tf.TensorSpec([None] * array.ndim, array.dtype) for name, array in features.items()}
    traced = tf.function(lambda batch: model.loss_sum(model.body(batch), batch["targets"])[0], [unknown])
    eager = model.loss_sum(model.body(features), features["targets"])[0]
    np.testing.assert_allclose(traced(features), eager, rtol=1e-4)


def test_the_loss_is_the_cross_entropy_of_the_logits(model, features, logits):
    targets, keep = features["targets"], data_of(features)
    log_probs = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
    log_probs = log_probs - logits.max(-1, keepdims=True)
    gold = np.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    smoothed = 0.9 * gold + 0.1 * log_probs.mean(-1)
    body = model.body(features)
    loss, count = model.loss_sum(body, targets)
    cost = float(body.cost + count * body.cost_per_target) if isinstance(body, Costed) else 0.0
    np.testing.assert_allclose(float(loss), -smoothed[keep].sum() + cost, rtol=1e-4)


def test_padding_changes_nothing(case, model, features, logits):
    _, source, target = case
    wide = {"inputs": column(source, 1, width=333), "targets": column(target, 2, width=11)}
    keep = data_of(features)
    wide_logits = numpy(model(wide))
    if keep.ndim > 1:
        wide_logits = wide_logits[:, : keep.shape[1]]
    np.testing.assert_allclose(wide_logits[keep], logits[keep], rtol=1e-3, atol=1e-4)


def test_a_batch_is_its_rows_one_by_one(model, features, logits):
    for row in (1, 2):  # the shortest and the longest
        alone = numpy(model({name: array[row : row + 1] for name, array in features.items()}))
        keep = data_of(features)[row]
        np.testing.assert_allclose(logits[row][keep], alone[0][keep], rtol=1e-3, atol=1e-4)
