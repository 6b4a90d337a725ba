"""How a model judges given targets: their log-probabilities, and whether they are its first choice.

Evaluating and scoring need two numbers of each position and no gradient, so that logits are held for a block of
positions at a time, as in the training loss (`t2t.layers.output_loss`).

Legend: N positions, D width, V vocabulary, G blocks, R positions of a block.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t.layers.loops import split_blocks, stack
from t2t.layers.losses import class_cross_entropy

BLOCK = 512
"""Positions whose logits are held at a time, at most."""


class TargetScores(NamedTuple):
    """What a model gives for targets, each judged given the targets before it."""

    log_probs: Any
    """Natural logarithms of their probabilities, float32, the shape of the targets; 0 at padding."""
    correct: Any
    """Whether they are the most probable, bool, the shape of the targets; of no meaning at padding."""


def score_logits(logits, targets) -> TargetScores:
    """Returns the scores of targets (...) int32, none of them padding, under logits (..., V) float32."""
    best = ops.cast(ops.argmax(logits, axis=-1), "int32")
    return TargetScores(-class_cross_entropy(logits, targets, 0.0), ops.equal(best, ops.cast(targets, "int32")))


def score_by_blocks(hidden, kernel_DV, targets) -> TargetScores:
    """Returns the scores of targets (...) int32 for hidden states (..., D), any float type, and a float32 kernel.

    The output layer has no bias, and no target is taken for padding.
    """
    targets_N = ops.reshape(targets, (-1,))
    hidden_GRD = split_blocks(ops.reshape(hidden, (-1, hidden.shape[-1])), BLOCK)
    targets_GR = split_blocks(targets_N, BLOCK)
    blocks, rows = ops.shape(targets_GR)

    def of_block(g):
        hidden_RD = ops.cast(ops.take(hidden_GRD, g, axis=0), "float32")
        return score_logits(ops.matmul(hidden_RD, kernel_DV), ops.take(targets_GR, g, axis=0))

    found = stack(blocks, of_block, (((rows,), "float32"), ((rows,), "bool")))
    count, shape = ops.shape(targets_N)[0], ops.shape(targets)
    return TargetScores(*(ops.reshape(ops.reshape(x_GR, (-1,))[:count], shape) for x_GR in found))
