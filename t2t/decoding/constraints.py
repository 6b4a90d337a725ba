"""What a row may write next, whatever the model would.

Legend: N rows, P prefix length, V vocabulary.
"""

from typing import Any

from keras import ops

from t2t.constants import PAD_ID

_FORBIDDEN = -1e9


def never_padding(log_probs_NV: Any) -> Any:
    """Returns log-probabilities (N, V) in which padding has none; the little it had goes to no other id."""
    is_padding_V = ops.equal(ops.arange(log_probs_NV.shape[-1]), PAD_ID)
    return ops.where(is_padding_V[None, :], _FORBIDDEN, log_probs_NV)


def forced(log_probs_NV: Any, prefix_NP: Any, position: Any) -> Any:
    """Where a prefix still goes on, makes its next id certain, so that it costs nothing.

    Args:
        log_probs_NV: (N, V) float.
        prefix_NP: (N, P) int32, zero padded; None where there are no prefixes.
        position: () int32, how many ids have been written.

    Returns:
        (N, V), changed in the rows whose prefix is longer than `position`.
    """
    if prefix_NP is None:
        return log_probs_NV
    width = ops.shape(prefix_NP)[1]
    column_N = ops.take(prefix_NP, ops.minimum(position, width - 1), axis=1)
    wanted_N = ops.where(ops.less(position, width), column_N, PAD_ID)
    is_wanted_NV = ops.equal(ops.arange(log_probs_NV.shape[-1])[None, :], wanted_N[:, None])
    forced_NV = ops.where(is_wanted_NV, 0.0, _FORBIDDEN)
    return ops.where(ops.not_equal(wanted_N, PAD_ID)[:, None], forced_NV, log_probs_NV)
