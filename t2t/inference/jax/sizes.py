"""Sizes that batches are padded to: JAX compiles a program for each."""

from collections.abc import Sequence

import numpy as np


def padded_rows(rows: int) -> int:
    """Returns the number of rows that a batch of `rows` is padded to: a power of two, or one and a half of it.

    >>> [padded_rows(rows) for rows in (1, 2, 3, 4, 5, 9, 13, 100)]
    [1, 2, 3, 4, 6, 12, 16, 128]
    """
    return _round_up(rows, 2)


def padded_length(length: int) -> int:
    """Returns the length that rows of `length` are padded to: a multiple of 8, for long rows a larger one.

    >>> [padded_length(length) for length in (1, 8, 9, 33, 65, 130, 1000)]
    [8, 8, 16, 40, 80, 160, 1024]
    """
    return max(8, -(-_round_up(length, 4) // 8) * 8)


def _round_up(size: int, parts: int) -> int:
    """Returns `size` rounded up to a multiple of so many parts of the largest power of two below it."""
    step = max(1, 2 ** ((size - 1).bit_length() - 1) // parts) if size > 1 else 1
    return -(-size // step) * step


def pad_to(array: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Returns an array with zeros behind it, of these sizes."""
    return np.pad(array, [(0, size - own) for size, own in zip(sizes, array.shape, strict=True)])
