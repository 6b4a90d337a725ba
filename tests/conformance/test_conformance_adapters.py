"""Adapters of every registered model give the loss and gradients of merged weights, in every kind of layer."""

import re

import numpy as np
import pytest
import tensorflow as tf

from t2t.backends.tensorflow.update import LocalGradient
from t2t.backends.update import LossFunction
from t2t.checkpoints.adapters import merge_adapters
from t2t.hparams.groups import OptimizerHParams
from t2t.registry import MODELS
from t2t.training.objectives import TrainingObjective
from t2t.training.trained_weights import build_adapters
from t2t.training.weights import assign_model
from tests.builders import randomise, shapes_alone
from tests.conformance.model_cases import spec_of
from tests.errors import refused
from tests.kinds import column
from tests.small_models import NAMES, small_hparams

QUICK, SLOW = ("transformer_moe", "resnet"), ("lstm_seq2seq_attention",)
"""Models of the default tests (attention, experts in one weight; convolutions with batch norms); slow: LSTM cells."""
MARKS = dict.fromkeys(QUICK, ()) | dict.fromkeys(SLOW, pytest.mark.slow)
MODELS_TO_TEST = [pytest.param(name, marks=MARKS.get(name, pytest.mark.exhaustive)) for name in NAMES]


def build(name):
    """A model of few layers, one of each kind."""
    model_class = MODELS.get(name)
    inputs = next((kind for kind in model_class.accepts_inputs if kind), None)
    fewer = {"num_hidden_layers": 1, "expert_layer_step": 1} if name == "transformer_moe" else {}
    model = model_class(small_hparams(model_class, fewer), spec_of(inputs, model_class.accepts_targets[0]))
    kinds = {feature: one.kind for feature, one in model.spec.features.items()}
    return model, {feature: tf.constant(column(kind, 1)) for feature, kind in kinds.items()}


def gradient_function(model, features, adapters=None):
    """Returns a function that returns the summed loss of a batch and its gradients, keyed by trained path."""
    gradient = LocalGradient(LossFunction(model, TrainingObjective().loss, adapters))
    trained = adapters.variables if adapters else model.trainable_variables
    variables = [v.value for v in (*trained, *model.non_trainable_variables)]
    gradient.trace("", variables, features)
    seed = tf.constant([1, 2], tf.int64)
    compiled = tf.function(lambda: gradient("", variables, features, seed, 1.0)[:2], autograph=False)

    def call():
        flat, loss = compiled()
        pieces = np.split(flat.numpy(), np.cumsum([np.prod(v.shape) for v in trained])[:-1])
        return float(loss), {v.path: piece.reshape(v.shape) for v, piece in zip(trained, pieces, strict=True)}

    return call


@pytest.mark.parametrize("name", MODELS_TO_TEST)
def test_adapters_of_all_weights_are_those_of_merged_weights(name):
    model, features = build(name)
    randomise(model, seed=3)
    for variable in model.trainable_variables:
        variable.trainable = "gamma" not in variable.path  # as in a frozen model: batch norms use moving statistics
    of_weights = gradient_function(model, features)
    weights = {v.path: np.asarray(v) for v in model.variables}
    adapters = build_adapters(model, OptimizerHParams(lora_rank=2, lora_alpha=3.0, lora_targets="."))
    of_adapters = gradient_function(model, features, adapters)
    loss = of_weights()[0]
    assert of_adapters()[0] == loss
    rng = np.random.default_rng(5)
    for factor in adapters.variables:
        factor.assign(rng.normal(0.0, 0.2, factor.shape))
    factors = {v.path: np.asarray(v) for v in adapters.variables}
    found_loss, found = of_adapters()
    assign_model(model, merge_adapters(weights, factors, 1.5))
    merged_loss, slopes = of_weights()
    np.testing.assert_allclose(found_loss, merged_loss, rtol=1e-4)
    assert abs(found_loss - loss) > 0.01
    largest = max(np.abs(slope).max() for slope in slopes.values())
    for weight in adapters.weights:
        a, b = (factors[f"{weight.path}/{part}"] for part in ("lora_a", "lora_b"))
        slope = slopes[weight.path]
        wanted = {"lora_a": 1.5 * slope @ b.swapaxes(-1, -2), "lora_b": 1.5 * a.swapaxes(-1, -2) @ slope}
        for part, array in wanted.items():
            np.testing.assert_allclose(found[f"{weight.path}/{part}"], array, rtol=0.01, atol=1e-4 * largest)


@pytest.mark.parametrize("name", NAMES)
def test_by_default_queries_and_values_of_attention_have_adapters_and_other_models_are_refused(name):
    with shapes_alone():
        model, _ = build(name)
        targets = [v.path for v in model.variables if re.search("/(query|value)_kernel$", v.path)]
        if targets:
            assert [weight.path for weight in build_adapters(model, OptimizerHParams(lora_rank=2)).weights] == targets
            assert not model.trainable_variables
            return
        with refused("lora_targets=query_kernel|value_kernel", type(model).__name__, "kernel"):
            build_adapters(model, OptimizerHParams(lora_rank=2))
