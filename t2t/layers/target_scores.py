"""Scores of given targets: their log-probabilities, and whether they are the model's first choice.

Evaluation and scoring need two numbers per position and no gradient, so logits are held for only a block of positions
at a time, as in the training loss (`t2t.layers.output_loss`).

Legend: N positions, D width, V vocabulary, G blocks, R positions of a block.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from t2t.layers.loops import split_blocks, stack
from t2t.layers.losses import class_cross_entropy
from t2t.specs.constants import PAD_ID

BLOCK = 512
"""Most positions whose logits are held at a time."""


class TargetScores(NamedTuple):
    """A model's scores of targets, each given the targets before it."""

    log_probs: Any
    """Natural logarithms of their probabilities, float32, in the shape of the targets; 0 at padding."""
    correct: Any
    """Whether they are the most probable, bool, in the shape of the targets; meaningless at padding."""


def score_logits(logits, targets) -> TargetScores:
    """Returns the scores of targets (...) int32, none of them padding, under logits (..., V) float32."""
    best = ops.cast(ops.argmax(logits, axis=-1), "int32")
    return TargetScores(-class_cross_entropy(logits, targets, 0.0), ops.equal(best, ops.cast(targets, "int32")))


def score_by_blocks(hidden, kernel_DV, targets) -> TargetScores:
    """Returns the scores of targets (...) int32 for hidden states (..., D), any float type, and a float32 kernel.

    The output layer has no bias; padding is scored like any other target.
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


def most_probable(hidden, logits_of: Callable):
    """Returns the most probable id of each hidden state (..., D), never PAD_ID; ties go to the lower id; (...) int32.

    `logits_of` gives the logits (R, V) of hidden states (R, D).
    """
    hidden_GRD = split_blocks(ops.reshape(hidden, (-1, hidden.shape[-1])), BLOCK)
    blocks, rows = ops.shape(hidden_GRD)[:2]

    def of_block(g):
        logits_RV = logits_of(ops.take(hidden_GRD, g, axis=0))
        is_padding_V = ops.equal(ops.arange(logits_RV.shape[-1]), PAD_ID)
        best_R = ops.argmax(ops.where(is_padding_V, -float("inf"), logits_RV), axis=-1)
        return (ops.cast(best_R, "int32"),)

    (best_GR,) = stack(blocks, of_block, (((rows,), "int32"),))
    shape = ops.shape(hidden)[:-1]
    return ops.reshape(ops.reshape(best_GR, (-1,))[: math.prod(shape)], shape)
