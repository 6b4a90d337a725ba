"""Properties of every registered model on each kind of feature that it accepts: images, clips, sound, text and others.

Legend: B batch, T length of targets.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.costs import Costed
from t2t.registry import MODELS
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.builders import numpy, randomise
from tests.kinds import SPECS, column
from tests.small_models import NAMES, small_hparams

QUICK = ("transformer", "conv_s2s", "lstm_seq2seq_attention", "slice_net", "multi_model")
"""Models whose cases with token targets are in the default tests; those of other models are slow."""


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
    return randomise(model_class(small_hparams(model_class, {"max_length": 32}), spec), seed=3)


@pytest.fixture(scope="module")
def features(case):
    _, source, target = case
    return {"inputs": column(source, 1), "targets": column(target, 2)}


@pytest.fixture(scope="module")
def logits(model, features):
    return numpy(model(features))


PADDED = (FeatureKind.AUDIO, FeatureKind.REAL, FeatureKind.VIDEO)
"""Kinds whose padding is also what some examples consist of: silence, zero vectors, black frames."""


def data_of(features):
    """Mask of the rows, or rows and positions, of the logits that are not padding."""
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
            smallest = 0.0 if "noise_kernel" in variable.path else 1e-6  # tiny if gates hardly differ
            assert np.abs(tf.convert_to_tensor(gradient)).max() > smallest, variable.path


@pytest.mark.parametrize("case", [one for one in cases() if one.values[0][1] == FeatureKind.IMAGE], indirect=True)
@pytest.mark.exhaustive
def test_a_trace_takes_any_batch(model, features):
    """Only of images; the tests of training trace sequences."""
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


@pytest.mark.parametrize("case", [one for one in cases() if one.values[0][1] in PADDED], indirect=True)
def test_an_input_of_zeros_alone_does_not_depend_on_the_width_of_its_batch(case, model, features):
    _, source, _ = case
    narrow, wide = ({**features, "inputs": np.zeros_like(column(source, 1, width))} for width in (0, 333))
    keep = data_of(features)
    np.testing.assert_allclose(numpy(model(wide))[keep], numpy(model(narrow))[keep], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("universal_transformer", {"recurrence_type": "act", "act_loss_weight": 0.5}), ("transformer_moe", {}),
     pytest.param("lstm_moe", {}, marks=pytest.mark.slow), pytest.param("multi_model", {}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_row_of_padding_adds_nothing_to_the_costs_of_layers(name, changes):
    model_class = MODELS.get(name)
    spec = ProblemSpec(name="kinds", features={k: SPECS[FeatureKind.REAL if k == "inputs" else FeatureKind.TOKENS]
                                               for k in ("inputs", "targets")})  # fmt: skip
    model = randomise(model_class(small_hparams(model_class, changes), spec), seed=3)
    features = {"inputs": column(FeatureKind.REAL, 1), "targets": column(FeatureKind.TOKENS, 2)}
    padded = {k: np.concatenate([array, np.zeros_like(array)]) for k, array in features.items()}
    (cost, each), (padded_cost, padded_each) = (
        (float(body.cost), float(body.cost_per_target)) for body in map(model.body, (features, padded))
    )
    assert cost + each > 0.0
    assert (padded_cost, padded_each) == (pytest.approx(cost, rel=1e-5), pytest.approx(each, rel=1e-5))
