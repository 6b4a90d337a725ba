"""Losses: summed over tokens and returned with the number of tokens, to be divided after summing over replicas.

With a vocabulary of 32,000 the logits of a batch are larger than everything else that an update keeps, and each row is
needed only once. In training, a block of logits is computed, and reduced to its losses and its part of the gradients
while it is in the processor's cache. On a GPU, whose caches hold less than that, blocks are larger. Evaluation and
scoring need two numbers per position and no gradient: the log-probabilities of given targets, and whether they are the
model's first choice. They hold the logits of a block, too.

Legend: N positions (any leading shape), D width, V vocabulary, G blocks, R positions of a block.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
from keras import ops

from t2t.layers.loops import fold, split_blocks, stack
from t2t.layers.mode import custom_gradient
from t2t.layers.tensors import Tensor
from t2t.specs import PAD_ID


def class_cross_entropy(logits_NV, targets_N, smoothing: float, kind: str = "all"):
    """Returns the label-smoothed cross-entropy of each target, padding included; mask it with `token_weights`.

    The target distribution is (1 - e) * one-hot + e / K over the K = V entries (Szegedy et al. 2016, section 7, which
    section 5.4 of the paper cites). It is never built: the loss is logsumexp(z) - (1 - e) * z_target - e * mean(z).

    Args:
        logits_NV: (..., V), any float type.
        targets_N: (...) int32.
        smoothing: e.
        kind: `all`, as above; `others`: 1 - e for the target and e / (K - 1) for every other entry, as in
            Tensor2Tensor, which reports this loss minus its minimum, a constant.

    Returns:
        (N,) float32, nats.
    """
    logits = ops.cast(logits_NV, "float32")
    smoothing = smoothing_of_all(smoothing, kind, logits.shape[-1])
    gold_N = ops.squeeze(ops.take_along_axis(logits, ops.cast(targets_N, "int32")[..., None], axis=-1), axis=-1)
    loss_N = ops.logsumexp(logits, axis=-1) - (1.0 - smoothing) * gold_N
    if smoothing:
        loss_N = loss_N - smoothing * ops.mean(logits, axis=-1)
    return loss_N


def smoothing_of_all(smoothing: float, kind: str, vocab_size: int) -> float:
    """Converts e to that of kind `all` with the same target distribution; for `others`, e' / K = e / (K - 1).

    A vocabulary of one entry has no others, and keeps e.
    """
    return smoothing * vocab_size / (vocab_size - 1) if kind == "others" and vocab_size > 1 else smoothing


def token_weights(targets_N):
    """Returns 1.0 at data and 0.0 at padding, the shape of `targets_N`, float32."""
    return ops.cast(ops.not_equal(targets_N, PAD_ID), "float32")


BLOCK = 512
"""Most positions whose logits are held at a time."""


class TargetScores(NamedTuple):
    """A model's scores of targets, each given the targets before it."""

    log_probs: Tensor
    """Natural logarithms of their probabilities, float32, in the shape of the targets; 0 at padding."""
    correct: Tensor
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


BLOCKS = {"cpu": 512, "gpu": 2048}
"""Most positions whose logits are held at a time, by kind of device.

Each block launches its kernels and rewrites the gradients, (V, D) and (N, D). On a CPU that costs little, on a GPU,
which multiplies far faster, it matters. Blocks four times as large reduce this cost to a quarter, and hold 262 MB of
float32 logits with a vocabulary of 32,000.
"""


def block_size(devices: Sequence[str] = ()) -> int:
    """Returns the entry of `BLOCKS` for devices, by default those of this process; that of a GPU if it has one."""
    kind = (devices or keras.distribution.list_devices())[0].split(":")[0]
    return BLOCKS.get(kind, BLOCKS["gpu"])


def linear_cross_entropy(hidden, kernel_VD, targets, smoothing: float, kind: str = "all", weights=None):
    """Returns the smoothed cross-entropy under an output layer without bias, summed over positions: () float32, nats.

    It is the sum of `t2t.layers.losses.class_cross_entropy` of `hidden @ kernel^T` over positions without padding. Its
    gradients are computed with it, so use it only in training. `hidden` is (..., D) of any float type, which is that of
    the products; the kernel is float32, and `targets` is (...) int32. `weights` (...) float32 are factors of the losses
    in place of 1 at data and 0 at padding; they have no gradient.
    """
    targets_N = ops.reshape(targets, (-1,))
    weights_N1 = ops.reshape(token_weights(targets) if weights is None else weights, (-1, 1))
    smoothing = smoothing_of_all(smoothing, kind, kernel_VD.shape[0])

    @custom_gradient
    def loss_of(hidden_ND, kernel_VD):
        loss, gradients = _loss_and_gradients(hidden_ND, kernel_VD, targets_N, weights_N1, smoothing)

        def gradient(upstream):
            # In float32, since a factor of 65,520 or more would be infinite in float16.
            return tuple(ops.cast(upstream * ops.cast(g, "float32"), g.dtype) for g in gradients)

        return loss, gradient

    # Reshaped, since a function with a custom gradient takes tensors but no variables.
    return loss_of(ops.reshape(hidden, (-1, hidden.shape[-1])), ops.reshape(kernel_VD, kernel_VD.shape))


