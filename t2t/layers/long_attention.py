"""Attention of long sequences, whose memory does not grow with the square of their length: by blocks or in windows.

By blocks, scores are never kept: the softmax is computed with a running maximum and a running sum (Milakov and
Gimelshein 2018, arXiv:1805.02867), and the gradient recomputes each block from the logarithm of that sum (Dao et al.
2022, arXiv:2205.14135, section 3.1 and appendix B). Blocks outside the span are skipped.

In windows, time grows with the length times the window, too. Positions are arranged in rows, of one position in a plain
sequence and of a row of pixels in an image, and cut into blocks. The queries of a block attend to it and to the rows
and columns around it; a window says which of these each query sees. Parmar et al. 2018, *Image Transformer*
(arXiv:1802.05751), section 3.3; a `Span` is the restricted self-attention of *Attention Is All You Need*, section 4.

Legend: B batch, H heads, T queries, S keys, K key channels and U value channels of one head; G blocks of R positions of
the queries, J blocks of C positions of the keys; in windows Y rows and X columns, and C keys for each block of queries.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from t2t.layers.dropout import random_keep
from t2t.layers.loops import fold, split_blocks, stack
from t2t.layers.masks import MASKED_SCORE, BlockWindow, Grid, Span, float32_product, score_bias, span_keep
from t2t.layers.mode import custom_gradient
from t2t.layers.tensors import Tensor, missing_to_multiple

BLOCK = 512
"""Most positions of a block."""


class WeightDropout(NamedTuple):
    """Dropout on the attention weights: a mask for each pair of blocks, the same at every call."""

    rate: float
    seed: Tensor
    """(2,) int, or what the backend's generator takes."""

    def scale(self, shape, query_block, key_block):
        """Returns 0 where a weight is dropped and 1 / (1 - rate) elsewhere, float32 of `shape`."""
        pair = ops.cast(ops.stack([query_block, key_block]), self.seed.dtype)
        keep = random_keep(shape, self.rate, ops.concatenate([self.seed[:2] + pair * _STRIDE, self.seed[2:]]))
        return ops.cast(keep, "float32") * (1.0 / (1.0 - self.rate))


_STRIDE = 1_000_003
"""Difference between the seeds of neighbouring blocks; those of layers and updates differ by hashes."""


def blockwise_attention(
    q_BHTK, k_BHSK, v_BHSU, keys_keep, span: Span, dropout: WeightDropout | None = None, block: int = BLOCK
):
    """Returns softmax(q k^T / sqrt(K)) v (section 3.2.1, equation 1), (B, H, T, U) in the type of the values.

    Equal to the formula over whole matrices up to rounding. The output of a query that sees no key is an arbitrary mean
    of values. `keys_keep` is (B, 1, 1, S) bool, True = may be attended to; None for all. A block has at most `block`
    positions.
    """
    batch, keys = ops.shape(k_BHSK)[0], ops.shape(k_BHSK)[2]
    keep_BS = ops.ones((batch, keys), "bool") if keys_keep is None else keys_keep[:, 0, 0, :]
    scale = float(q_BHTK.shape[-1]) ** -0.5
    seeds = () if dropout is None else (dropout.seed,)

    @custom_gradient
    def attend(q, k, v, keep_BS, *seeds):
        parts = (split_blocks(x, block, 2) for x in (q * scale, k, v))
        own_dropout = dropout and dropout._replace(seed=seeds[0])
        work = _Blocks(*parts, split_blocks(keep_BS, block, 1), span, own_dropout)
        out_GBHRU, log_sum_GBHR1 = work.forward()

        def gradient(up):
            back = _Backward(work, split_blocks(up, block, 2), log_sum_GBHR1)
            means = back.means(out_GBHRU)
            q_gradient, (k_gradient, v_gradient) = back.query_gradient(means), back.key_value_gradients(means)
            length, memory_length = ops.shape(q)[2], ops.shape(k)[2]
            q_gradient = _join(q_gradient, length) * scale
            found = (q_gradient, _join(k_gradient, memory_length), _join(v_gradient, memory_length))
            of_floats = (ops.cast(g, x.dtype) for g, x in zip(found, (q, k, v), strict=True))
            return *of_floats, None, *(None for _ in seeds)

        return _join(out_GBHRU, ops.shape(q)[2]), gradient

    return attend(q_BHTK, k_BHSK, v_BHSU, keep_BS, *seeds)


