"""Every registered model can learn several problems at once; for each it equals the model of that problem alone."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t.registry import MODELS
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.builders import numpy, randomise
from tests.kinds import SPECS, column
from tests.small_models import NAMES, small_hparams

QUICK = ("transformer", "lstm_seq2seq_attention", "resnet")
"""Models of the default tests."""
LARGER = 4
"""Number of ids or classes that the second problem has in addition to those of the first."""


def problem(model_class, name, more=0):
    """A problem with the model's first kind of targets, and inputs of tokens if accepted, else of its first kind."""
    features = {"targets": SPECS[model_class.accepts_targets[0]]}
    if kinds := [kind for kind in model_class.accepts_inputs if kind]:
        features["inputs"] = SPECS[FeatureKind.TOKENS if FeatureKind.TOKENS in kinds else kinds[0]]
    grown = {
        side: dataclasses.replace(spec, vocab_size=spec.vocab_size + more) if spec.vocab_size else spec
        for side, spec in features.items()
    }
    return ProblemSpec(name=name, features=grown)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in NAMES]
)
def test_a_model_of_two_problems_is_for_each_the_model_of_it_alone(name):
    model_class = MODELS.get(name)
    hparams = small_hparams(model_class, {})
    members = (problem(model_class, "one"), problem(model_class, "other", LARGER))
    both = randomise(model_class(hparams, ProblemSpec(name="one-other", members=members)))
    paths = [variable.path for variable in both.variables]
    assert len(set(paths)) == len(paths)
    features = {side: column(spec.kind, seed) for seed, (side, spec) in enumerate(members[0].features.items())}
    reached = set()
    for member in members:
        view, alone = both.for_problem(member.name), model_class(hparams, member)
        weights = {variable.path.replace(f"/{member.name}/", "/"): variable for variable in both.variables}
        for variable in alone.variables:
            variable.assign(weights[variable.path])
        np.testing.assert_allclose(numpy(view(features)), numpy(alone(features)), rtol=1e-5, atol=1e-6)
        reached |= reached_by(view, features)
    assert reached == {variable.path for variable in both.trainable_variables}


def reached_by(view, features):
    """Paths of the weights with a gradient of the problem's loss."""
    variables = view.trainable_variables
    with tf.GradientTape() as tape:
        loss, _ = view.loss_sum(view.body(features), features["targets"])
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    return {variable.path for variable, gradient in zip(variables, gradients, strict=True) if gradient is not None}
