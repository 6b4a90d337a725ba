"""Images and clips, and images as sequences of intensities; image files are read, resized and written by Pillow.

Legend: H, W height and width, C channels.
"""

import dataclasses
import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np

from t2t.errors import UserError, one_line
from t2t.features.feature import Feature, Finished, shown
from t2t.features.text import Text
from t2t.registry import register_feature
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.text.encoder import TextEncoder

if TYPE_CHECKING:
    import PIL.Image

FITS = ("squash", "crop")
INTENSITIES = tuple(map(str, range(256)))

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
"""Channels -> Pillow's mode; A is opacity."""
_SIXTEEN_BIT_FORMATS = ("PNG", "PPM")
"""Formats for whose 16 bits Pillow (some versions for PNG) has the mode of 32 bits."""


@register_feature
@dataclasses.dataclass(frozen=True)
class Image(Feature):
    """An image: samples have (H, W, C) uint8 of any size; they are stored in one size."""

    kind = FeatureKind.IMAGE
    shape: tuple[int, int, int] = (0, 0, 0)
    """(H, W, C) of stored images; others are resized, see `resized`."""
    fit: str = "squash"
    """How images of another aspect ratio are resized, see `resized`."""

    def spec(self, encoder: TextEncoder | None = None) -> FeatureSpec:
        """An image."""
        return FeatureSpec(kind=self.kind, shape=self.shape)

    def needed(self, encoder: TextEncoder | None = None) -> str:
        """An array."""
        return f"a numpy array (height, width, {self.shape[2]}) of uint8"

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """An image is a uint8 array with channels last."""
        if not _is_bytes(value, axes=3):
            return f"has {_found(value)} for {name!r}"
        return "" if value.shape[2] == self.shape[2] else f"has an image of {value.shape[2]} channels for {name!r}"

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Returns images resized to `shape`."""
        return [resized(value, *self.shape[:2], fit=self.fit) for value in values]

    def read_file(self, path: Path) -> np.ndarray | None:
        """Returns the image in a file as a model reads it; see `read_image`."""
        return self.encode([read_image(path, self.shape[2])])[0]


@register_feature
@dataclasses.dataclass(frozen=True)
class Video(Image):
    """A clip: samples have (frames, H, W, C) uint8; frames are stored in one size, like images."""

    kind = FeatureKind.VIDEO
    chunk_size: ClassVar[int] = 100

    def needed(self, encoder: TextEncoder | None = None) -> str:
        """An array."""
        return f"a numpy array (frames, height, width, {self.shape[2]}) of uint8"

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """A clip is a uint8 array, frames first and channels last."""
        if not _is_bytes(value, axes=4):
            return f"has {_found(value)} for {name!r}"
        return super().fault(value[0], name, encoder)

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Returns clips with frames resized to `shape`."""
        return [np.stack(super(Video, self).encode(list(clip))) for clip in values]

    def read_file(self, path: Path) -> np.ndarray | None:
        """None: there is no file format of clips."""
        return None


@register_feature
@dataclasses.dataclass(frozen=True)
class ImageCodes(Text):
    """An image as the sequence of its intensities: samples have `intensities_text`, outputs can be written as PNG."""

    chunk_size: ClassVar[int] = 32
    is_free: ClassVar[bool] = False
    words: tuple[str, ...] = dataclasses.field(default=INTENSITIES, kw_only=True)
    shared: bool = dataclasses.field(default=False, kw_only=True)
    output_suffix: str = dataclasses.field(default=".png", kw_only=True)
    shape: tuple[int, int, int] = dataclasses.field(default=(0, 0, 0), kw_only=True)
    """(H, W, C) of the image."""

    def finish(self, source: str, output: str, encoder: TextEncoder | None = None) -> Finished:
        """Returns the output unchanged; it counts as repaired if `output_file` has to fill, cut or replace."""
        words = output.split()
        return Finished(output, len(words) != math.prod(self.shape) or not all(map(str.isdecimal, words)))

    def output_file(self, output: str) -> bytes:
        """Returns a PNG file of an output's intensities; surplus ones are dropped, missing and unknown ones are 0."""
        image = np.zeros(self.shape, np.uint8)
        # An unknown one keeps its place, otherwise all that follow would be shifted.
        written = [int(word) if word.isdecimal() else 0 for word in output.split()[: image.size]]
        image.ravel()[: len(written)] = written
        return png_file(image)


def intensities_text(image: np.ndarray) -> str:
    """Returns the intensities of an image (H, W, C) uint8 as words: row by row, pixel by pixel."""
    return " ".join(map(str, np.ravel(image).tolist()))


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
            f"{path}: image files have 1 to 4 channels, and images of {channels} are requested",
            "decode a split of generated data, or give arrays to translate_ids",
        )
    if not os.path.isfile(path):  # `Path.is_file` raises for names that are too long
        raise UserError(f"{path}: there is no such image file", "check the path")
    return decode_image(path, channels, str(path))


def decode_image(file: Path | BinaryIO, channels: int, what: str) -> np.ndarray:
    """Returns the image in a file or its content, see `read_image`; `what` names it in an error."""
    import PIL.Image  # only where there are images: it takes time

    try:
        with PIL.Image.open(file) as image:
            pixels: np.ndarray = np.asarray(_of_eight_bits(image, what).convert(_MODES[channels]))
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError) as error:
        is_unknown = isinstance(error, PIL.UnidentifiedImageError)  # whose text shows a Python object
        why = "no format that Pillow reads" if is_unknown else one_line(error)
        raise UserError(f"{what}: cannot be read as an image ({why})", "check or convert the file") from None
    return pixels.reshape(*pixels.shape[:2], channels)


def _of_eight_bits(image: "PIL.Image.Image", what: str) -> "PIL.Image.Image":
    """Returns an image with the high bytes of 16 bits a channel, which Pillow's `convert` would clip at 255."""
    import PIL.Image

    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in _SIXTEEN_BIT_FORMATS):
        return PIL.Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise UserError(f"{what}: has more than 8 bits a channel", "convert the file")
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
        raise UserError(f"image_fit {fit!r}: there is no such way", f"use one of {', '.join(FITS)}")
    if fit == "crop":
        image = _crop(image, height, width)
    if image.shape[:2] == (height, width):
        return image
    import PIL.Image

    channels = (PIL.Image.fromarray(np.ascontiguousarray(image[..., c])) for c in range(image.shape[-1]))
    bilinear = PIL.Image.Resampling.BILINEAR
    return np.stack([np.asarray(channel.resize((width, height), bilinear)) for channel in channels], axis=-1)


def png_file(image: np.ndarray) -> bytes:
    """Returns a PNG file of an image (H, W, C) uint8 with one or three channels."""
    import PIL.Image

    content = io.BytesIO()
    PIL.Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(content, format="PNG")
    return content.getvalue()


def _crop(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns the largest central part of an image with the aspect ratio of height to width."""
    rows, columns = image.shape[:2]
    kept_rows = max(1, min(rows, round(columns * height / width)))
    kept_columns = max(1, min(columns, round(rows * width / height)))
    top, left = (rows - kept_rows) // 2, (columns - kept_columns) // 2
    return image[top : top + kept_rows, left : left + kept_columns]


def _is_bytes(value: Any, axes: int) -> bool:
    """Returns whether a value is a uint8 array with so many axes, none of them empty."""
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == axes and value.size > 0


def _found(value: Any) -> str:
    """Describes a value that is not an image or clip, for a message."""
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else shown(value)
