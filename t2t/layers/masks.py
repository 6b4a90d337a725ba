"""Masks, all of one convention: boolean, True = keep, passed as explicit arguments.

Legend: B batch, T length of the queries, S length of the keys.
"""

import functools
from typing import NamedTuple

from keras import ops

from t2t.specs.constants import EOS_ID, PAD_ID

MASKED_SCORE = -1e9
"""Added to an attention score that must not count; finite, so that a row with nothing to keep stays finite."""


def padding_keep(ids_BS):
    """Returns (B, S) bool, True where `ids_BS` (B, S) int holds data."""
    return ops.not_equal(ids_BS, PAD_ID)


def words_keep(ids_BS):
    """Returns (B, S) bool, True where `ids_BS` (B, S) int holds words: data without ends of sequence.

    Of an empty sequence, at the beginning of a row or after the end of another one, the end is kept.
    """
    is_end_BS = ops.equal(ids_BS, EOS_ID)
    begins_BS = ops.pad(is_end_BS[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    return ops.logical_and(padding_keep(ids_BS), ops.logical_or(begins_BS, ops.logical_not(is_end_BS)))


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


WIDEST_GRID = 512
"""Most positions to a side for which each block of queries has its own copy of keys; more would take much memory."""


class Grid(NamedTuple):
    """Rows of positions, cut into blocks, and what is around a block; each number is one of positions."""

    columns: int
    """Positions of a row."""
    rows: int
    """Of a block, as all that follow."""
    block_columns: int
    above: int
    """Rows above a block, at most `rows`."""
    below: int
    """Rows below a block, at most `rows`."""
    beside: int
    """Columns on either side, at most `block_columns`."""

    @property
    def positions(self) -> int:
        """Positions that the queries of a block look at."""
        return (self.above + self.rows + self.below) * (self.block_columns + 2 * self.beside)


class Span(NamedTuple):
    """Which keys a query may look at by position: query t at keys t - before .. t + after; None = without end."""

    before: int | None = None
    after: int | None = None

    def sees(self, query, key):
        """Returns bool for positions int32 that can be broadcast; None where all keys may be looked at."""
        ahead = key - query
        keep = [] if self.before is None else [ahead >= -self.before]
        keep += [] if self.after is None else [ahead <= self.after]
        return functools.reduce(ops.logical_and, keep) if keep else None

    @property
    def grid(self) -> Grid | None:
        """Blocks of queries that have their keys beside them; None where it is without end, or wide."""
        if self.before is None or self.after is None or max(self.before, self.after) > WIDEST_GRID:
            return None
        return Grid(1, max(self.before, self.after, 1), 1, self.before, self.after, 0)


class BlockWindow(NamedTuple):
    """Which keys a query may look at: those up to its position in its block of a grid and around the block."""

    grid: Grid
    after: int = 0

    def sees(self, query, key):
        """Returns bool for positions int32 that can be broadcast."""
        columns, rows, block_columns, above, below, beside = self.grid
        top, left = query // columns // rows * rows, query % columns // block_columns * block_columns
        down, right = key // columns - top, key % columns - left
        inside = (
            key <= query, down >= -above, down < rows + below, right >= -beside, right < block_columns + beside
        )  # fmt: skip
        return functools.reduce(ops.logical_and, inside)


EVERYTHING, CAUSAL = Span(), Span(after=0)


def key_offsets(query_T, key_S):
    """Returns the position of each key minus that of each query, (T, S) int32, for positions (T,) and (S,)."""
    return key_S[None, :] - query_T[:, None]


def span_keep(query_T, key_S, span: Span | BlockWindow):
    """Returns (T, S) bool from positions of queries (T,) and keys (S,) int32; None where all keys may be looked at."""
    return span.sees(query_T[:, None], key_S[None, :])


def score_bias(keep, dtype="float32"):
    """Returns what to add to attention scores: 0 where `keep` is True, MASKED_SCORE elsewhere; same shape."""
    return ops.cast(ops.logical_not(keep), dtype) * MASKED_SCORE
