"""Tensors: sizes that stay int where they are static, and rows that are reordered by beam.

Legend: B sentences, K beams of each, N = B * K rows in sentence-major order, J chosen beams of each sentence.
"""

from typing import Any

import keras
from keras import ops


def at_least(least: int, size: Any) -> Any:
    """Returns a size, int or a tensor of int32, or `least` where it is smaller."""
    return max(size, least) if isinstance(size, int) else ops.maximum(size, least)


def missing_to_multiple(size: Any, of: int) -> Any:
    """Returns what a size of 0 or more, int or a tensor of int32, lacks to a multiple of `of`."""
    # Not `-size % of`: converted programs compute negative remainders of negative numbers.
    return (of - size % of) % of


def at_most(most: Any, size: Any) -> Any:
    """Returns a size, or `most` where it is larger; each an int or a tensor of int32."""
    return min(size, most) if isinstance(size, int) and isinstance(most, int) else ops.minimum(size, most)


def gather_beams(beams: Any, chosen: Any) -> Any:
    """Picks beams of each sentence: returns `result[b, j] = beams[b, chosen[b, j]]`, (B, J, ...).

    Args:
        beams: (B, K, ...) any dtype.
        chosen: (B, J) int32, indices of beams, each in [0, K).
    """
    shape = ops.shape(beams)
    rows = ops.reshape(beams, (shape[0] * shape[1], *shape[2:]))
    return ops.take(rows, _row_numbers(chosen, shape[1]), axis=0)


def repeat_sentences(structure: Any, rows: Any) -> Any:
    """Repeats each row of each tensor for the beams of its sentence: (B, ...) to (N, ...), N being `rows`."""

    def repeat(leaf):
        return ops.take(leaf, ops.arange(rows) // (rows // ops.shape(leaf)[0]), axis=0)

    return keras.tree.map_structure(repeat, structure)


def reorder_rows(structure: Any, beams: Any) -> Any:
    """Reorders the rows of a nested structure of tensors (N, ...), with one gather per tensor.

    `beams` (B, K) int32 says which beam of the same sentence each beam continues.
    """
    rows_N = ops.reshape(_row_numbers(beams, ops.shape(beams)[1]), (-1,))
    return keras.tree.map_structure(lambda leaf: ops.take(leaf, rows_N, axis=0), structure)


def _row_numbers(chosen: Any, beam_size: int) -> Any:
    """Converts indices of beams, (B, J) int32, to indices of rows in (N, ...)."""
    first_rows_B = ops.arange(ops.shape(chosen)[0], dtype="int32") * beam_size
    return chosen + ops.expand_dims(first_rows_B, 1)
