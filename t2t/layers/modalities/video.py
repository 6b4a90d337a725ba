"""Clips as inputs: boxes of a few frames and pixels (tubelets), each a vector with its time and place; or pixels.

Source: Arnab et al. 2021, "ViViT: A video vision transformer" (arXiv:2103.15691), section 3.2, tubelet embedding.

Legend: B batch, T frames, Y rows, X columns, C channels, F frames that are read together, P positions, D width.
"""

from typing import ClassVar

import keras
from keras import ops

from t2t.errors import UserError
from t2t.layers.image_blocks import MiddleBlock
from t2t.layers.modalities.base import Bottom, input_keep
from t2t.layers.modalities.image import standardised
from t2t.layers.positions import Positions, sinusoids_at
from t2t.registry import register_modality
from t2t.specs.features import FeatureKind


class ClipPositions(Positions):
    """Adds sinusoids of the time to half of the channels of a tubelet, and of its row and column to a quarter each.

    Times are in frames, rows and columns in pixels.

    Args:
        width: D, a multiple of 8.
        grid: rows and columns of tubelets that share frames.
        steps: distance of neighbouring tubelets, in frames and in pixels.
        layout: see `sinusoids`.
    """

    def __init__(
        self, width: int, grid: tuple[int, int], steps: tuple[int, int], layout: str = "interleaved", **kwargs
    ):
        super().__init__(**kwargs)
        self.width, self.grid, self.steps, self.layout = width, grid, steps, layout

    def vectors(self, position_T):
        """Returns the vectors of positions, (T, D) float32; positions run along columns, then rows, then times."""
        (rows, columns), (frames, pixels) = self.grid, self.steps
        times_T = position_T // (rows * columns) * frames
        places = (position_T // columns % rows * pixels, position_T % columns * pixels)
        waves = [sinusoids_at(times_T, self.width // 2, self.layout)]
        waves += [sinusoids_at(place_T, self.width // 4, self.layout) for place_T in places]
        return ops.concatenate(waves, axis=-1)


@register_modality
class TubeletVideo(Bottom):
    """Clips of small frames: a dense layer on boxes of 2 frames of 4 x 4 pixels, and sinusoids of time, row and column.

    Frames are standardised one by one. Black frames at the end of a clip are padding, except the first.
    """

    kinds = frozenset({FeatureKind.VIDEO})
    frames: ClassVar[int] = 2
    """Frames of a tubelet."""
    patch: ClassVar[int] = 4
    """Rows and columns of pixels of a tubelet."""

    def __init__(self, spec, width: int, **kwargs):
        super().__init__(spec, width, **kwargs)
        if width % 8:
            raise UserError(
                "half of it holds the time in a clip, and a quarter each the row and the column in a frame, in sines "
                "and cosines",
                "choose a multiple of 8",
                hparam="hidden_size",
                value=width,
            )

    def build(self, input_shape=None):
        """Creates the dense layer."""
        values = self.frames * self.patch**2 * self.spec.shape[2]
        self.projection = keras.layers.Dense(self.width, dtype=self.dtype_policy, name="projection")
        self.projection.build((None, None, values))
        self.positions = ClipPositions(
            self.width, self.grid, (self.frames, self.patch), dtype=self.dtype_policy, name="positions"
        )

    def call(self, clips_BTYXC, seed=None):
        """Returns (B, P, D) of clips (B, T, Y, X, C) uint8: the tubelets of the first frames first, row by row."""
        batch, frames = ops.shape(clips_BTYXC)[:2]
        images = standardised(ops.reshape(clips_BTYXC, (-1, *self.spec.shape)), self.compute_dtype)
        return self.positions(self.projection(self.tubelets(ops.reshape(images, (batch, frames, *self.spec.shape)))))

    def tubelets(self, x_BTYXC):
        """Returns the values of each tubelet, (B, P, F * patch * patch * C), zero padded at the edges."""
        (batch, frames), (rows, columns, channels) = ops.shape(x_BTYXC)[:2], self.spec.shape
        edges = ((0, self.frames - 1), (0, -rows % self.patch), (0, -columns % self.patch))
        x = ops.pad(x_BTYXC, ((0, 0), *edges, (0, 0)))[:, : (frames + self.frames - 1) // self.frames * self.frames]
        down, across = self.grid
        x = ops.reshape(x, (-1, self.frames, down, self.patch, across, self.patch * channels))
        x = ops.transpose(x, (0, 2, 4, 1, 3, 5))
        return ops.reshape(x, (batch, -1, self.frames * self.patch**2 * channels))

    def keep(self, clips_BTYXC):
        """Returns (B, P) bool: the tubelets that begin in the clip."""
        return ops.repeat(_frames_keep(clips_BTYXC)[:, :: self.frames], self.places, axis=1)

    def positions_of(self, length: int) -> int:
        """Returns P for a clip of `length` frames."""
        return -(-length // self.frames) * self.places

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tubelets."""
        rows, columns = (-(-side // self.patch) for side in self.spec.shape[:2])
        return rows, columns

    @property
    def places(self) -> int:
        """Tubelets that begin in the same frame."""
        return self.grid[0] * self.grid[1]


@register_modality
class LargeTubeletVideo(TubeletVideo):
    """Clips of large frames: as tubelet_video, with tubelets of 2 frames of 16 x 16 pixels (the paper's)."""

    patch = 16


@register_modality
class PixelVideo(Bottom):
    """Clips whose next frame is predicted: a vector for each pixel, by convolutions over the last 4 frames.

    Like the encoders of Kalchbrenner et al. 2016, "Video pixel networks" (arXiv:1610.00527), they keep the size of a
    frame; those encoders combine the frames by a recurrence.
    """

    kinds = frozenset({FeatureKind.VIDEO})
    frames: ClassVar[int] = 4
    """Frames that are read; shorter clips are padded with black frames at the start."""

    def build(self, input_shape=None):
        """Creates the convolutions."""
        rows, columns, channels = self.spec.shape
        self.first = keras.layers.Conv2D(self.width, 7, padding="same", dtype=self.dtype_policy, name="first")
        self.first.build((None, rows, columns, self.frames * channels))
        self.blocks = [
            MiddleBlock(self.width, (5, 5), 0.0, dtype=self.dtype_policy, name=f"block_{i}") for i in range(2)
        ]
        for block in self.blocks:
            block.build((None, rows, columns, self.width))

    def call(self, clips_BTYXC, seed=None):
        """Returns (B, Y * X, D) of clips (B, T, Y, X, C) uint8, row by row."""
        x_BYXD = self.first(standardised(self.last_frames(clips_BTYXC), self.compute_dtype))
        for block in self.blocks:
            x_BYXD = block(x_BYXD)
        return ops.reshape(x_BYXD, (-1, self.positions_of(1), self.width))

    def last_frames(self, clips_BTYXC):
        """Returns the last F frames of each clip as channels of an image, (B, Y, X, F * C), the last frame last."""
        batch, frames = ops.shape(clips_BTYXC)[:2]
        length_B = ops.sum(ops.cast(_frames_keep(clips_BTYXC), "int32"), axis=1)
        before = self.frames - 1
        padded = ops.pad(clips_BTYXC, ((0, 0), (before, 0), (0, 0), (0, 0), (0, 0)))
        starts_B = ops.arange(batch, dtype="int32") * (frames + before) + length_B - 1
        chosen_BF = starts_B[:, None] + ops.arange(self.frames, dtype="int32")
        last_BFYXC = ops.take(ops.reshape(padded, (-1, *self.spec.shape)), chosen_BF, axis=0)
        rows, columns, channels = self.spec.shape
        return ops.reshape(ops.moveaxis(last_BFYXC, 1, 3), (-1, rows, columns, self.frames * channels))

    def keep(self, clips_BTYXC):
        """Returns (B, Y * X) bool: everything."""
        return ops.ones((ops.shape(clips_BTYXC)[0], self.positions_of(1)), "bool")

    def positions_of(self, length: int) -> int:
        """Returns Y * X, whatever the length."""
        return self.spec.shape[0] * self.spec.shape[1]


def _frames_keep(clips_BTYXC):
    """Returns (B, T) bool, False at frames of padding; the first frame is data."""
    batch, frames = ops.shape(clips_BTYXC)[:2]
    return input_keep(ops.reshape(clips_BTYXC, (batch, frames, -1)))
