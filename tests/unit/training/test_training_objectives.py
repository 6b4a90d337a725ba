"""Scheduled sampling: how often predictions are read, and which.

Legend: B batch, T target length.
"""

import types

import numpy as np
import pytest
import tensorflow as tf

from t2t.layers.costs import Costed
from t2t.training.objectives import Likelihood, ScheduledSampling
from tests.builders import batch, numpy, tiny_transformer, total_loss

SEED = tf.constant([5, 7], tf.int64)


def loss_of(model, features, probability, seed=SEED):
    objective = ScheduledSampling(probability, warmup_steps=0)
    (prepared,) = objective.prepare([features], 1, "")
    return objective.loss(model, prepared, seed)


class Reader:
    """A fake model: predicts token 9 everywhere, and returns the targets that it has read as its loss."""

    top = types.SimpleNamespace(most_probable=lambda hidden: tf.fill(tf.shape(hidden), 9))

    def body(self, features, seed=None):
        return Costed(features["targets"])

    def loss_sum(self, hidden, targets):
        return hidden.hidden, tf.reduce_sum(targets)


def test_the_probability_rises_to_its_value():
    objective = ScheduledSampling(0.4, warmup_steps=100)
    shares = [float(objective.prepare([batch()], update, "")[0]["scheduled_sampling_share"]) for update in (0, 50, 200)]
    np.testing.assert_allclose(shares, [0.0, 0.2, 0.4], rtol=1e-6)


def test_that_share_of_the_tokens_read_is_predicted_but_padding_stays():
    """Of 4,000 tokens the deviation of the share is 0.0075."""
    targets_BT = np.full((100, 50), 3, np.int32)
    targets_BT[:, 40:] = 0
    for probability in (0.0, 0.3, 1.0):
        loss = loss_of(Reader(), {"targets": targets_BT}, probability)
        read_BT = numpy(loss.loss_sum)
        assert set(np.unique(read_BT[:, :40])) <= {3, 9}
        np.testing.assert_allclose((read_BT[:, :40] == 9).mean(), probability, atol=0.04 * (0 < probability < 1))
        np.testing.assert_array_equal(read_BT[:, 40:], 0)
        assert float(loss.tokens) == 3 * 4000


def test_which_tokens_is_a_function_of_the_seed():
    features = {"targets": np.full((10, 10), 3, np.int32)}
    first, again, other = (
        numpy(loss_of(Reader(), features, 0.5, tf.constant([5, n], tf.int64)).loss_sum) for n in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_the_loss_is_that_of_targets_given_what_was_read(probability):
    """With probability 1 it reads the most probable tokens of a first pass, without padding; with 0, the targets."""
    model, features = tiny_transformer(label_smoothing=0.1), batch()
    targets_BT = features["targets"]
    logits_BTV = numpy(model(features))
    logits_BTV[:, :, 0] = -np.inf
    read_BT = np.where(targets_BT != 0, logits_BTV.argmax(axis=-1), 0) if probability else targets_BT
    expected, _ = model.loss_sum(model.body({**features, "targets": read_BT.astype(np.int32)}), targets_BT)
    loss = loss_of(model, features, probability, seed=SEED)
    np.testing.assert_allclose(float(loss.minimized), float(expected), rtol=1e-5)
    assert (float(loss.minimized) == pytest.approx(total_loss(model, features)[0])) == (probability == 0)


def test_likelihood_is_the_models_own_loss():
    model, features = tiny_transformer(label_smoothing=0.1, layer_prepostprocess_dropout=0.2), batch()
    objective = Likelihood()
    assert objective.prepare([features], 1, "") == [features]
    loss = objective.loss(model, features, SEED)
    assert float(loss.minimized) == float(loss.loss_sum)
    assert (float(loss.loss_sum), float(loss.tokens)) == total_loss(model, features, SEED)


@pytest.mark.slow
def test_compiled_by_xla_the_same_tokens_are_read():
    model = tiny_transformer(symbol_dropout=0.2, layer_prepostprocess_dropout=0.2)
    objective = ScheduledSampling(0.5, warmup_steps=0)
    (features,) = objective.prepare([batch(widths=(8, 8))], 1, "")
    features = {name: tf.constant(array) for name, array in features.items()}

    def minimized(features, seed):
        return objective.loss(model, features, seed).minimized

    plain, compiled = (float(tf.function(minimized, jit_compile=xla)(features, SEED)) for xla in (False, True))
    assert compiled == pytest.approx(plain, rel=1e-5)
