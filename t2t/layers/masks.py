"""Masks, all of one convention: boolean, True = keep, passed as explicit arguments.

Legend: B batch, T length of the queries, S length of the keys.
"""

import functools
from typing import NamedTuple

from keras import ops

from t2t.specs.constants import PAD_ID

MASKED_SCORE = -1e9
"""Added to an attention score that must not count; finite, so that a row with nothing to keep stays finite."""


def padding_keep(ids_BS):
    """Returns (B, S) bool, True where `ids_BS` (B, S) int holds data."""
    return ops.not_equal(ids_BS, PAD_ID)


def keys_keep(keep_BS, query_BT=None, key_BS=None):
    """Returns (B, 1, 1, S) bool from (B, S) bool: every query may look at the kept keys.

    In rows of several examples, whose numbers are `query_BT` and `key_BS`, see `example_numbers`, it is (B, 1, T, S): a
    query may look at those of its own example.
    """
    keep_B11S = keep_BS[:, None, None, :]
    return keep_B11S if query_BT is None else ops.logical_and(keep_B11S, same_example(query_BT, key_BS))


def example_numbers(position_BT):
    """Returns which example of its row each position is of, from 1 on, (B, T) int32; see `POSITIONS`."""
    return ops.cumsum(ops.cast(ops.equal(position_BT, 0), "int32"), axis=1)


def same_example(query_BT, key_BS):
    """Returns (B, 1, T, S) bool: a query may look at the keys of the same number."""
    return ops.equal(query_BT[:, None, :, None], key_BS[:, None, None, :])


class Span(NamedTuple):
    """Which keys a query may look at by position: query t at keys t - before .. t + after; None = without end."""

    before: int | None = None
    after: int | None = None


EVERYTHING, CAUSAL = Span(), Span(after=0)


def key_offsets(query_T, key_S):
    """Returns the position of each key minus that of each query, (T, S) int32, for positions (T,) and (S,)."""
    return key_S[None, :] - query_T[:, None]


def span_keep(query_T, key_S, span: Span):
    """Returns (T, S) bool from positions of queries (T,) and keys (S,) int32; None where all keys may be looked at."""
    ahead_TS = key_offsets(query_T, key_S)
    keep = [] if span.before is None else [ahead_TS >= -span.before]
    keep += [] if span.after is None else [ahead_TS <= span.after]
    return functools.reduce(ops.logical_and, keep) if keep else None


def score_bias(keep, dtype="float32"):
    """Returns what to add to attention scores: 0 where `keep` is True, MASKED_SCORE elsewhere; same shape."""
    return ops.cast(ops.logical_not(keep), dtype) * MASKED_SCORE
