"""Occlusion maps: how much less probable an output becomes when parts of an image are covered.

A square of the image's mean colour is moved over the image, and the output is scored at each position (Zeiler and
Fergus 2014, "Visualizing and understanding convolutional networks", arXiv:1311.2901, section 4.2). This needs only
scores, so it works with every model and engine. The unit is nats.

Legend: H, W height and width, C channels, R, K rows and columns of cells, P positions of the square.
"""

from collections.abc import Callable, Sequence

import numpy as np

SQUARES = 8
"""Number of squares side by side that cover the longer side."""
SMALL = 64
"""Longest side, in pixels, of images over which the square moves by half its side; over larger ones by all of it."""

Score = Callable[[Sequence[np.ndarray]], Sequence[float]]
"""Returns the log-probability of the output for each image, (H, W, C) uint8."""


def occlusion_map(image: np.ndarray, score: Score) -> tuple[np.ndarray, int]:
    """Returns how much the log-probability of an output falls when each part of an image is covered.

    Args:
        image: (H, W, C) uint8.
        score: see `Score`.

    Returns:
        (R, K) float64, for each cell the mean over the squares that cover it, negative if the output becomes more
        probable; and the side of a cell in pixels. The image's edge may cut the last cells.
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
