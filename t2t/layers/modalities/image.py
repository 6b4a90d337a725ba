"""Images as inputs: to a grid of vectors, by one convolution or by Xception's entry flow.

Legend: B batch, Y rows, X columns, C channels, P positions (Y * X of the grid), D width.
"""

import keras
from keras import ops

from t2t.layers.modalities.base import Bottom
from t2t.layers.xception import EntryFlow
from t2t.registry import register_modality
from t2t.specs.features import FeatureKind


class ImageBottom(Bottom):
    """What the two ways have in common: intensities are standardised, the grid is read row by row."""

    kinds = frozenset({FeatureKind.IMAGE})

    def grid(self, images_BYXC, seed=None):
        """Returns (B, Y, X, D), the vectors in their places."""
        raise NotImplementedError

    def call(self, images_BYXC, seed=None):
        """Returns (B, P, D) of images (B, Y, X, C) uint8."""
        grid_BYXD = self.grid(images_BYXC, seed=seed)
        return ops.reshape(grid_BYXD, (-1, self.positions, self.width))

    def keep(self, images_BYXC):
        """Returns (B, P) bool: everything."""
        return ops.ones((ops.shape(images_BYXC)[0], self.positions), "bool")

    def positions_of(self, length: int) -> int:
        """Returns P, whatever the length."""
        return self.positions

    @property
    def positions(self) -> int:
        """P: vectors of an image."""
        raise NotImplementedError


@register_modality
class SmallImage(ImageBottom):
    """Images of some ten pixels a side: one 3 x 3 convolution, a vector a pixel."""

    def build(self, input_shape=None):
        """Creates the convolution."""
        self.convolution = keras.layers.Conv2D(
            self.width, 3, padding="same", dtype=self.dtype_policy, name="convolution"
        )
        self.convolution.build((None, *self.spec.shape))

    def grid(self, images_BYXC, seed=None):
        """Returns (B, Y, X, D), Y and X as they were."""
        return self.convolution(standardised(images_BYXC, self.compute_dtype))

    @property
    def positions(self) -> int:
        """P: pixels."""
        return self.spec.shape[0] * self.spec.shape[1]


@register_modality
class XceptionImage(ImageBottom):
    """Large images: Xception's entry flow, a vector for 16 x 16 pixels."""

    def build(self, input_shape=None):
        """Creates the entry flow."""
        self.entry = EntryFlow(self.width, dtype=self.dtype_policy, name="entry")
        self.entry.build((None, *self.spec.shape))

    def grid(self, images_BYXC, seed=None):
        """Returns (B, Y / 16, X / 16, D), rounded up."""
        return self.entry(standardised(images_BYXC, self.compute_dtype))

    @property
    def positions(self) -> int:
        """P: patches."""
        rows, columns = (-(-side // 16) for side in self.spec.shape[:2])
        return rows * columns


def standardised(images_BYXC, dtype: str):
    """Returns each image, uint8, with mean 0 and variance 1 over all of it; a plain one is all zeros."""
    x = ops.cast(images_BYXC, "float32") / 255.0
    centred = x - ops.mean(x, axis=(1, 2, 3), keepdims=True)
    deviation = ops.sqrt(ops.mean(ops.square(centred), axis=(1, 2, 3), keepdims=True))
    return ops.cast(centred / ops.maximum(deviation, 1e-3), dtype)
