"""Clips as vectors: tubelets against loops over frames and pixels.

Legend: B batch, T frames, Y rows, X columns, C channels, P positions, D width.
"""

import numpy as np
import pytest

from t2t.hparams.base import HParams
from t2t.layers.modalities.selection import build_modalities
from t2t.layers.modalities.video import LargeTubeletVideo, PixelVideo, TubeletVideo
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import numpy, randomise
from tests.errors import refused
from tests.reference.transformer import sinusoid

SHAPE = (6, 9, 2)
"""Two rows and three columns of tubelets, those at the edges not full."""
WIDTH = 16


def clip(frames, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (1, frames, *SHAPE)).astype(np.uint8)


def video(modality=TubeletVideo):
    bottom = modality(FeatureSpec(kind=FeatureKind.VIDEO, shape=SHAPE), WIDTH)
    bottom.build()
    return randomise(bottom)


def value(frames, place):
    """A standardised intensity; 0 beyond the clip and its frames."""
    frame, row, column, channel = place
    if frame >= len(frames) or row >= SHAPE[0] or column >= SHAPE[1]:
        return 0.0
    x = frames[frame] / 255.0
    return (x[row, column, channel] - x.mean()) / x.std()


@pytest.mark.parametrize(("modality", "patch"), [(TubeletVideo, 4), (LargeTubeletVideo, 16)])
@pytest.mark.parametrize("frames", [4, 3, 1])
def test_a_tubelet_is_a_dense_layer_of_its_intensities_with_sinusoids_of_time_row_and_column(modality, patch, frames):
    bottom, given = video(modality), clip(frames)
    kernel, bias = (numpy(variable) for variable in bottom.projection.variables)
    expected, places = [], [(down, across) for down in range(0, 6, patch) for across in range(0, 9, patch)]
    for time in range(0, frames, 2):
        for top, left in places:
            values = [
                value(given[0].astype(float), (time + f, top + y, left + x, c))
                for f, y, x, c in np.ndindex(2, patch, patch, 2)
            ]
            waves = np.concatenate([sinusoid(time, WIDTH // 2), sinusoid(top, WIDTH // 4), sinusoid(left, WIDTH // 4)])
            expected.append(np.array(values) @ kernel + bias + waves)
    found = numpy(bottom(given))
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-4)
    assert bottom.positions_of(frames) == len(expected)
    assert numpy(bottom.keep(given)).all()


@pytest.mark.parametrize("frames", [4, 3])
def test_frames_of_padding_change_no_vector_and_are_not_kept(frames):
    bottom, given = video(), clip(frames)
    padded = np.pad(given, ((0, 0), (0, 4), (0, 0), (0, 0), (0, 0)))
    count = bottom.positions_of(frames)
    np.testing.assert_allclose(numpy(bottom(padded))[:, :count], numpy(bottom(given)), rtol=1e-5, atol=1e-6)
    assert numpy(bottom.keep(padded))[0].tolist() == [1.0] * count + [0.0] * (bottom.positions_of(frames + 4) - count)


def test_black_frames_count_as_padding_at_the_end_alone():
    bottom, given = video(), clip(6)
    given[:, 2:4] = 0
    assert numpy(bottom.keep(given)).all()
    given[:, 4:] = 0
    assert numpy(bottom.keep(given))[0].tolist() == [1.0] * 6 + [0.0] * 12
    assert numpy(bottom.keep(np.zeros_like(given)))[0].tolist() == [1.0] * 6 + [0.0] * 12


def test_clips_are_read_as_tubelets_unless_another_modality_is_named():
    features = {
        "inputs": FeatureSpec(kind=FeatureKind.VIDEO, shape=SHAPE),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3),
    }
    spec = ProblemSpec(name="clips", features=features)
    for changes, modality in (({}, TubeletVideo), ({"input_modality": "large_tubelet_video"}, LargeTubeletVideo)):
        assert type(build_modalities(spec, HParams(hidden_size=8, **changes), "float32").source) is modality
    with refused("hidden_size=12"):
        build_modalities(spec, HParams(hidden_size=12), "float32")


def test_pixels_have_the_last_frames_that_hold_data_and_black_ones_before_them():
    bottom, given = video(PixelVideo), clip(6)
    given = np.concatenate([given, given])
    given[1, 3:] = 0
    found = numpy(bottom.last_frames(given))
    assert found.shape == (2, 6, 9, 8)
    for row, frames in ((0, [given[0, frame] for frame in range(2, 6)]), (1, [0 * given[1, 0], *given[1, :3]])):
        for number, frame in enumerate(frames):
            np.testing.assert_array_equal(found[row, ..., 2 * number : 2 * number + 2], frame)
    assert not numpy(bottom.last_frames(0 * given)).any()


def test_a_pixel_is_a_convolution_of_the_last_frames_and_blocks_row_by_row():
    bottom, given = video(PixelVideo), clip(4)
    images = numpy(bottom.last_frames(given))[0]
    x = np.pad((images - images.mean()) / images.std(), ((3, 3), (3, 3), (0, 0)))
    kernel, bias = (numpy(variable) for variable in bottom.first.variables)
    grid = np.array(
        [
            [np.einsum("yxc,yxcd->d", x[row : row + 7, column : column + 7], kernel) + bias for column in range(9)]
            for row in range(6)
        ]
    )
    for block in bottom.blocks:
        grid = numpy(block(grid[None].astype(np.float32)))[0]
    np.testing.assert_allclose(numpy(bottom(given))[0], grid.reshape(54, WIDTH), rtol=1e-3, atol=1e-3)
    assert bottom.positions_of(4) == 54
    assert numpy(bottom.keep(given)).shape == (1, 54)
