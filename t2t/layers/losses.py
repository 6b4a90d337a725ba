"""Losses: summed over tokens and returned with the number of tokens, to be divided after summing over replicas.

Legend: N positions (any leading shape), V vocabulary.
"""

from keras import ops

from t2t.specs.constants import PAD_ID


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
