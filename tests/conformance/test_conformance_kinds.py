"""Properties of every registered model on each kind of feature that it accepts: images, clips, sound, text and others.

Legend: B batch, T length of targets.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.registry import MODELS
from t2t.specs.features import FeatureKind
from tests.builders import numpy, randomise
from tests.conformance.model_cases import data_of, features_of, kind_cases, spec_of
from tests.kinds import column
from tests.small_models import small_hparams

PADDED = (FeatureKind.AUDIO, FeatureKind.REAL, FeatureKind.VIDEO)
"""Kinds whose padding is also what some examples consist of: silence, zero vectors, black frames."""


def cases_of(*kinds):
    """Returns a decorator for cases whose inputs are of some kinds."""
    found = [one for one in kind_cases() if one.values[0][2].inputs.kind in kinds]
    return pytest.mark.parametrize("case", found, indirect=True)


@cases_of(FeatureKind.IMAGE)
@pytest.mark.exhaustive
def test_a_trace_takes_any_batch(model):
    """Only of images; the tests of training trace sequences."""
    features = features_of(model)
    unknown = {name: tf.TensorSpec([None] * array.ndim, array.dtype) for name, array in features.items()}
    traced = tf.function(lambda batch: model.loss_sum(model.body(batch), batch["targets"])[0], [unknown])
    eager = model.loss_sum(model.body(features), features["targets"])[0]
    np.testing.assert_allclose(traced(features), eager, rtol=1e-4)


@cases_of(*PADDED)
def test_an_input_of_zeros_alone_does_not_depend_on_the_width_of_its_batch(model):
    features = features_of(model)
    kind, keep = model.spec.inputs.kind, data_of(features)
    narrow, wide = ({**features, "inputs": np.zeros_like(column(kind, 1, width))} for width in (0, 333))
    np.testing.assert_allclose(numpy(model(wide))[keep], numpy(model(narrow))[keep], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("universal_transformer", {"recurrence_type": "act", "act_loss_weight": 0.5}), ("transformer_moe", {}),
     pytest.param("lstm_moe", {}, marks=pytest.mark.slow), pytest.param("multi_model", {}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_row_of_padding_adds_nothing_to_the_costs_of_layers(name, changes):
    model_class = MODELS.get(name)
    spec = spec_of(FeatureKind.REAL, FeatureKind.TOKENS)
    model = randomise(model_class(small_hparams(model_class, changes), spec), seed=3)
    features = features_of(model)
    padded = {k: np.concatenate([array, np.zeros_like(array)]) for k, array in features.items()}
    (cost, each), (padded_cost, padded_each) = (
        (float(body.cost), float(body.cost_per_target)) for body in map(model.body, (features, padded))
    )
    assert cost + each > 0.0
    assert (padded_cost, padded_each) == (pytest.approx(cost, rel=1e-5), pytest.approx(each, rel=1e-5))
