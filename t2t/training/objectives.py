"""Training objectives: the negative log-likelihood of targets given earlier targets, or also the model's predictions.

Objectives over sampled outputs are in `t2t.training.sampled_objectives`.

Legend: B batch, T target length.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t.backends.update import BatchLoss, Features
from t2t.layers.costs import without_costs
from t2t.layers.dropout import GivenSeed
from t2t.models.base import SequenceModel
from t2t.specs.constants import PAD_ID, TARGETS


class Likelihood:
    """The negative log-likelihood of the targets, with label smoothing; the base of other objectives."""

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


class ScheduledSampling(Likelihood):
    """The likelihood of targets given a mix of earlier targets and predictions.

    Bengio et al. 2015 (arXiv:1506.03099), in two passes as Mihaylova and Martins 2019 (arXiv:1906.07651): the first
    predicts all tokens from the targets, without dropout and gradient; the second reads a prediction in place of a
    target with the probability p min(1, update / warm-up). Predictions are the most probable tokens.

    Args:
        probability: p.
        warmup_steps: updates over which the probability rises.
    """

    SHARE = "scheduled_sampling_share"

    def __init__(self, probability: float, warmup_steps: int):
        self._probability, self._warmup = probability, max(warmup_steps, 1)

    def prepare(self, batches: Sequence[Features], update: int, problem: str) -> list[Features]:
        """Returns the batches with the probability at this update; see the base class."""
        share = np.float32(self._probability * min(1.0, update / self._warmup))
        return [{**batch, self.SHARE: np.asarray(share)} for batch in batches]

    def loss(self, model: SequenceModel, features: Features, seed: Any) -> BatchLoss:
        """Returns the loss of the second pass; see the base class."""
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
