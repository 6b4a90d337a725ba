"""Training objectives: the likelihood of targets, given earlier targets or also predictions; rewards of samples.

The reward of an output that the model samples itself is computed from it and the target. Rewards have no gradient. The
gradient of an objective over samples is a sum over outputs y of a constant weight times the gradient of -log P(y). So
outputs are trained on like targets: in one batch with the ordinary, teacher-forced loss.

Legend: B batch or sentences, C candidates of each: the target, then K samples; N = B * C rows, T target length.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t.backends.update import BatchLoss, Features
from t2t.hparams.groups import ObjectiveHParams
from t2t.layers.dropout import GivenSeed
from t2t.layers.losses import token_weights
from t2t.layers.mode import Costed, without_costs
from t2t.models.base import SequenceModel
from t2t.registry import register_objective
from t2t.registry.overrides import check_overrides
from t2t.specs import CANDIDATES, PAD_ID, TARGETS

Draw = Callable[[Sequence[Features], int, str], list[tuple[np.ndarray, np.ndarray]]]
"""(batches, update, problem) -> for each batch, its candidates (B, C, T) int32, zero padded, and rewards (B, C)."""

NO_CANDIDATE = -1e9
"""Replaces the log-probability of an empty candidate; finite, since a row of padding has only empty candidates."""


class TrainingObjective:
    """What an update minimizes; the base class minimizes the negative log-likelihood of the targets.

    Everything that it computes is a function of its arguments, so that runs resume exactly.

    Args:
        hparams: of the run; None for the defaults.
    """

    samples_outputs = False
    """Whether each example has several rows in a batch, see `SampledObjective`."""

    def __init_subclass__(cls) -> None:
        check_overrides(cls)

    def __init__(self, hparams: ObjectiveHParams | None = None):
        self.hparams = hparams or ObjectiveHParams()

    def prepare(self, batches: Sequence[Features], update: int, problem: str) -> list[Features]:
        """Returns the batches of this process's replicas, with the additional arrays that `loss` reads.

        Args:
            batches: one for each replica, arrays by feature name.
            update: number of the update, from 1; 0 in a warm-up.
            problem: name of their problem; "" if the model has only one.
        """
        return list(batches)

    def loss(self, model: SequenceModel, features: Features, seed: Any) -> BatchLoss:
        """Returns the loss of a prepared batch; called while a graph is traced.

        `seed` is used for dropout and all other random choices: (2,) int64 with TensorFlow, (4,) uint32 with JAX.
        """
        loss_sum, tokens = model.loss_sum(model.body(features, seed=seed), features[TARGETS])
        return BatchLoss(loss_sum, loss_sum, tokens)

    def figures(self) -> dict[str, float]:
        """Returns additional figures by name, computed by this process since the last call."""
        return {}


@register_objective
class Likelihood(TrainingObjective):
    """The likelihood of the targets, with label smoothing, given earlier targets or also predictions.

    With `scheduled_sampling_prob` p > 0: Bengio et al. 2015 (arXiv:1506.03099), in two passes as Mihaylova and Martins
    2019 (arXiv:1906.07651). The first predicts all tokens from the targets, without dropout and gradient; the second
    reads a prediction in place of a target with the probability p min(1, update / warm-up). Predictions are the most
    probable tokens.
    """

    SHARE = "scheduled_sampling_share"

    def prepare(self, batches: Sequence[Features], update: int, problem: str) -> list[Features]:
        """Returns the batches, with the probability at this update if predictions are read; see the base class."""
        if not self.hparams.scheduled_sampling_prob:
            return list(batches)
        warmup = max(self.hparams.scheduled_sampling_warmup_steps, 1)
        share = np.float32(self.hparams.scheduled_sampling_prob * min(1.0, update / warmup))
        return [{**batch, self.SHARE: np.asarray(share)} for batch in batches]

    def loss(self, model: SequenceModel, features: Features, seed: Any) -> BatchLoss:
        """Returns the loss, of the second pass if predictions are read; see the base class."""
        if self.SHARE not in features:
            return super().loss(model, features, seed)
        features = dict(features)
        share, targets_BT = features.pop(self.SHARE), features[TARGETS]
        predicted_BT = model.top.most_probable(without_costs(model.body(features)))
        # Made from integers, which XLA and TensorFlow draw alike.
        words_BT = keras.random.randint(ops.shape(targets_BT), -(2**31), 2**31 - 1, dtype="int32", seed=GivenSeed(seed))
        drawn_BT = ops.cast(words_BT, "float32") * 2.0**-32 + 0.5 < share
        is_replaced_BT = ops.logical_and(drawn_BT, ops.not_equal(targets_BT, PAD_ID))
        read_BT = ops.where(is_replaced_BT, predicted_BT, targets_BT)
        loss_sum, tokens = model.loss_sum(model.body({**features, TARGETS: read_BT}, seed=seed), targets_BT)
        return BatchLoss(loss_sum, loss_sum, tokens)


class SampledObjective(TrainingObjective):
    """Rewards of sampled outputs plus the weighted likelihood of targets, without label smoothing.

    The reported loss is the negative log-likelihood of the targets.
    """

    CANDIDATES, REWARDS = CANDIDATES, "rewards"
    samples_outputs = True
    draw: Draw
    """Samples with the current weights; set by the run."""

    def __init__(self, hparams: ObjectiveHParams | None = None):
        super().__init__(hparams)
        self._candidates = 1 + self.hparams.objective_samples
        self._rewards: list[np.ndarray] = []

    def weights(self, rewards_BC: Any, log_probs_BC: Any, exists_BC: Any) -> Any:
        """Returns the weight of each candidate in the gradient, (B, C) float32.

        Args:
            rewards_BC: float32.
            log_probs_BC: float32, without a gradient.
            exists_BC: bool, which candidates are not empty.
        """
        raise NotImplementedError

    def prepare(self, batches: Sequence[Features], update: int, problem: str) -> list[Features]:
        """Returns the batches with candidates and their rewards; see the base class."""
        drawn = self.draw(batches, update, problem)
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
        weights_BC = self.weights(rewards_BC, log_probs_BC, exists_BC)
        weights_BC += self.hparams.objective_likelihood_weight * ops.cast(ops.arange(count) == 0, "float32")
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


@register_objective
class ExpectedReward(SampledObjective):
    """The mean metric of sampled outputs (Wu et al. 2016)."""

    def weights(self, rewards_BC, log_probs_BC, exists_BC):
        """Returns the weights of an unbiased estimate of the gradient of -sum over y of P(y) reward(y).

        Wu et al. 2016 (arXiv:1609.08144, section 5.2, equation 8), who subtract the mean reward of the samples from
        each and divide by K. That mean includes the sample itself, which makes the gradient too small by (K - 1) / K;
        here it is divided by K - 1. The target is not a sample and has weight 0.
        """
        samples_BK = rewards_BC[:, 1:]
        centred_BK = samples_BK - ops.mean(samples_BK, axis=1, keepdims=True)
        return ops.pad(centred_BK / (samples_BK.shape[1] - 1), ((0, 0), (1, 0)))


@register_objective
class MinimumRisk(SampledObjective):
    """The mean metric of sampled outputs, by probabilities normalized over samples and target (Shen et al. 2016)."""

    def prepare(self, batches: Sequence[Features], update: int, problem: str) -> list[Features]:
        """Returns the batches with distinct candidates: repeated samples are left empty; see the base class."""
        prepared = super().prepare(batches, update, problem)
        for candidates_CT in (one for batch in prepared for one in batch[self.CANDIDATES]):
            _, first = np.unique(candidates_CT, axis=0, return_index=True)
            candidates_CT[np.setdiff1d(np.arange(len(candidates_CT)), first)] = PAD_ID
        return prepared

    def weights(self, rewards_BC, log_probs_BC, exists_BC):
        """Returns the weights of the gradient of the risk, divided by the sharpness a.

        Shen et al. 2016 (arXiv:1512.02433, section 3), with the cost -reward: the risk is that of a distribution over
        the candidates alone,
            risk = -sum over y of Q(y) reward(y),    Q(y) = P(y)^a / sum over the candidates z of P(z)^a,
        and its gradient a sum of a Q(y) (reward(y) + risk) times that of -log P(y).
        """
        scaled_BC = self.hparams.objective_sharpness * log_probs_BC
        q_BC = ops.softmax(ops.where(exists_BC, scaled_BC, NO_CANDIDATE), axis=1)
        return q_BC * (rewards_BC - ops.sum(q_BC * rewards_BC, axis=1, keepdims=True))
