"""Which parts of a picture an answer rests on: how much less likely it is when they are covered.

A grey square, of the picture's mean colour, is moved over the picture, and the model is asked each time (Zeiler and
Fergus 2014, "Visualizing and understanding convolutional networks", arXiv:1311.2901, section 4.2). That needs nothing
but answers, so that it works with every model and engine, and it is in the unit of log-probabilities: nats.

Legend: H, W height and width, C channels, R, K rows and columns of cells, P places of the square.
"""

from collections.abc import Callable, Sequence

import numpy as np

SQUARES = 8
"""Squares beside each other that cover a side."""
SMALL = 64
"""Longest side, in pixels, of pictures over which the square moves by half its side; by all of it over larger ones."""

Score = Callable[[Sequence[np.ndarray]], Sequence[float]]
"""Returns the log-probability of the answer for each picture, (H, W, C) uint8."""


def occlusion_map(image: np.ndarray, score: Score) -> tuple[np.ndarray, int]:
    """Returns by how much the log-probability of an answer falls when a part of a picture is covered.

    Args:
        image: (H, W, C) uint8.
        score: of pictures.

    Returns:
        (R, K) float64, for each cell the mean over the squares that cover it, negative where the answer becomes more
        likely; and the pixels a side of a cell, the last of which may be cut by the edge.
    """
    height, width = image.shape[:2]
    side = max(1, -(-max(height, width) // SQUARES))
    cell = max(1, side // 2) if max(height, width) <= SMALL else side
    side = cell * max(1, side // cell)
    grey = image.mean(axis=(0, 1)).round().astype(np.uint8)
    rows, columns = -(-height // cell), -(-width // cell)
    per_side = side // cell
    places = [
        (row, column) for row in range(max(1, rows - per_side + 1)) for column in range(max(1, columns - per_side + 1))
    ]
    covered = []
    for row, column in places:
        changed = image.copy()
        changed[row * cell : row * cell + side, column * cell : column * cell + side] = grey
        covered.append(changed)
    whole, *scores = score([image, *covered])
    sums, counts = np.zeros((rows, columns)), np.zeros((rows, columns))
    for (row, column), found in zip(places, scores, strict=True):
        cells = slice(row, row + per_side), slice(column, column + per_side)
        sums[cells] += whole - found
        counts[cells] += 1
    return sums / counts, cell
