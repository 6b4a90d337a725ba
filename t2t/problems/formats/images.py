"""Reads and resizes images and writes PNG files, with Pillow.

Legend: H, W height and width, C channels.
"""

import io
import os
from pathlib import Path

import numpy as np
from PIL import Image

from t2t.errors import UserError, one_line

FITS = ("squash", "crop")

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
"""Channels -> Pillow's mode; A is opacity."""
_SIXTEEN_BIT_FORMATS = ("PNG", "PPM")
"""Formats for whose 16 bits Pillow (some versions for PNG) has the mode of 32 bits."""


def read_image(path: Path, channels: int) -> np.ndarray:
    """Reads an image file of any kind that Pillow reads, e.g. PNG or JPEG.

    Returns:
        (H, W, channels) uint8: shades of grey for one channel, red, green and blue for three; with opacity for two
        and four.

    Raises:
        UserError: the file is missing, damaged or no image, or has 32 bits a channel; or files have no such images.
    """
    if channels not in _MODES:
        raise UserError(
            f"{path}: image files have 1 to 4 channels, and images of {channels} are asked for; decode a split of "
            f"generated data, or give arrays to translate_ids"
        )
    if not os.path.isfile(path):  # `Path.is_file` raises for names that are too long
        raise UserError(f"{path}: there is no such image file; check the path")
    try:
        with Image.open(path) as image:
            pixels: np.ndarray = np.asarray(_of_eight_bits(image, path).convert(_MODES[channels]))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: cannot be read as an image ({one_line(error)}); check or convert the file") from None
    return pixels.reshape(*pixels.shape[:2], channels)


def decode_image(content: bytes, channels: int, what: str) -> np.ndarray:
    """Returns the image in the content of a file, see `read_image`; `what` names it in an error."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            pixels: np.ndarray = np.asarray(image.convert(_MODES[channels]))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(
            f"{what}: its content, which starts with {content[:8]!r}, cannot be read as an image "
            f"({type(error).__name__}); give PNG or JPEG files"
        ) from None
    return pixels.reshape(*pixels.shape[:2], channels)


def _of_eight_bits(image: Image.Image, path: Path) -> Image.Image:
    """Returns an image with the high bytes of 16 bits a channel, which Pillow's `convert` would clip at 255."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in _SIXTEEN_BIT_FORMATS):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise UserError(f"{path}: has more than 8 bits a channel; convert the file")
    return image


def resized(image: np.ndarray, height: int, width: int, fit: str = "squash") -> np.ndarray:
    """Resizes an image by bilinear interpolation; with antialiasing when it gets smaller.

    Args:
        image: (H, W, C) uint8.
        height: of the result.
        width: of the result.
        fit: how another aspect ratio is handled: `squash` keeps the whole image and distorts it, `crop` cuts off equal
            parts on both sides and keeps the proportions.

    Returns:
        (height, width, C) uint8.

    Raises:
        UserError: `fit` has another value.
    """
    if fit not in FITS:
        raise UserError(f"image_fit {fit!r}: there is no such way; use one of {', '.join(FITS)}")
    if fit == "crop":
        image = _crop(image, height, width)
    if image.shape[:2] == (height, width):
        return image
    channels = (Image.fromarray(np.ascontiguousarray(image[..., c])) for c in range(image.shape[-1]))
    bilinear = Image.Resampling.BILINEAR
    return np.stack([np.asarray(channel.resize((width, height), bilinear)) for channel in channels], axis=-1)


def png_file(image: np.ndarray) -> bytes:
    """Returns a PNG file of an image (H, W, C) uint8 with one or three channels."""
    content = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(content, format="PNG")
    return content.getvalue()


def _crop(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns the largest central part of an image with the aspect ratio of height to width."""
    rows, columns = image.shape[:2]
    kept_rows = max(1, min(rows, round(columns * height / width)))
    kept_columns = max(1, min(columns, round(rows * width / height)))
    top, left = (rows - kept_rows) // 2, (columns - kept_columns) // 2
    return image[top : top + kept_rows, left : left + kept_columns]