class _Blocks(NamedTuple):
    """The blocks of queries, keys and values, and their mask."""

    q: Tensor
    """(G, B, H, R, K), scaled by 1 / sqrt(K)."""
    k: Tensor
    """(J, B, H, C, K)."""
    v: Tensor
    """(J, B, H, C, U)."""
    keep: Tensor
    """(J, B, C) bool."""
    span: Span
    dropout: WeightDropout | None

    def forward(self):
        """Returns the outputs (G, B, H, R, U) and the logarithms of the softmax's sums (G, B, H, R, 1) float32."""
        rows, values = ops.shape(self.q)[1:4], self.v.shape[-1]

        def query_gradient(g):
            start = (ops.zeros((*rows, values)), ops.full((*rows, 1), 10 * MASKED_SCORE), ops.zeros((*rows, 1)))
            sums_BHRU, most_BHR1, total_BHR1 = fold(*self.key_range(g), lambda j, *c: self._more_keys(g, j, *c), start)
            return ops.cast(sums_BHRU / total_BHR1, self.v.dtype), most_BHR1 + ops.log(total_BHR1)

        shapes = ((*rows, values), self.v.dtype), ((*rows, 1), "float32")
        return stack(ops.shape(self.q)[0], query_gradient, shapes)

    def _more_keys(self, g, j, sums_BHRU, most_BHR1, total_BHR1):
        """Adds a block of keys to the weighted sum of values, the largest score and the sum of exponentials."""
        scores_BHRC = self.scores(g, j)
        new_most = ops.maximum(most_BHR1, ops.max(scores_BHRC, axis=-1, keepdims=True))
        weights_BHRC, shrunk = ops.exp(scores_BHRC - new_most), ops.exp(most_BHR1 - new_most)
        total_BHR1 = total_BHR1 * shrunk + ops.sum(weights_BHRC, axis=-1, keepdims=True)
        found = ops.matmul(ops.cast(self.dropped(weights_BHRC, g, j), self.v.dtype), _take_block(self.v, j))
        return sums_BHRU * shrunk + ops.cast(found, "float32"), new_most, total_BHR1

    def scores(self, g, j):
        """Returns (B, H, R, C) float32, masked."""
        scores = float32_product(_take_block(self.q, g), _take_block(self.k, j))
        query_R, key_C = (i * self.size(axis) + ops.arange(self.size(axis)) for i, axis in ((g, "q"), (j, "k")))
        keep = _take_block(self.keep, j)[:, None, None, :]
        seen = span_keep(query_R, key_C, self.span)
        return scores + score_bias(keep if seen is None else ops.logical_and(keep, seen))

    def dropped(self, weights_BHRC, g, j):
        """Applies dropout to the weights (or, in the gradient, to ones)."""
        if self.dropout is None:
            return weights_BHRC
        return weights_BHRC * self.dropout.scale(ops.shape(weights_BHRC), g, j)

    def size(self, of: str):
        """Returns R (`q`) or C (`k`)."""
        return ops.shape(self.q if of == "q" else self.k)[3]

    def key_range(self, g):
        """Returns the first block of keys that a block of queries may see, and the one after the last."""
        return _block_range(g, self.size("q"), self.size("k"), ops.shape(self.k)[0], self.span)

    def query_range(self, j):
        """Returns the first block of queries that may see a block of keys, and the one after the last."""
        back = Span(before=self.span.after, after=self.span.before)
        return _block_range(j, self.size("k"), self.size("q"), ops.shape(self.q)[0], back)


