"""Constraints on the next token: some tokens alone, no padding, given prefixes.

Legend: N rows, P prefix length, V vocabulary.
"""

from typing import Any

from keras import ops

from t2t.decoding.step import NextToken
from t2t.specs.constants import PAD_ID

_FORBIDDEN = -1e9


def allow_only(found: NextToken, allowed_NV: Any) -> NextToken:
    """Forbids tokens of each row, which then have no probability; `allowed_NV` is bool, True at the others."""
    return found._replace(scores=ops.where(allowed_NV, found.scores, -float("inf")))


def forbid_padding(found: NextToken) -> NextToken:
    """Forbids the padding id; its probability is not given to other ids."""
    return found._replace(never=PAD_ID)


def force_prefix(found: NextToken, prefix_NP: Any, position: Any) -> NextToken:
    """Forces the next id of a prefix, with log-probability 0.

    Args:
        found: unchanged in rows whose prefix has no id at `position`.
        prefix_NP: (N, P) int32, zero padded; None where there are no prefixes.
        position: () int32, how many ids have been written.
    """
    if prefix_NP is None:
        return found
    width = ops.shape(prefix_NP)[1]

    def forced_scores():
        wanted_N = ops.take(prefix_NP, ops.minimum(position, width - 1), axis=1)
        is_wanted_NV = ops.equal(found.columns[None, :], wanted_N[:, None])
        # As a log-probability, and as a logit beside which the others are nothing.
        certain_NV = ops.where(is_wanted_NV, 0.0, _FORBIDDEN)
        return ops.where(ops.not_equal(wanted_N, PAD_ID)[:, None], certain_NV, found.scores)

    return found._replace(scores=ops.cond(position < width, forced_scores, lambda: found.scores))
