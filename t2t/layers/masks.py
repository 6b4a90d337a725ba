"""Masks, all of one convention: boolean, True = keep, passed as explicit arguments. And attention's probabilities.

Scores and probabilities are float32, and probabilities are recorded on request. In bfloat16 a score of 30 would be off
by up to 0.06, and its probability by 6 percent.

Legend: B batch, H heads, T length of the queries, S length of the keys, P positions, D width, K the axis of a product
that is summed over.
"""

import functools
from typing import NamedTuple

from keras import ops

from t2t.layers.mode import current_mode, custom_gradient, entry_name
from t2t.specs import EOS_ID, PAD_ID

MASKED_SCORE = -1e9
"""Added to an attention score that must not count; finite, so that a row with nothing to keep stays finite."""


def padding_keep(ids_BS):
    """Returns (B, S) bool, True where `ids_BS` (B, S) int holds data."""
    return ops.not_equal(ids_BS, PAD_ID)


def words_keep(ids_BS):
    """Returns (B, S) bool, True where `ids_BS` (B, S) int holds words: data without ends of sequence.

    The end of an empty sequence is kept: one at the beginning of a row or right after another end.
    """
    is_end_BS = ops.equal(ids_BS, EOS_ID)
    begins_BS = ops.pad(is_end_BS[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    return ops.logical_and(padding_keep(ids_BS), ops.logical_or(begins_BS, ops.logical_not(is_end_BS)))


def keys_keep(keep_BS, query_BT=None, key_BS=None):
    """Returns (B, 1, 1, S) bool from (B, S) bool: every query may attend to the kept keys.

    In packed rows, a query may attend only to keys of its own example: with `query_BT` and `key_BS`, which come from
    `example_numbers`, the mask is (B, 1, T, S).
    """
    keep_B11S = keep_BS[:, None, None, :]
    return keep_B11S if query_BT is None else ops.logical_and(keep_B11S, same_example(query_BT, key_BS))


def example_numbers(position_BT):
    """Returns the number, from 1, of each position's example in its packed row, (B, T) int32; see `POSITIONS`."""
    return ops.cumsum(ops.cast(ops.equal(position_BT, 0), "int32"), axis=1)


def same_example(query_BT, key_BS):
    """Returns (B, 1, T, S) bool: a query may attend to keys with the same example number."""
    return ops.equal(query_BT[:, None, :, None], key_BS[:, None, None, :])


WIDEST_GRID = 512
"""Widest span, in positions to a side, that `local_attention` computes: each block of queries copies its keys."""


class Grid(NamedTuple):
    """Positions in rows, cut into blocks of queries, and the surroundings of a block that it attends to."""

    columns: int
    """Positions of a row."""
    rows: int
    """Rows of a block."""
    block_columns: int
    above: int
    """Rows above a block, at most `rows`."""
    below: int
    """Rows below a block, at most `rows`."""
    beside: int
    """Columns on either side, at most `block_columns`."""

    @property
    def positions(self) -> int:
        """Positions that the queries of a block attend to."""
        return (self.above + self.rows + self.below) * (self.block_columns + 2 * self.beside)


class Span(NamedTuple):
    """Which keys a query may attend to, by position: query t to keys t - before .. t + after; None = unlimited."""

    before: int | None = None
    after: int | None = None

    def sees(self, query, key):
        """Returns a bool mask for broadcastable int32 positions; None if all keys may be attended to."""
        ahead = key - query
        keep = [] if self.before is None else [ahead >= -self.before]
        keep += [] if self.after is None else [ahead <= self.after]
        return functools.reduce(ops.logical_and, keep) if keep else None

    @property
    def grid(self) -> Grid | None:
        """The blocks of `local_attention`; None if the span is unlimited or wide."""
        if self.before is None or self.after is None or max(self.before, self.after) > WIDEST_GRID:
            return None
        return Grid(1, max(self.before, self.after, 1), 1, self.before, self.after, 0)


class BlockWindow(NamedTuple):
    """Which keys a query may attend to: those up to its position, in its block of a grid and around the block."""

    grid: Grid
    after: int = 0

    def sees(self, query, key):
        """Returns a bool mask for broadcastable int32 positions."""
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
    """Returns (T, S) bool from positions of queries (T,) and keys (S,) int32; None if all keys may be attended to."""
    return span.sees(query_T[:, None], key_S[None, :])


def score_bias(keep):
    """Returns what to add to attention scores: 0 where `keep` is True, MASKED_SCORE elsewhere; same shape, float32."""
    return ops.cast(ops.logical_not(keep), "float32") * MASKED_SCORE


def mean_of_kept(x_BPD, keep_BP):
    """Returns (B, D), the mean over the positions where `keep_BP` (B, P) bool is True; zeros if there is none.

    The result has the type of `x_BPD` (B, P, D); sum and count are float32, since bfloat16 cannot represent all counts
    above 256.
    """
    weights_BP1 = ops.cast(keep_BP, "float32")[..., None]
    sum_BD = ops.sum(ops.cast(x_BPD, "float32") * weights_BP1, axis=1)
    return ops.cast(sum_BD / ops.maximum(ops.sum(weights_BP1, axis=1), 1.0), x_BPD.dtype)


# === Scores and probabilities, for every layer that attends ===


def float32_product(x_TK, y_SK):
    """Returns x y^T, (..., T, S) float32, for (..., T, K) and (..., S, K) of one float type and equal leading axes.

    16-bit operands are multiplied as float32: each of their products is exact, also in TensorFloat-32, whose 11
    significant bits hold theirs. Gradients are products in the type of the operands; only the operands are kept for
    them.
    """
    if x_TK.dtype == "float32":
        return current_mode().kernels.product(x_TK, y_SK, transposed=True)

    @custom_gradient
    def product(x_TK, y_SK):
        def gradient(up_TS):
            up_TS = ops.cast(up_TS, x_TK.dtype)
            return ops.matmul(up_TS, y_SK), ops.matmul(ops.swapaxes(up_TS, -1, -2), x_TK)

        return current_mode().kernels.float32_product(x_TK, y_SK), gradient

    return product(x_TK, y_SK)


def looks_at_source(path: str) -> bool:
    """Returns whether the layer of a path attends to the source, and not to its own sequence."""
    return not path.endswith("self_attention")


def probabilities(scores, keep, layer: str):
    """Returns the softmax over the keys (section 3.2.1 of *Attention Is All You Need*), float32.

    Args:
        scores: (B, H, T, S), or (B, T, S) of one head; preferably float32, see `float32_product`.
        keep: bool, broadcastable to the scores; True = may be attended to. None for all.
        layer: path of the layer.
    """
    scores = ops.cast(scores, "float32")
    mode = current_mode()
    weights = mode.kernels.softmax(scores if keep is None else scores + score_bias(keep))
    if (record := mode.record) is not None:
        record.setdefault(entry_name(layer), []).append(weights if len(weights.shape) == 4 else weights[:, None])
    return weights
