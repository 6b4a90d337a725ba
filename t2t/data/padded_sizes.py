"""Sizes to pad arrays to when a program is compiled for each size."""

from collections.abc import Sequence

import numpy as np


def padded_size(size: int, parts: int, least: int = 1) -> int:
    """Returns the size that an axis of this size is padded to.

    Args:
        size: length of the axis, at least 1.
        parts: steps between sizes are this fraction, 1/parts, of the largest power of two below; that bounds the
            padding.
        least: the shortest step.

    >>> [padded_size(size, parts=8, least=8) for size in (1, 8, 9, 64, 65, 130, 1000)]
    [8, 8, 16, 64, 72, 144, 1024]
    """
    step = max(least, 2 ** ((size - 1).bit_length() - 1) // parts) if size > 1 else least
    return -(-size // step) * step


def pad_to(array: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Pads an array with zeros at the end of each axis to these sizes."""
    return np.pad(array, [(0, size - own) for size, own in zip(sizes, array.shape, strict=True)])
