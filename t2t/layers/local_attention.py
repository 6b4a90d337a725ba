"""Attention computed only within windows: time and memory grow with the length times the window.

Positions are arranged in rows, of one position in a plain sequence and of a row of pixels in an image, and cut into
blocks. The queries of a block attend to it and to the rows and columns around it; a window says which of these each
query sees. Parmar et al. 2018, *Image Transformer* (arXiv:1802.05751), section 3.3; a `Span` is the restricted
self-attention of *Attention Is All You Need*, section 4.

Legend: B batch, H heads, T positions, K key and U value channels; Y rows and X columns, which make G blocks of R
queries with C keys each.
"""

from collections.abc import Callable

from keras import ops

from t2t.layers.masks import BlockWindow, Grid, Span, score_bias
from t2t.layers.products import float32_product
from t2t.layers.sizes import missing_to_multiple


def local_attention(q_BHTK, k_BHTK, v_BHTU, keep, window: Span | BlockWindow, drop: Callable):
    """Returns softmax(q k^T / sqrt(K)) v over each query's window, (B, H, T, U) in the type of the values.

    Equal to the formula over whole matrices with the window's mask, up to rounding. The output of a query that sees no
    key is an arbitrary mean of values.

    Args:
        q_BHTK: queries.
        k_BHTK: keys, of the same positions.
        v_BHTU: values.
        keep: (B, 1, 1, T) bool, True = may be attended to; None for all.
        window: which keys a query sees; its `grid` is not None.
        drop: dropout on the weights, (B, H, G, R, C).
    """
    grid, length = window.grid, ops.shape(q_BHTK)[2]
    assert grid is not None, "the window is without end, or wide"
    number_11T1 = ops.arange(1, length + 1, dtype="int32")[None, None, :, None]  # 0 where there is no position
    query_11GR1, key_11GC1 = _blocks(number_11T1, grid), _surroundings(number_11T1, grid)
    key_11G1C = ops.swapaxes(key_11GC1, -1, -2)
    seen_BHGRC = ops.logical_and(key_11G1C > 0, window.sees(query_11GR1 - 1, key_11G1C - 1))
    if keep is not None:
        kept_B1GC1 = _surroundings(ops.cast(ops.swapaxes(keep, -1, -2), "int32"), grid)
        seen_BHGRC = ops.logical_and(seen_BHGRC, ops.swapaxes(kept_B1GC1, -1, -2) > 0)
    scale = float(q_BHTK.shape[-1]) ** -0.5
    scores_BHGRC = float32_product(_blocks(q_BHTK * scale, grid), _surroundings(k_BHTK, grid))
    weights_BHGRC = drop(ops.softmax(scores_BHGRC + score_bias(seen_BHGRC), axis=-1))
    found_BHGRU = ops.matmul(ops.cast(weights_BHGRC, v_BHTU.dtype), _surroundings(v_BHTU, grid))
    return _join(found_BHGRU, grid, length)


def _rows(x_BHTK, grid: Grid):
    """Reshapes (B, H, T, K) to (B, H, Y, X, K), zero padded so that Y and X are multiples of the block's."""
    batch, heads, length, channels = ops.shape(x_BHTK)
    missing = missing_to_multiple(length, grid.rows * grid.columns)
    x_BHTK = ops.concatenate([x_BHTK, ops.zeros((batch, heads, missing, channels), x_BHTK.dtype)], axis=2)
    x_BHYXK = ops.reshape(x_BHTK, (batch, heads, (length + missing) // grid.columns, grid.columns, channels))
    beyond = -grid.columns % grid.block_columns
    return ops.pad(x_BHYXK, ((0, 0), (0, 0), (0, 0), (0, beyond), (0, 0))) if beyond else x_BHYXK


def _blocks(x_BHTK, grid: Grid):
    """Splits (B, H, T, K) into blocks, (B, H, G, R, K)."""
    return _flattened(_split(_split(_rows(x_BHTK, grid), 2, grid.rows, 0, 0), 4, grid.block_columns, 0, 0))


def _surroundings(x_BHTK, grid: Grid):
    """Returns each block with the positions around it, (B, H, G, C, K), zeros beyond the ends."""
    by_row = _split(_rows(x_BHTK, grid), 2, grid.rows, grid.above, grid.below)
    return _flattened(_split(by_row, 4, grid.block_columns, grid.beside, grid.beside))


def _split(x, axis: int, size: int, before: int, after: int):
    """Cuts an axis into blocks, each with the end of the block before it and the beginning of the next."""
    shape = ops.shape(x)
    blocks = ops.moveaxis(ops.reshape(x, (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])), axis, 0)
    every = (slice(None),) * (axis + 1)  # up to the positions of a block
    none = ops.zeros_like(blocks[:1])
    parts = [blocks]
    if before:
        parts.insert(0, ops.concatenate([none, blocks[:-1]], axis=0)[(*every, slice(size - before, None))])
    if after:
        parts.append(ops.concatenate([blocks[1:], none], axis=0)[(*every, slice(after))])
    return ops.moveaxis(ops.concatenate(parts, axis=axis + 1), 0, axis)


def _flattened(x):
    """(B, H, blocks of rows, rows, blocks of columns, columns, K) -> (B, H, G, positions of a block, K)."""
    batch, heads, down, rows, across, columns, channels = ops.shape(x)
    by_block = ops.transpose(x, (0, 1, 2, 4, 3, 5, 6))
    return ops.reshape(by_block, (batch, heads, down * across, rows * columns, channels))


def _join(x_BHGRU, grid: Grid, length):
    """(B, H, G, R, U) -> (B, H, T, U), without the padding of `_rows`."""
    batch, heads, count, _, channels = ops.shape(x_BHGRU)
    across = -(-grid.columns // grid.block_columns)
    down = count // across
    x = ops.reshape(x_BHGRU, (batch, heads, down, across, grid.rows, grid.block_columns, channels))
    x = ops.transpose(x, (0, 1, 2, 4, 3, 5, 6))
    x = ops.reshape(x, (batch, heads, down * grid.rows, across * grid.block_columns, channels))[:, :, :, : grid.columns]
    return ops.reshape(x, (batch, heads, down * grid.rows * grid.columns, channels))[:, :, :length]
