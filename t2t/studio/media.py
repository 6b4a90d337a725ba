"""Pictures and sounds as `data:` URLs, which pages show and play without a request.

Legend: H, W height and width, C channels, F frames, N samples of a waveform.
"""

import base64

import numpy as np

from t2t.features.audio import wav_file
from t2t.features.image import png_file, resized
from t2t.problems.base import Problem, feature_of
from t2t.specs import TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec

LONGEST_SIDE = 256
"""Longest side of a picture in pixels; larger pictures are scaled down."""
MOST_FRAMES = 8
"""Frames of a clip, evenly spread, that are shown side by side."""
MOST_SECONDS = 10.0
"""Longest part of a sound that is sent."""
_TYPES = {".png": "image/png", ".wav": "audio/wav"}

Media = dict[str, str]
"""`kind`, `image` or `audio`; `url`, with the content; and `note`, which may be empty."""


def media_of(value: np.ndarray, spec: FeatureSpec) -> Media | None:
    """Returns an image (H, W, C), a clip (F, H, W, C) or a waveform (N,) for the page; None for other kinds."""
    if spec.kind == FeatureKind.IMAGE:
        return picture(value)
    if spec.kind == FeatureKind.VIDEO and len(value):
        kept = np.unique(np.linspace(0, len(value) - 1, MOST_FRAMES).round().astype(int))
        return picture(np.concatenate(list(value[kept]), axis=1), f"{len(kept)} of {len(value)} frames")
    if spec.kind == FeatureKind.AUDIO:
        most = round(MOST_SECONDS * spec.sample_rate)
        note = f"the first {MOST_SECONDS:g} s" if len(value) > most else ""
        return _media(".wav", wav_file(value[:most], spec.sample_rate), note)
    return None


def picture(image: np.ndarray, note: str = "") -> Media:
    """Encodes an image (H, W, C) uint8; with neither 1 nor 3 channels, the mean of the channels is shown."""
    height, width = image.shape[:2]
    factor = min(LONGEST_SIDE / height, MOST_FRAMES * LONGEST_SIDE / width)
    if factor < 1:
        image = resized(image, max(1, round(height * factor)), max(1, round(width * factor)))
    if image.shape[-1] not in (1, 3):
        image = image.mean(axis=-1, keepdims=True).astype(np.uint8)
    return _media(".png", png_file(image), note)


def output_media(problem: Problem, output: str) -> Media | None:
    """Returns the file that `t2t-decoder --output_format=files` would write for an output; None for text outputs."""
    feature = feature_of(problem, TARGETS)
    return _media(feature.output_suffix, feature.output_file(output), "") if feature.output_suffix in _TYPES else None


def _media(suffix: str, content: bytes, note: str) -> Media:
    kind = _TYPES[suffix]
    address = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    return {"kind": kind.partition("/")[0], "url": address, "note": note}
