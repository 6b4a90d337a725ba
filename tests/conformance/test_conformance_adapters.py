"""Adapters on every registered model, with the default pattern, and the models that it is refused for."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t.checkpoints.adapters import merge_adapters
from t2t.errors import UserError
from t2t.hparams.groups import OptimizerHParams
from t2t.registry import MODELS
from t2t.specs.features import ProblemSpec
from t2t.training.adapting import build_adapters
from t2t.training.local_gradient import LocalGradient
from t2t.training.objectives import Likelihood
from t2t.training.weights import assign_model
from tests.builders import randomise
from tests.conformance.test_conformance_kinds import SPECS, column
from tests.conformance.test_conformance_models import small_hparams

WITHOUT_ATTENTION = {
}
HPARAMS = OptimizerHParams(lora_rank=2, lora_alpha=3.0)


@pytest.fixture(params=MODELS.names(), scope="module")
def model(request):
    model_class = MODELS.get(request.param)
    inputs, targets = next(kind for kind in model_class.accepts_inputs if kind), model_class.accepts_targets[0]
    spec = ProblemSpec(name="kinds", features={"inputs": SPECS[inputs], "targets": SPECS[targets]})
    return randomise(model_class(small_hparams(model_class, {}), spec), seed=3)


def loss_and_gradient(model, adapters=None):
    """The summed loss of a batch, and the gradient by the paths of what is trained."""
    kinds = [model.spec.inputs.kind, model.spec.targets.kind]
    features = {name: tf.constant(column(kind, 1)) for name, kind in zip(("inputs", "targets"), kinds, strict=True)}
    gradient = LocalGradient(model, Likelihood(), adapters=adapters)
    trained = adapters.variables if adapters else model.trainable_variables
    variables = [v.value for v in (*trained, *model.non_trainable_variables)]
    gradient.trace("", variables, features)
    call = tf.function(lambda: gradient("", variables, features, tf.constant([1, 2], tf.int64), 1.0)[:2], autograph=False)
    flat, loss = call()
    pieces = np.split(flat.numpy(), np.cumsum([np.prod(v.shape) for v in trained])[:-1])
    return float(loss), {v.path: piece.reshape(v.shape) for v, piece in zip(trained, pieces, strict=True)}


def test_adapters_are_those_of_the_merged_weights_or_refused(request, model):
    name = type(model).registered_name()
    print("MODEL", request.node.callspec.params, name)
    if name in WITHOUT_ATTENTION:
        with pytest.raises(UserError) as error:
            build_adapters(model, HPARAMS)
        assert str(error.value).startswith(
            f"hparam lora_targets=query_kernel|value_kernel: it matches none of the "
        )
        return
    loss, whole = loss_and_gradient(model)
    weights = {v.path: np.asarray(v) for v in model.variables}
    adapters = build_adapters(model, HPARAMS)
    print([w.path for w in adapters.weights])
    at_first, _ = loss_and_gradient(model, adapters)
    assert at_first == loss
    rng = np.random.default_rng(5)
    for factor in adapters.variables:
        factor.assign(rng.normal(0.0, 0.3, factor.shape))
    factors = {v.path: np.asarray(v) for v in adapters.variables}
    found_loss, found = loss_and_gradient(model, adapters)
    for variable in [v for v in model.variables if v.path in whole]:
        variable.trainable = True
    assign_model(model, merge_adapters(weights, factors, 1.5))
    merged_loss, slopes = loss_and_gradient(model)
    np.testing.assert_allclose(found_loss, merged_loss, rtol=1e-5)
    assert abs(found_loss - loss) > 1e-3
    for weight in adapters.weights:
        a, b = (factors[f"{weight.path}/{part}"] for part in ("lora_a", "lora_b"))
        slope = slopes[weight.path]
        wanted = {"lora_a": 1.5 * slope @ b.swapaxes(-1, -2), "lora_b": 1.5 * a.swapaxes(-1, -2) @ slope}
        for part, array in wanted.items():
            assert np.abs(array).max() > 1e-6, weight.path
            np.testing.assert_allclose(found[f"{weight.path}/{part}"], array, rtol=2e-3, atol=2e-4 * np.abs(array).max())
