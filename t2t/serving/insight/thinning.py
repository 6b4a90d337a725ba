"""Thinning of curves that keeps their look, and running means.

Legend: P points of a curve, G groups of neighbouring points.
"""

import numpy as np


def thin(values: np.ndarray, most: int) -> np.ndarray:
    """Returns the points of a curve to draw: the first, the last, and the minimum and maximum of groups of neighbours.

    So the drawn curve keeps all spikes.

    Args:
        values: (P,) finite numbers.
        most: largest number of points to draw, at least 4.

    Returns:
        Ascending indices, at most `most`; all indices if there are no more than that.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(1, count - 1, (most - 2) // 2 + 1).astype(np.int64)
    starts, sizes = edges[:-1], np.diff(edges)
    # (G, widest): the indices of each group; a shorter group repeats its last one
    members = starts[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    of_groups = values[members]
    groups = np.arange(len(starts))
    extremes = [members[groups, pick(of_groups, axis=1)] for pick in (np.argmin, np.argmax)]
    return np.unique(np.concatenate([[0], *extremes, [count - 1]]))


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Returns the mean of each point with its neighbours, `width` points in total, (P,).

    The window is centred; at the ends it narrows symmetrically.
    """
    if width <= 1 or len(values) < 3:
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    positions = np.arange(len(values))
    half = np.minimum(width // 2, np.minimum(positions, positions[::-1]))
    return (sums[positions + half + 1] - sums[positions - half]) / (2 * half + 1)
