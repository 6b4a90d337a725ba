"""What a row may write next, whatever the model would.

Legend: N rows, P prefix length, V vocabulary.
"""

from typing import Any

from keras import ops

from t2t.decoding.step import NextToken
from t2t.specs.constants import PAD_ID

_FORBIDDEN = -1e9


def never_padding(found: NextToken) -> NextToken:
    """Returns the same without padding; the little probability it had goes to no other id."""
    return found._replace(never=PAD_ID)


def forced(found: NextToken, prefix_NP: Any, position: Any) -> NextToken:
    """Where a prefix still goes on, makes its next id certain, so that it costs nothing.

    Args:
        found: of the next token.
        prefix_NP: (N, P) int32, zero padded; None where there are no prefixes.
        position: () int32, how many ids have been written.

    Returns:
        The same but in the rows whose prefix is longer than `position`.
    """
    if prefix_NP is None:
        return found
    width = ops.shape(prefix_NP)[1]

    def certain():
        wanted_N = ops.take(prefix_NP, ops.minimum(position, width - 1), axis=1)
        is_wanted_NV = ops.equal(ops.arange(found.scores.shape[-1])[None, :], wanted_N[:, None])
        # As a log-probability, and as a logit beside which the others are nothing.
        certain_NV = ops.where(is_wanted_NV, 0.0, _FORBIDDEN)
        return ops.where(ops.not_equal(wanted_N, PAD_ID)[:, None], certain_NV, found.scores)

    return found._replace(scores=ops.cond(position < width, certain, lambda: found.scores))
