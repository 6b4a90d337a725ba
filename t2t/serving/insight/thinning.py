"""Curves of fewer points that look the same, and running means.

Legend: P points of a curve, G groups of neighbouring points.
"""

import numpy as np


def thin(values: np.ndarray, most: int) -> np.ndarray:
    """Returns which points of a curve to draw: the first, the last, and of groups of neighbours the least and the most.

    A drawn curve then reaches as high and as low everywhere as all of it would, so that no spike is lost.

    Args:
        values: (P,) finite numbers.
        most: points to draw, at least 4.

    Returns:
        Rising indices, at most `most`; all of them where there are no more.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(1, count - 1, (most - 2) // 2 + 1).astype(np.int64)
    starts, sizes = edges[:-1], np.diff(edges)
    # (G, widest): the members of each group; a shorter one repeats its last
    members = starts[:, None] + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    of_groups = values[members]
    groups = np.arange(len(starts))
    extremes = [members[groups, pick(of_groups, axis=1)] for pick in (np.argmin, np.argmax)]
    return np.unique(np.concatenate([[0], *extremes, [count - 1]]))


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Returns (P,) means of each point with its neighbours, `width` points in all; fewer at the ends.

    The window is centred, and narrows at the ends so that it stays so.
    """
    if width <= 1 or len(values) < 3:
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    half = np.minimum(width // 2, np.minimum(places, places[::-1]))
    return (sums[places + half + 1] - sums[places - half]) / (2 * half + 1)
