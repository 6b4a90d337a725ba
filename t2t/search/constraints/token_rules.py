"""Rules on the next token: no padding, no early end, no repeated n-grams, given prefixes.

Legend: N rows, P prefix length, T room for tokens, V vocabulary.
"""

from typing import Any

from keras import ops

from t2t.search.step import NextToken, all_log_probs
from t2t.specs.constants import EOS_ID, PAD_ID

_FORBIDDEN = -1e9


def forbid_padding(found: NextToken) -> NextToken:
    """Forbids the padding id; its probability is not redistributed."""
    return found._replace(never=PAD_ID)


def force_prefix(found: NextToken, prefix_NP: Any, position: Any) -> NextToken:
    """Forces the next id of a prefix, with log-probability 0.

    Args:
        found: the model's scores, kept in rows whose prefix has no id at `position`.
        prefix_NP: (N, P) int32, zero padded; None where there are no prefixes.
        position: () int32, how many ids have been written.
    """
    if prefix_NP is None:
        return found
    width = ops.shape(prefix_NP)[1]

    def forced_scores():
        wanted_N = ops.take(prefix_NP, ops.minimum(position, width - 1), axis=1)
        is_wanted_NV = ops.equal(found.columns[None, :], wanted_N[:, None])
        # As a log-probability, and as a logit that outweighs all others.
        certain_NV = ops.where(is_wanted_NV, 0.0, _FORBIDDEN)
        return ops.where(ops.not_equal(wanted_N, PAD_ID)[:, None], certain_NV, found.scores)

    return found._replace(scores=ops.cond(position < width, forced_scores, lambda: found.scores))


def as_log_probs(found: NextToken, vocab_size: int) -> NextToken:
    """Converts scores to log-probabilities, so that forbidding a token does not redistribute its probability."""
    return found._replace(scores=all_log_probs(found, vocab_size), normalised=True, never=None)


def delay_end(found: NextToken, position: Any, min_length: int) -> NextToken:
    """Forbids end of sequence before `min_length` tokens, except in rows where nothing else may be written.

    `found` has log-probabilities.
    """
    early_V = ops.logical_and(ops.equal(found.columns, EOS_ID), position < min_length)
    delayed_NV = ops.where(early_V[None, :], -float("inf"), found.scores)
    has_others_N1 = ops.any(delayed_NV > -float("inf"), axis=-1, keepdims=True)
    return found._replace(scores=ops.where(has_others_N1, delayed_NV, found.scores))


def penalise_end(found: NextToken, penalty: float) -> NextToken:
    """Lowers the log-probability of end of sequence by `penalty`, at least 0; `found` has log-probabilities."""
    is_end_V = ops.equal(found.columns, EOS_ID)
    return found._replace(scores=found.scores - penalty * ops.cast(is_end_V, "float32")[None, :])


def forbid_repeats(found: NextToken, ids_NT: Any, position: Any, size: int, vocab_size: int) -> NextToken:
    """Forbids tokens that would repeat an n-gram of `size` tokens of the same row; `found` has log-probabilities.

    Paulus et al. 2018 (arXiv:1705.04304), section 2.5.

    Args:
        found: the model's scores.
        ids_NT: (N, T) int32, tokens so far.
        position: () int32, their number.
        size: n, at least 1.
        vocab_size: number of all tokens.
    """
    rows, width = ops.shape(ids_NT)
    starts_T = ops.arange(width, dtype="int32")
    # An n-gram that begins at t is repeated by its last token if its others are the last tokens written.
    repeats_NT = ops.broadcast_to(starts_T + size <= position, (rows, width))
    for offset in range(size - 1):
        written_N1 = ops.take(ids_NT, ops.maximum(position - size + 1 + offset, 0), axis=1)[:, None]
        repeats_NT = ops.logical_and(repeats_NT, ops.equal(ops.roll(ids_NT, -offset, axis=1), written_N1))
    last_NT = ops.where(repeats_NT, ops.roll(ids_NT, 1 - size, axis=1), vocab_size)  # a column after all tokens
    numbers_NT = ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], (rows, width))
    places = ops.stack([ops.reshape(numbers_NT, (-1,)), ops.reshape(last_NT, (-1,))], axis=1)
    forbidden_NV = ops.scatter(places, ops.ones_like(places[:, 0]), (rows, vocab_size + 1)) > 0
    forbidden_NV = forbidden_NV[:, :-1] if found.ids is None else ops.take(forbidden_NV, found.ids, axis=1)
    return found._replace(scores=ops.where(forbidden_NV, -float("inf"), found.scores))
