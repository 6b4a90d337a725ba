"""Objectives over outputs that the model samples itself. The reward of an output is computed from it and the target.

Rewards have no gradient. The gradient of either objective is a sum over outputs y of a constant weight times the
gradient of -log P(y). So outputs are trained on like targets: in one batch with the ordinary, teacher-forced loss.

Legend: B sentences, C candidates of each: the target, then K samples; N = B * C rows, T length.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t.backends.update import BatchLoss, Features
from t2t.hparams.groups import ObjectiveHParams
from t2t.layers.costs import Costed
from t2t.layers.losses import token_weights
from t2t.models.base import SequenceModel
from t2t.specs.constants import CANDIDATES, PAD_ID, TARGETS
from t2t.training.objectives import Likelihood

Draw = Callable[[Sequence[Features], int, str], list[tuple[np.ndarray, np.ndarray]]]
"""(batches, update, problem) -> for each batch, its candidates (B, C, T) int32, zero padded, and rewards (B, C)."""

NO_CANDIDATE = -1e9
"""Replaces the log-probability of an empty candidate; finite, since a row of padding has only empty candidates."""

Weigh = Callable[[Any, Any, Any], Any]
"""(rewards (B, C), log-probabilities (B, C), which candidates exist (B, C) bool) -> weights (B, C) float32."""


def expected_reward_weights(rewards_BC, log_probs_BC, exists_BC):
    """Returns the weights of an unbiased estimate of the gradient of -sum over y of P(y) reward(y): (B, C) float32.

    Wu et al. 2016 (arXiv:1609.08144, section 5.2, equation 8), who subtract the mean reward of the samples from each
    and divide by K. That mean includes the sample itself, which makes the gradient too small by (K - 1) / K; here it is
    divided by K - 1. The target is not a sample and has weight 0.
    """
    samples_BK = rewards_BC[:, 1:]
    centred_BK = samples_BK - ops.mean(samples_BK, axis=1, keepdims=True)
    return ops.pad(centred_BK / (samples_BK.shape[1] - 1), ((0, 0), (1, 0)))


def minimum_risk_weights(rewards_BC, log_probs_BC, exists_BC, sharpness: float):
    """Returns the weights of the gradient of the risk, divided by the sharpness a: (B, C) float32.

    Shen et al. 2016 (arXiv:1512.02433, section 3), with the cost -reward: the risk is that of a distribution over
    the candidates alone,
        risk = -sum over y of Q(y) reward(y),    Q(y) = P(y)^a / sum over the candidates z of P(z)^a,
    and its gradient a sum of a Q(y) (reward(y) + risk) times that of -log P(y).
    """
    q_BC = ops.softmax(ops.where(exists_BC, sharpness * log_probs_BC, NO_CANDIDATE), axis=1)
    return q_BC * (rewards_BC - ops.sum(q_BC * rewards_BC, axis=1, keepdims=True))


class SampledObjective(Likelihood):
    """Rewards of sampled outputs plus the weighted likelihood of targets, without label smoothing.

    The reported loss is the negative log-likelihood of the targets.

    Args:
        draw: samples with the current weights.
        weigh: the weight of each candidate.
        candidates: C.
        likelihood_weight: of the target's log-likelihood.
    """

    CANDIDATES, REWARDS = CANDIDATES, "rewards"

    def __init__(self, draw: Draw, weigh: Weigh, candidates: int, likelihood_weight: float):
        self._draw, self._weigh, self._candidates = draw, weigh, candidates
        self._likelihood_weight = likelihood_weight
        self._rewards: list[np.ndarray] = []

    def prepare(self, batches: Sequence[Features], update: int, problem: str) -> list[Features]:
        """Returns the batches with candidates and their rewards; see the base class."""
        drawn = self._draw(batches, update, problem)
        if update:
            for candidates, rewards in drawn:
                has_target_B = candidates[:, 0, 0] != PAD_ID
                self._rewards.append(rewards[has_target_B, 1:].ravel())
        return [
            {**batch, self.CANDIDATES: candidates, self.REWARDS: rewards}
            for batch, (candidates, rewards) in zip(batches, drawn, strict=True)
        ]

    def loss(self, model: SequenceModel, features: Features, seed: Any) -> BatchLoss:
        """Returns the loss of a batch with its candidates; see the base class."""
        features = dict(features)
        candidates_BCT, rewards_BC = features.pop(self.CANDIDATES), features.pop(self.REWARDS)
        tokens = ops.sum(token_weights(features.pop(TARGETS)))
        count, shape = self._candidates, ops.shape(candidates_BCT)
        targets_NT = ops.reshape(candidates_BCT, (-1, shape[2]))
        rewards_BC = ops.reshape(rewards_BC, (-1, count))
        rows = {name: ops.repeat(array, count, axis=0) for name, array in features.items()}
        hidden = model.body({**rows, TARGETS: targets_NT}, seed=seed)
        hidden = hidden if isinstance(hidden, Costed) else Costed(hidden)

        log_probs_BC = self._log_probs(model, hidden, targets_NT)
        exists_BC = ops.reshape(ops.any(ops.not_equal(targets_NT, PAD_ID), axis=1), (-1, count))
        weights_BC = self._weigh(rewards_BC, log_probs_BC, exists_BC)
        weights_BC += self._likelihood_weight * ops.cast(ops.arange(count) == 0, "float32")
        weights_NT = ops.reshape(weights_BC, (-1, 1)) * token_weights(targets_NT)
        minimized = model.top.weighted_nll(hidden.hidden, targets_NT, weights_NT)
        # Costs are sums over all rows; their mean over the candidates is on the scale of a batch of targets alone.
        minimized += hidden.cost / count + tokens * hidden.cost_per_target
        return BatchLoss(minimized, -ops.sum(log_probs_BC[:, 0]), tokens)

    def _log_probs(self, model: SequenceModel, hidden: Costed, targets_NT):
        """Returns the log-probability of each candidate, (B, C) float32, a constant."""
        log_probs_NT = model.top.score_targets(ops.stop_gradient(hidden.hidden), targets_NT).log_probs
        log_probs_N = ops.sum(log_probs_NT * token_weights(targets_NT), axis=1)
        return ops.stop_gradient(ops.reshape(log_probs_N, (-1, self._candidates)))

    def figures(self) -> dict[str, float]:
        """Returns the mean reward of the samples since the last call; see the base class."""
        rewards, self._rewards = self._rewards, []
        return {"reward": float(np.concatenate(rewards).mean())} if rewards else {}


def build_sampled_objective(hparams: ObjectiveHParams, draw: Draw) -> SampledObjective:
    """Returns the objective `expected_reward` or `minimum_risk`."""
    weigh: Weigh = expected_reward_weights
    if hparams.objective == "minimum_risk":
        weigh = functools.partial(minimum_risk_weights, sharpness=hparams.objective_sharpness)
    return SampledObjective(draw, weigh, hparams.rows_per_example, hparams.objective_likelihood_weight)
