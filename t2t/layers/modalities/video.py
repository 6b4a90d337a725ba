"""Clips as inputs: boxes of a few frames and pixels (tubelets), each a vector with its time and place.

Source: Arnab et al. 2021, "ViViT: A video vision transformer" (arXiv:2103.15691), section 3.2, tubelet embedding.

Legend: B batch, T frames, Y rows, X columns, C channels, F frames of a tubelet, N tubelets, P positions, D width.
"""

from typing import ClassVar

import keras
from keras import ops

from t2t.errors import UserError
from t2t.layers.modalities.base import Bottom
from t2t.layers.modalities.image import standardised
from t2t.layers.modalities.real import data_keep
from t2t.layers.positions import ClipPositions
from t2t.registry import register_modality
from t2t.specs.features import FeatureKind


@register_modality
class TubeletVideo(Bottom):
    """Clips of small frames: a dense layer on boxes of 2 frames of 4 x 4 pixels, and sinusoids of time, row and column.

    Frames are standardised one by one. Black frames at the end of a clip are padding.
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
                f"hparam hidden_size={width}: half of it holds the time in a clip, and a quarter each the row and the "
                f"column in a frame, in sines and cosines; choose a multiple of 8"
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
        """Returns the values of each tubelet, (B, P, F * patch * patch * C); zeros complete those at the edges."""
        (batch, frames), (rows, columns, channels) = ops.shape(x_BTYXC)[:2], self.spec.shape
        edges = ((0, self.frames - 1), (0, -rows % self.patch), (0, -columns % self.patch))
        x = ops.pad(x_BTYXC, ((0, 0), *edges, (0, 0)))[:, : -(-frames // self.frames) * self.frames]
        down, across = self.grid
        x = ops.reshape(x, (-1, self.frames, down, self.patch, across, self.patch * channels))
        x = ops.transpose(x, (0, 2, 4, 1, 3, 5))
        return ops.reshape(x, (batch, -1, self.frames * self.patch**2 * channels))

    def keep(self, clips_BTYXC):
        """Returns (B, P) bool: the tubelets that begin in the clip."""
        batch, frames = ops.shape(clips_BTYXC)[:2]
        keep_BT = data_keep(ops.reshape(clips_BTYXC, (batch, frames, -1)))
        return ops.repeat(keep_BT[:, :: self.frames], self.places, axis=1)

    def positions_of(self, length: int) -> int:
        """Returns P of a clip of so many frames."""
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
