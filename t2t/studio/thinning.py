"""Thinning of curves that keeps their look, and running means.

Legend: P points of a curve, G groups of neighbouring points.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


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
    half = min(width // 2, (len(values) - 1) // 2)
    if half < 1:
        return values
    # Each window is summed by itself: a running total would never be rid of the rounding by one very large value.
    whole = sliding_window_view(values, 2 * half + 1).mean(axis=1)
    narrow = range(1, 2 * half, 2)  # at the ends, the widths of windows
    starts = [values[:size].mean() for size in narrow]
    ends = [values[-size:].mean() for size in reversed(narrow)]
    return np.concatenate([starts, whole, ends])
