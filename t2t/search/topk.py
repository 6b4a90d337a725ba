"""The k best of many, with ties always broken the same way: the lower index wins.

Legend: B sentences, K beams, V vocabulary, C candidates kept, N rows, M blocks of W neighbours of a row.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t.layers.tensors import gather_beams

WIDE = 1024
"""Rows of at least so many values are sorted by blocks."""

SMALLEST_BLOCK, LARGEST_BLOCK = 16, 128


class Candidates(NamedTuple):
    """The best continuations of the beams of each sentence, best first; ties: lower beam, then lower token."""

    log_probs: Any
    """(B, C) float32: log-probability of the continued hypothesis."""
    beams: Any
    """(B, C) int32: the beam it continues."""
    tokens: Any
    """(B, C) int32: the token it adds."""


def top_k(values: Any, k: int) -> tuple[Any, Any]:
    """Returns the k largest along the last axis, largest first, and their indices (int32); ties: lower index first."""
    best, indices = ops.top_k(values, k, sorted=True)
    return best, ops.cast(indices, "int32")


def most_probable(log_probs: Any) -> Any:
    """Returns the best token of each row, (N, V) float32 to (N,) int32; ties: lower id."""
    return top_k_blockwise(log_probs, 1)[1][:, 0]


def top_k_blockwise(values: Any, k: int) -> tuple[Any, Any]:
    """Returns exactly what `top_k` returns, but faster for wide rows and small k.

    Rows are cut into blocks of neighbours, and only the k blocks with the largest maxima are sorted: the k largest
    values are in them.

    Args:
        values: (N, V) float32; if V is not static, whole rows are sorted.
        k: at most V.
    """
    width = values.shape[-1]
    block = None if width is None else block_width(width, k)
    if block is None:
        return top_k(values, k)
    if width % block:
        values = ops.pad(values, ((0, 0), (0, -width % block)), constant_values=-float("inf"))
    count = -(-width // block)
    blocks_NMW = ops.reshape(values, (-1, count, block))
    _, chosen_Nk = top_k(ops.max(blocks_NMW, axis=-1), k)
    chosen_Nk = ops.sort(chosen_Nk, axis=-1)  # so that ties still go to the lower index
    best_Nk, places_Nk = top_k(ops.reshape(gather_beams(blocks_NMW, chosen_Nk), (-1, k * block)), k)
    return best_Nk, gather_beams(chosen_Nk, places_Nk // block) * block + places_Nk % block


def block_width(width: int, k: int) -> int | None:
    """Returns W for the k largest of `width` values, None where blocks are not faster.

    width / W maxima and then k * W values are sorted: W is the divisor of the width for which this is least, or 64.
    """
    if width < WIDE or 4 * k * SMALLEST_BLOCK > width:
        return None
    sizes = range(SMALLEST_BLOCK, min(LARGEST_BLOCK, width // (2 * k)) + 1)
    return min([size for size in sizes if width % size == 0] or [64], key=lambda size: width / size + k * size)


def best_over_beams(log_probs: Any, tokens: Any, beam_size: int, count: int) -> Candidates:
    """Picks the C = `count` best continuations of each sentence from the J best of each beam, (N, J) each."""
    per_beam = log_probs.shape[-1]
    flat = (-1, beam_size * per_beam)
    best_BC, places_BC = top_k(ops.reshape(log_probs, flat), count)
    return Candidates(best_BC, places_BC // per_beam, gather_beams(ops.reshape(tokens, flat), places_BC))


def keep_top_k(log_probs: Any, k: Any, most: int | None = None) -> Any:
    """Forbids (-inf) all but the k most probable tokens: Fan et al. 2018 (arXiv:1805.04833), section 5.1.

    Args:
        log_probs: (N, V) float32, up to a constant for each row.
        k: int or () int32, exact number of tokens to keep, at least 1; ties go to lower ids.
        most: int, an upper bound of `k`: no more tokens are sorted; None for none.
    """
    width = ops.shape(log_probs)[-1]
    if most is not None:
        width = min(most, width) if isinstance(width, int) else ops.minimum(most, width)
    k = ops.minimum(k, width)
    smallest_N = ops.take(top_k(log_probs, width)[0], k - 1, axis=1)
    return _keep_largest(log_probs, ops.expand_dims(smallest_N, 1), k)


def keep_top_p(log_probs: Any, p: float) -> Any:
    """Forbids (-inf) all but the nucleus: Holtzman et al. 2020 (arXiv:1904.09751), equation 2.

    The nucleus is the smallest set of most probable tokens whose probabilities sum to at least p; ties go to lower ids.

    Args:
        log_probs: (N, V) float32, up to a constant for each row.
        p: in (0, 1].
    """
    largest_NV, _ = top_k(log_probs, ops.shape(log_probs)[-1])
    probs_NV = ops.softmax(largest_NV, axis=-1)
    before_NV = ops.cumsum(probs_NV, axis=-1) - probs_NV
    # The first token always stays: 0 comes before it, which is less than any p.
    size_N1 = ops.maximum(ops.sum(ops.cast(before_NV < p, "int32"), axis=-1, keepdims=True), 1)
    return _keep_largest(log_probs, ops.take_along_axis(largest_NV, size_N1 - 1, axis=-1), size_N1)


def _keep_largest(values: Any, smallest_kept: Any, count: Any) -> Any:
    """Keeps the `count` largest of each row of (N, V), the smallest of which is `smallest_kept`, (N, 1)."""
    above = values > smallest_kept
    level = ops.equal(values, smallest_kept)
    room = count - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    kept = ops.logical_or(above, ops.logical_and(level, ops.cumsum(ops.cast(level, "int32"), axis=-1) <= room))
    return ops.where(kept, values, -float("inf"))
