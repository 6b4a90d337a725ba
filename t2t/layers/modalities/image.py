"""Images as inputs: a grid of vectors, from one convolution or from Xception's entry flow.

Legend: B batch, Y rows, X columns, C channels, P positions (Y * X of the grid), D width.
"""

from typing import ClassVar

import keras
from keras import ops

from t2t.layers.image_blocks import EntryFlow, PaddedConvolution
from t2t.layers.modalities.base import Bottom
from t2t.registry import register_modality
from t2t.specs.features import FeatureKind


class ImageBottom(Bottom):
    """Base class: standardises intensities, and reads the grid of vectors row by row."""

    kinds = frozenset({FeatureKind.IMAGE})
    patch: ClassVar[int]
    """Rows and columns of pixels that become a vector."""
    network: keras.layers.Layer
    """From (B, Y, X, C) to the grid."""

    def grid(self, images_BYXC, seed=None):
        """Returns (B, Y / patch, X / patch, D), rounded up, of images (B, Y, X, C) uint8."""
        return self.network(standardised(images_BYXC, self.compute_dtype))

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
        rows, columns = (-(-side // self.patch) for side in self.spec.shape[:2])
        return rows * columns


@register_modality
class SmallImage(ImageBottom):
    """Images of some ten pixels a side: one 3 x 3 convolution, a vector a pixel."""

    patch = 1

    def build(self, input_shape=None):
        """Creates the convolution."""
        self.network = keras.layers.Conv2D(self.width, 3, padding="same", dtype=self.dtype_policy, name="convolution")
        self.network.build((None, *self.spec.shape))


@register_modality
class StridedImage(ImageBottom):
    """Large images: one 7 x 7 convolution of stride 2, a vector for 2 x 2 pixels (He et al. 2015, table 1)."""

    patch = 2

    def build(self, input_shape=None):
        """Creates the convolution."""
        self.network = PaddedConvolution(self.width, 7, 2, dtype=self.dtype_policy, name="convolution")
        self.network.build((None, *self.spec.shape))


@register_modality
class XceptionImage(ImageBottom):
    """Large images: Xception's entry flow, a vector for 16 x 16 pixels."""

    patch = 16

    def build(self, input_shape=None):
        """Creates the entry flow."""
        self.network = EntryFlow(self.width, dtype=self.dtype_policy, name="entry")
        self.network.build((None, *self.spec.shape))


def standardised(images_BYXC, dtype: str):
    """Returns each uint8 image with mean 0 and variance 1 over all its values; a constant one becomes zeros."""
    x = ops.cast(images_BYXC, "float32") / 255.0
    centred = x - ops.mean(x, axis=(1, 2, 3), keepdims=True)
    deviation = ops.sqrt(ops.mean(ops.square(centred), axis=(1, 2, 3), keepdims=True))
    return ops.cast(centred / ops.maximum(deviation, 1e-3), dtype)
