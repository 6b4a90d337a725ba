"""Objectives: scheduled sampling; expected reward and minimum risk, against enumerations of all that could be sampled.

Legend: B batch or sentences, T target length, C candidates of each, K samples, M outputs in all.
"""

import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from t2t.backends.tensorflow.update import LocalGradient
from t2t.backends.update import LossFunction
from t2t.hparams.groups import ObjectiveHParams
from t2t.layers.mode import Costed
from t2t.training.objectives import ExpectedReward, Likelihood, MinimumRisk, SampledObjective
from tests.builders import batch, numpy, padded, tiny_transformer, tokens_spec, total_loss

# === Scheduled sampling: how often predictions are read, and which ===

SEED = tf.constant([5, 7], tf.int64)


def sampling(probability, warmup_steps=0):
    values = {"scheduled_sampling_prob": probability, "scheduled_sampling_warmup_steps": warmup_steps}
    return Likelihood(ObjectiveHParams(**values))


def loss_of(model, features, probability, seed=SEED):
    objective = sampling(probability)
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
    objective = sampling(0.4, warmup_steps=100)
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
    objective = sampling(0.5)
    (features,) = objective.prepare([batch(widths=(8, 8))], 1, "")
    features = {name: tf.constant(array) for name, array in features.items()}

    def minimized(features, seed):
        return objective.loss(model, features, seed).minimized

    plain, compiled = (float(tf.function(minimized, jit_compile=xla)(features, SEED)) for xla in (False, True))
    assert compiled == pytest.approx(plain, rel=1e-5)


# === Expected reward and minimum risk ===

LOGITS = np.array([0.3, -0.5, 1.1])
REWARDS = np.array([0.2, 1.0, 0.5])


# === The weights ===
@pytest.mark.parametrize("samples", [2, 3])
def test_the_estimate_of_the_expected_reward_is_unbiased(samples):
    """Over all draws of K from three outputs: E[sum of weights * d(-log P)] is the gradient of -sum of P * reward.

    Of a softmax d log P(y) is 1 at y, minus P; the reward of the target takes no part.
    """
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum()
    draws = np.array(list(itertools.product(range(3), repeat=samples)))
    rewards_BC = np.concatenate([np.full((len(draws), 1), 7.0), REWARDS[draws]], axis=1).astype(np.float32)
    weights_BC = numpy(ExpectedReward().weights(rewards_BC, None, None))
    np.testing.assert_array_equal(weights_BC[:, 0], 0.0)
    slopes_BKM = probs - np.eye(3)[draws]  # of -log P
    estimates_BM = (weights_BC[:, 1:, None] * slopes_BKM).sum(axis=1)
    expected_M = -probs * (REWARDS - probs @ REWARDS)
    np.testing.assert_allclose(probs[draws].prod(axis=1) @ estimates_BM, expected_M, atol=1e-6)


@pytest.mark.parametrize("sharpness", [0.005, 1.0, 3.0])
def test_the_weights_of_the_risk_are_its_gradient(sharpness):
    """Its derivative by each candidate's log-probability, divided by the sharpness; checked with finite differences.

    The fourth slot is not a candidate, whatever its values.
    """
    log_probs, exists = np.array([-3.0, -1.5, -20.0, -0.1]), np.array([True, True, True, False])
    rewards = np.array([1.0, 0.2, 0.4, 9.0])

    def risk(log_probs):
        powers = np.where(exists, np.exp(log_probs) ** sharpness, 0.0)
        return -(powers / powers.sum()) @ rewards

    slopes = [(risk(log_probs + e) - risk(log_probs - e)) / 2e-6 for e in 1e-6 * np.eye(4)]
    given = (x[None].astype("float32") for x in (rewards, log_probs))
    weights_BC = numpy(MinimumRisk(ObjectiveHParams(objective_sharpness=sharpness)).weights(*given, exists[None]))
    np.testing.assert_allclose(-weights_BC[0], np.array(slopes) / sharpness, atol=1e-5)


def test_a_row_without_candidates_has_finite_weights():
    nothing = np.zeros((1, 3), np.float32)
    assert np.isfinite(numpy(MinimumRisk().weights(nothing, nothing, nothing > 0))).all()


# === The loss ===

V = 4
ALL_OUTPUTS = [[1], [2, 1], [3, 1], [2, 2], [2, 3], [3, 2], [3, 3]]
"""Every output of at most two of the tokens 1 to 3, of which 1 ends it."""


def model_and_features(dropout=0.2):
    """A model, two sentences, and of each all outputs as candidates, beginning with its target."""
    model = tiny_transformer(
        tokens_spec(V, V), num_hidden_layers=1, layer_prepostprocess_dropout=dropout, label_smoothing=0.1
    )
    orders = [[1, *(i for i in range(7) if i != 1)], [5, *(i for i in range(7) if i != 5)]]
    candidates_BCT = np.stack([padded([ALL_OUTPUTS[i] for i in order]) for order in orders])
    features = {"inputs": padded([[3, 2, 1], [2, 1]]), "targets": candidates_BCT[:, 0]}
    rewards_BC = np.random.default_rng(0).uniform(size=(2, 7)).astype(np.float32)
    return model, features, candidates_BCT, rewards_BC


def gradient_of(model, objective, features):
    """The gradient of a prepared batch as training computes it, (P,), and the loss and tokens that are reported."""
    features = {name: tf.constant(array) for name, array in features.items()}
    gradient = LocalGradient(LossFunction(model, objective.loss))
    variables = [v.value for v in model.trainable_variables]
    gradient.trace("", variables, features)

    @tf.function(autograph=False)
    def call(features):
        return gradient("", variables, features, SEED, 1.0)

    gradient_P, loss_sum, tokens, _ = call(features)
    return [numpy(x) for x in (gradient_P, loss_sum, tokens)]