class _Backward(NamedTuple):
    """The gradients of queries, keys and values."""

    blocks: _Blocks
    up: Tensor
    """(G, B, H, R, U), the gradient of the outputs."""
    log_sum: Tensor
    """(G, B, H, R, 1) float32, see `_Blocks.forward`."""

    def means(self, out):
        """Returns the mean of the gradients of the weights, under these, (G, B, H, R, 1) float32.

        It is the sum over U of the output (G, B, H, R, U) times its gradient, and is subtracted in the gradient of the
        softmax. In 16 bits the output is rounded: the gradients of a query's scores would no longer sum to 0, and what
        all keys have in common would dominate the gradient of the query. So it is then computed from the weights.
        """
        if self.up.dtype == "float32":
            return ops.sum(self.up * out, axis=-1, keepdims=True)

        def block_means(g):
            def more_keys(j, mean):
                weights, scale, wanted = self._weights_gradient(g, j)
                return (mean + ops.sum(weights * scale * wanted, axis=-1, keepdims=True),)

            return fold(*self.blocks.key_range(g), more_keys, (ops.zeros_like(_take_block(self.log_sum, g)),))

        return stack(ops.shape(self.blocks.q)[0], block_means, ((ops.shape(self.log_sum)[1:], "float32"),))[0]

    def query_gradient(self, means):
        """Returns the gradient of the scaled queries, (G, B, H, R, K) float32."""
        shape = ops.shape(self.blocks.q)[1:]

        def block_gradient(g):
            def more_keys(j, gradient):
                part = ops.matmul(self._scores_gradient(g, j, means)[1], _take_block(self.blocks.k, j))
                return (gradient + ops.cast(part, "float32"),)

            return fold(*self.blocks.key_range(g), more_keys, (ops.zeros(shape),))

        return stack(ops.shape(self.blocks.q)[0], block_gradient, ((shape, "float32"),))[0]

    def key_value_gradients(self, means):
        """Returns the gradients of keys (J, B, H, C, K) and values (J, B, H, C, U), float32."""
        shapes = ops.shape(self.blocks.k)[1:], ops.shape(self.blocks.v)[1:]

        def block_gradient(j):
            def more_queries(g, k_gradient, v_gradient):
                weights, scores_gradient = (ops.transpose(x, (0, 1, 3, 2)) for x in self._scores_gradient(g, j, means))
                k_part = ops.matmul(scores_gradient, _take_block(self.blocks.q, g))
                v_part = ops.matmul(weights, _take_block(self.up, g))
                return k_gradient + ops.cast(k_part, "float32"), v_gradient + ops.cast(v_part, "float32")

            return fold(*self.blocks.query_range(j), more_queries, tuple(ops.zeros(s) for s in shapes))

        return stack(ops.shape(self.blocks.k)[0], block_gradient, tuple((s, "float32") for s in shapes))

    def _scores_gradient(self, g, j, means):
        """Returns the weights under dropout and the gradient of the scores, both (B, H, R, C)."""
        weights, scale, wanted = self._weights_gradient(g, j)
        gradient = weights * (wanted * scale - _take_block(means, g))
        return ops.cast(weights * scale, self.up.dtype), ops.cast(gradient, self.up.dtype)

    def _weights_gradient(self, g, j):
        """Returns the weights, their factors under dropout, and the gradient of their product, (B, H, R, C) float32."""
        weights = ops.exp(self.blocks.scores(g, j) - _take_block(self.log_sum, g))
        v_BHUC = ops.transpose(_take_block(self.blocks.v, j), (0, 1, 3, 2))
        wanted = ops.cast(ops.matmul(_take_block(self.up, g), v_BHUC), "float32")
        return weights, self.blocks.dropped(ops.ones_like(weights), g, j), wanted


def _block_range(block, size, other_size, others, span: Span):
    """Returns the first block of the other side within the span of a block, and the one after the last."""
    first, last = 0, others
    if span.before is not None:
        first = ops.maximum((block * size - span.before) // other_size, 0)
    if span.after is not None:
        last = ops.minimum((block * size + size - 1 + span.after) // other_size + 1, others)
    return first, last


def _take_block(blocks, index):
    return ops.take(blocks, index, axis=0)


def _join(blocks_GBHRK, length):
    """(G, B, H, R, K) -> (B, H, T, K), without the zeros at the end."""
    count, batch, heads, rows, channels = ops.shape(blocks_GBHRK)
    return ops.reshape(ops.moveaxis(blocks_GBHRK, 0, 2), (batch, heads, count * rows, channels))[:, :, :length]


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
    return _join_windows(found_BHGRU, grid, length)


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


def _join_windows(x_BHGRU, grid: Grid, length):
    """(B, H, G, R, U) -> (B, H, T, U), without the padding of `_rows`."""
    batch, heads, count, _, channels = ops.shape(x_BHGRU)
    across = -(-grid.columns // grid.block_columns)
    down = count // across
    x = ops.reshape(x_BHGRU, (batch, heads, down, across, grid.rows, grid.block_columns, channels))
    x = ops.transpose(x, (0, 1, 2, 4, 3, 5, 6))
    x = ops.reshape(x, (batch, heads, down * grid.rows, across * grid.block_columns, channels))[:, :, :, : grid.columns]
    return ops.reshape(x, (batch, heads, down * grid.rows * grid.columns, channels))[:, :, :length]
