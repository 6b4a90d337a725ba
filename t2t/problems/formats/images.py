"""Resizing images, in numpy.

Legend: H, W height and width, h, w those wanted, C channels.
"""

import functools

import numpy as np

from t2t.errors import UserError

FITS = ("squash", "crop")


def resized(image: np.ndarray, height: int, width: int, fit: str = "squash") -> np.ndarray:
    """Returns an image in another size.

    Each pixel is the mean of those around its place, weighted by a triangle that is as wide as the pixels are apart
    where the image gets smaller (so that nothing is skipped), and linear between two where it gets larger: TensorFlow's
    `tf.image.resize(..., method="bilinear", antialias=True)`.

    Args:
        image: (H, W, C) uint8.
        height: h.
        width: w.
        fit: of other proportions, `squash` keeps all of the image and not its proportions, `crop` keeps proportions
            and cuts off what is too much on both sides.

    Returns:
        (h, w, C) uint8.
    """
    if fit not in FITS:
        raise UserError(f"image_fit {fit!r}: there is no such way; use one of {', '.join(FITS)}")
    if fit == "crop":
        image = _of_proportions(image, height, width)
    if image.shape[:2] == (height, width):
        return image
    values_HWC = image.astype(np.float32)
    values_hWC = np.tensordot(_weights(image.shape[0], height), values_HWC, axes=1)
    values_whC = np.tensordot(_weights(image.shape[1], width), values_hWC, axes=(1, 1))
    return np.clip(np.rint(values_whC.transpose(1, 0, 2)), 0, 255).astype(np.uint8)


def _of_proportions(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns the middle of an image, as much of it as has the proportions of height to width."""
    rows, columns = image.shape[:2]
    kept_rows = max(1, min(rows, round(columns * height / width)))
    kept_columns = max(1, min(columns, round(rows * width / height)))
    top, left = (rows - kept_rows) // 2, (columns - kept_columns) // 2
    return image[top : top + kept_rows, left : left + kept_columns]


@functools.lru_cache(maxsize=256)
def _weights(before: int, after: int) -> np.ndarray:
    """Returns (after, before) float32: how much of each old pixel a new one has; rows sum to 1."""
    scale = before / after
    reach = max(scale, 1.0)
    centres = (np.arange(after) + 0.5) * scale - 0.5
    distances = np.abs(centres[:, None] - np.arange(before)[None, :])
    weights = np.maximum(0.0, 1.0 - distances / reach)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