def test_with_every_output_as_a_candidate_it_is_the_gradient_of_the_exact_risk():
    """That of log-softmax of the logits, differentiated by TensorFlow; plus a likelihood weight of 0.5."""
    sharpness = 0.3
    model, features, candidates_BCT, rewards_BC = model_and_features()
    values = {"objective_samples": 6, "objective_sharpness": sharpness, "objective_likelihood_weight": 0.5}
    objective = MinimumRisk(ObjectiveHParams(**values))
    objective.draw = lambda *_: [(candidates_BCT, rewards_BC)]
    (prepared,) = objective.prepare([features], 1, "")

    targets_NT = candidates_BCT.reshape(-1, 2)
    rows = {"inputs": np.repeat(features["inputs"], 7, axis=0), "targets": targets_NT}
    with tf.GradientTape() as tape:
        log_probs_NTV = tf.nn.log_softmax(model(rows, seed=SEED))
        of_tokens_NT = tf.gather(log_probs_NTV, targets_NT, batch_dims=2) * (targets_NT != 0)
        log_probs_BC = tf.reshape(tf.reduce_sum(of_tokens_NT, axis=1), (2, 7))
        q_BC = tf.nn.softmax(sharpness * log_probs_BC)
        risk = -tf.reduce_sum(q_BC * rewards_BC) / sharpness
        minimized = risk - 0.5 * tf.reduce_sum(log_probs_BC[:, 0])
    slopes = tape.gradient(minimized, [v.value for v in model.trainable_variables])
    expected_P = np.concatenate([np.ravel(tf.convert_to_tensor(slope)) for slope in slopes])

    gradient_P, loss_sum, tokens = gradient_of(model, objective, prepared)
    np.testing.assert_allclose(gradient_P, expected_P, rtol=1e-3, atol=1e-5 * np.abs(expected_P).max())
    np.testing.assert_allclose(loss_sum, -tf.reduce_sum(log_probs_BC[:, 0]), rtol=1e-5)
    assert tokens == 4.0


def probabilities_of(model, features, outputs_CT):
    """Returns the sampling probabilities of outputs for one sentence, (C,); padding is never sampled."""
    rows = {"inputs": np.repeat(features["inputs"], len(outputs_CT), axis=0), "targets": outputs_CT}
    log_probs_CTV = numpy(tf.nn.log_softmax(model(rows)))
    log_probs_CTV -= np.log(1.0 - np.exp(log_probs_CTV[:, :, :1]))
    of_tokens_CT = np.take_along_axis(log_probs_CTV, outputs_CT[:, :, None], axis=-1)[:, :, 0]
    return np.exp((of_tokens_CT * (outputs_CT != 0)).sum(axis=1))


def test_the_expected_gradient_of_two_samples_is_that_of_all_outputs():
    """Over all 49 draws of two of a sentence's seven outputs, by their probabilities q.

    It is the sum over all outputs of q(y) (reward(y) - mean reward) times that of -log P(y). A gradient is linear in
    the rewards, so that each draw is a row of one batch, with its probability in its rewards.
    """
    model, features, (outputs_CT, _), (rewards_C, _) = model_and_features(dropout=0.0)
    one = {name: array[:1] for name, array in features.items()}
    q_C = probabilities_of(model, one, outputs_CT)
    np.testing.assert_allclose(q_C.sum(), 1.0, rtol=1e-5)

    draws = np.array(list(itertools.product(range(7), repeat=2)))
    rewards_BK = q_C[draws].prod(axis=1, keepdims=True) * rewards_C[draws]
    batch = {
        **{name: np.repeat(array, 49, axis=0) for name, array in one.items()},
        SampledObjective.CANDIDATES: np.stack([outputs_CT[[0, *draw]] for draw in draws]),
        SampledObjective.REWARDS: np.pad(rewards_BK, ((0, 0), (1, 0))).astype(np.float32),
    }
    sampled = ExpectedReward(ObjectiveHParams(objective_samples=2, objective_likelihood_weight=0.0))
    estimate_P, _, _ = gradient_of(model, sampled, batch)

    weights_BC = np.array([q_C * (rewards_C - q_C @ rewards_C)], np.float32)
    exact = SampledObjective(ObjectiveHParams(objective_samples=6, objective_likelihood_weight=0.0))
    exact.weights = lambda *_: weights_BC
    everything = {SampledObjective.CANDIDATES: outputs_CT[None], SampledObjective.REWARDS: rewards_C[None]}
    exact_P, _, _ = gradient_of(model, exact, {**one, **everything})
    np.testing.assert_allclose(estimate_P, exact_P, rtol=1e-3, atol=2e-5 * np.abs(exact_P).max())


def test_the_mean_reward_is_that_of_the_samples_since_it_was_last_asked_for():
    """Without targets, padding rows and warm-ups."""
    candidates_BCT = np.array([[[2, 1], [3, 1], [1, 0]], [[0, 0], [0, 0], [0, 0]]], np.int32)
    rewards_BC = np.array([[1.0, 0.25, 0.5], [0.0, 0.0, 0.0]], np.float32)
    objective = ExpectedReward(ObjectiveHParams(objective_samples=2))
    objective.draw = lambda *_: [(candidates_BCT, rewards_BC)]
    assert objective.figures() == {}
    objective.prepare([{}], 0, "")
    assert objective.figures() == {}
    objective.prepare([{}], 1, "")
    assert objective.figures() == {"reward": 0.375}
    assert objective.figures() == {}
