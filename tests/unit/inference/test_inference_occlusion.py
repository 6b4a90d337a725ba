"""Occlusion maps, compared with explicit sums for a known score."""

import numpy as np
import pytest

from t2t.inference.occlusion import SMALL, SQUARES, occlusion_map


@pytest.mark.parametrize("shape", [(28, 28, 1), (16, 24, 3), (10, 7, 1), (1, 1, 1), (80, 70, 3)])
def test_the_map_is_the_mean_fall_over_the_squares_that_cover_a_cell(shape):
    """A score linear in the pixels falls by the weighted difference of the covered pixels from the mean colour."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, shape, dtype=np.uint8)
    weights = rng.normal(size=shape)
    drops, cell = occlusion_map(image, lambda images: [float((weights * one).sum()) for one in images])
    height, width = shape[:2]
    assert drops.shape == (-(-height // cell), -(-width // cell))
    squares = cell * (max(1, -(-max(shape[:2]) // SQUARES) // cell) if max(shape[:2]) <= SMALL else 1)
    falls = weights * (image.astype(float) - image.mean(axis=(0, 1)).round())
    sums, counts = np.zeros(drops.shape), np.zeros(drops.shape)
    rows, columns = drops.shape
    for top in range(0, max(1, (rows - squares // cell + 1)) * cell, cell):
        for left in range(0, max(1, (columns - squares // cell + 1)) * cell, cell):
            fall = falls[top : top + squares, left : left + squares].sum()
            for row in range(top // cell, min(rows, (top + squares) // cell)):
                for column in range(left // cell, min(columns, (left + squares) // cell)):
                    sums[row, column] += fall
                    counts[row, column] += 1
    np.testing.assert_allclose(drops, sums / counts, atol=1e-6)


def test_what_the_answer_rests_on_stands_out_and_what_speaks_against_it_is_negative():
    image = np.full((32, 32, 1), 100, np.uint8)
    image[8:12, 20:24] = 255
    image[24:28, 4:8] = 0

    def score(images):
        return [float(one[8:12, 20:24].sum() - one[24:28, 4:8].astype(float).sum() * -1) for one in images]

    drops, cell = occlusion_map(image, score)
    row, column = np.unravel_index(drops.argmax(), drops.shape)
    assert (row * cell, column * cell) in {(8, 20), (8, 22), (10, 20), (10, 22)}
    row, column = np.unravel_index(drops.argmin(), drops.shape)
    assert (row * cell, column * cell) in {(24, 4), (24, 6), (26, 4), (26, 6)}
    assert drops[0, 0] == 0


def test_the_picture_itself_is_left_as_it_is():
    image = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    before = image.copy()
    seen = []
    occlusion_map(image, lambda images: seen.extend(images) or [0.0] * len(images))
    assert np.array_equal(image, before)
    assert np.array_equal(seen[0], before)
    assert sum((one != before).any() for one in seen[1:]) == 63  # one pixel is as grey as what covers it
