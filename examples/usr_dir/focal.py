"""An objective: the focal loss, in which tokens that the model predicts well count less (Lin et al. 2017, section 3).

    t2t-trainer --hparams=objective=my_focal ...

Legend: B batch, T target length, V vocabulary.
"""

from keras import ops

from t2t import register_objective
from t2t.layers.mode import without_costs
from t2t.training.objectives import BatchLoss, TrainingObjective

GAMMA = 2.0
"""With 0 it would be the likelihood without label smoothing."""


@register_objective
class MyFocal(TrainingObjective):
    """Focal loss: -(1 - p)^2 log p of each target token (Lin et al. 2017, arXiv:1708.02002)."""

    def loss(self, model, features, seed):
        """Returns the sum to minimize, and the likelihood that is reported."""
        targets_BT = features["targets"]
        hidden = model.body(features, seed=seed)
        loss_sum, tokens = model.loss_sum(hidden, targets_BT)
        logits_BTV = model.logits(without_costs(hidden))
        log_probs_BT = -ops.sparse_categorical_crossentropy(targets_BT, logits_BTV, from_logits=True)
        focal_BT = -((1.0 - ops.exp(log_probs_BT)) ** GAMMA) * log_probs_BT
        is_token_BT = ops.cast(ops.not_equal(targets_BT, 0), "float32")
        return BatchLoss(ops.sum(focal_BT * is_token_BT), loss_sum, tokens)
