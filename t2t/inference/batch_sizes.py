"""How many sentences a batch has left when finished ones leave it.

Legend: B sentences of a batch.
"""

import numpy as np

MIN_ACTIVE_SHARE = 0.5
"""When no more than this fraction of a batch is still being searched, the rest is dropped from it."""

SIZE_STEP = 8
"""A batch shrinks to a multiple of this, or to one of SMALL_SIZES: on CPUs, each new size costs as much as a step, for
new matrix kernels."""

SMALL_SIZES = (1, 2, 4)
"""Sizes for the many last steps of a batch, when few sentences continue to the limit."""


def min_active_size(size: int) -> int:
    """Returns how many sentences of a batch of `size` may be unfinished when the finished ones leave it."""
    count = int(size * MIN_ACTIVE_SHARE)
    return count // SIZE_STEP * SIZE_STEP or max((size for size in SMALL_SIZES if size <= count), default=0)


def select_active(active: np.ndarray, min_active: int) -> np.ndarray:
    """Returns which sentences stay in the batch, (B,) bool: all, the unfinished and a few finished, or none.

    Args:
        active: (B,) bool.
        min_active: the batch shrinks once at most this many sentences are unfinished, see `min_active_size`.
    """
    count = int(active.sum())
    if count > min_active or count == 0:
        return np.full(len(active), count > 0)
    size = next((size for size in SMALL_SIZES if size >= count), -(-count // SIZE_STEP) * SIZE_STEP)
    kept = active.copy()
    kept[np.flatnonzero(~active)[: size - count]] = True
    return kept