def _loss_and_gradients(hidden_ND, kernel_VD, targets_N, weights_N1, e: float):
    """Returns the loss, and its gradients (N, D) in the type of the hidden states and (V, D) float32.

    A position of weight w and logits z = h k^T has the loss
        w (ln sum_v exp z_v - (1 - e) z_target - e mean_v z_v),
    whose gradient with regard to z_v is
        w (softmax(z)_v - (1 - e) [v = target] - e / V).
    The blocks compute the loss of the target and the products with the softmax of the other ids; the terms with e are
    linear in h and need no logits. The target's own gradient, w (softmax(z)_target - 1 + e), is nearly 0 once a token
    is learnt: as a difference of two products rounded to 16 bits it would be lost, so it is computed in float32.
    """
    dtype, vocab_size = hidden_ND.dtype, kernel_VD.shape[0]
    loss, missing_N1, soft_ND, soft_VD = _over_blocks(hidden_ND, ops.cast(kernel_VD, dtype), targets_N, weights_N1, e)

    weighted_ND = ops.cast(hidden_ND, "float32") * weights_N1
    sum_D, mean_D = ops.sum(weighted_ND, axis=0), ops.mean(kernel_VD, axis=0)
    loss = loss - e * ops.sum(sum_D * mean_D)
    hard_ND = missing_N1 * ops.take(kernel_VD, targets_N, axis=0) + e * mean_D
    hard_VD = ops.segment_sum(missing_N1 * weighted_ND, targets_N, num_segments=vocab_size) + (e / vocab_size) * sum_D
    return loss, (soft_ND - ops.cast(hard_ND * weights_N1, dtype), soft_VD - hard_VD)


def _over_blocks(hidden_ND, kernel_VD, targets_N, weights_N1, e: float):
    """Returns the terms that need logits, float32 but for the gradient (N, D).

    They are the sum of the losses (), what the target's probability lacks to 1 - e (N, 1), and the gradients (N, D) and
    (V, D) by the other ids.
    """
    count = ops.shape(targets_N)[0]
    most = block_size()
    blocks = tuple(split_blocks(x, most) for x in (hidden_ND, targets_N, weights_N1))

    def advance(g, loss, missing_GR1, gradient_GRD, gradient_VD):
        of_block, missing_R1, rows_RD, rows_VD = _block(*(ops.take(x, g, axis=0) for x in blocks), kernel_VD, e)
        return loss + of_block, _push(missing_GR1, missing_R1), _push(gradient_GRD, rows_RD), gradient_VD + rows_VD

    start = (ops.zeros(()), ops.zeros_like(blocks[2]), ops.zeros_like(blocks[0]), ops.zeros(kernel_VD.shape))
    loss, missing_GR1, gradient_GRD, gradient_VD = fold(0, ops.shape(blocks[0])[0], advance, start)
    missing_N1, gradient_ND = (ops.reshape(x, (-1, x.shape[-1]))[:count] for x in (missing_GR1, gradient_GRD))
    return loss, missing_N1, gradient_ND, gradient_VD


def _push(blocks, block):
    """Moves blocks up by one and adds one at the end: after G of them the first is first, on every backend."""
    return ops.concatenate([blocks[1:], block[None]], axis=0)


def _block(hidden_RD, targets_R, weights_R1, kernel_VD, e: float):
    """Returns one block's part of the result of `_over_blocks`."""
    dtype = hidden_RD.dtype
    # A 16-bit product, unlike for logits that are ranked: float32 would cost too much time in every update.
    logits_RV = ops.cast(ops.matmul(hidden_RD, ops.transpose(kernel_VD)), "float32")
    # The softmax is one kernel; of its largest entry, at least 1 / V, the logarithm is safe.
    soft_RV = ops.softmax(logits_RV, axis=-1)
    total_R1 = ops.max(logits_RV, axis=-1, keepdims=True) - ops.log(ops.max(soft_RV, axis=-1, keepdims=True))
    target_R1 = ops.take_along_axis(logits_RV, targets_R[:, None], axis=-1)
    losses_R1 = total_R1 - (1.0 - e) * target_R1
    missing_R1 = 1.0 - e - ops.exp(target_R1 - total_R1)
    weight_R1, soft_RV = ops.cast(weights_R1, dtype), _zero_at(ops.cast(soft_RV, dtype), targets_R)
    gradient_RD = ops.matmul(soft_RV, kernel_VD) * weight_R1
    gradient_VD = ops.matmul(ops.transpose(soft_RV), hidden_RD * weight_R1)
    return ops.sum(losses_R1 * weights_R1), missing_R1, gradient_RD, ops.cast(gradient_VD, "float32")


def _zero_at(values_RV, ids_R):
    """Returns values with a 0 in each row, at its id."""
    rows_R = ops.arange(ops.shape(ids_R)[0], dtype=ids_R.dtype)
    return ops.scatter_update(values_RV, ops.stack([rows_R, ids_R], axis=1), ops.zeros_like(values_RV[:, 0]))
