"""Sound: waveforms, and waveforms as sequences of mu-law codes.

Files are read by libsndfile (WAV, FLAC, Ogg, MP3) and resampled by soxr. Both come with the extra `audio` and are
imported only when needed. WAV files are written without them.

Legend: N samples of a waveform.
"""

import dataclasses
import io
import os
import wave
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.errors import UserError, needs_extra, one_line
from t2t.features.feature import Feature, shown
from t2t.features.text import Text
from t2t.registry import register_feature
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.text.encoder import TextEncoder

MU = 255
"""Parameter of mu-law companding; codes are 0 to MU."""
CODES = tuple(map(str, range(MU + 1)))
LOUDEST_16_BIT = 2**15 - 1


@register_feature
@dataclasses.dataclass(frozen=True)
class Audio(Feature):
    """A waveform: samples have the path of an audio file, or a (N,) float array."""

    kind = FeatureKind.AUDIO
    chunk_size: ClassVar[int] = 32
    sample_rate: int = 16_000
    """Samples per second of stored sound; files of another rate are resampled."""
    max_seconds: float = 0.0
    """Training examples that last longer are dropped; 0 for no limit."""

    def spec(self, encoder: TextEncoder | None = None) -> FeatureSpec:
        """A waveform."""
        return FeatureSpec(kind=self.kind, sample_rate=self.sample_rate)

    def needed(self, encoder: TextEncoder | None = None) -> str:
        """A path or an array."""
        return (
            f"the pathlib.Path of an audio file, or a numpy array (samples,) of float in [-1, 1] at "
            f"{self.sample_rate} Hz,"
        )

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """A waveform is a path or a float array."""
        is_array = isinstance(value, np.ndarray) and value.ndim == 1 and np.issubdtype(value.dtype, np.floating)
        return "" if is_array or isinstance(value, Path) else f"has {shown(value)} for {name!r}"

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Returns (N,) float32 in [-1, 1] at `sample_rate`; channels of a file are averaged."""
        with np.errstate(over="ignore"):  # generation refuses the infinite values that result
            return [
                resampled(*read_audio(value), self.sample_rate) if isinstance(value, Path) else value.astype(np.float32)
                for value in values
            ]

    def read_file(self, path: Path) -> np.ndarray | None:
        """Returns the recording in a file as a model reads it."""
        return self.encode([path])[0]


@register_feature
@dataclasses.dataclass(frozen=True)
class AudioCodes(Text):
    """Sound as the sequence of its mu-law codes: samples have the path of an audio file, outputs can be written as WAV.

    Samples as the words of a sequence: van den Oord et al. 2016, "WaveNet" (arXiv:1609.03499), section 2.2.
    """

    chunk_size: ClassVar[int] = 32
    is_free: ClassVar[bool] = False
    words: tuple[str, ...] = dataclasses.field(default=CODES, kw_only=True)
    shared: bool = dataclasses.field(default=False, kw_only=True)
    output_suffix: str = dataclasses.field(default=".wav", kw_only=True)
    sample_rate: int = dataclasses.field(default=16_000, kw_only=True)
    """Samples per second of stored and generated sound; files of another rate are resampled."""

    def needed(self, encoder: TextEncoder | None = None) -> str:
        """A path."""
        return "the pathlib.Path of a recording"

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """Sound is a path."""
        return "" if isinstance(value, Path) else f"has {shown(value)} for {name!r}"

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Reads and encodes recordings, end of sequence added."""
        return super().encode([self._codes(value) for value in values], encoder)

    def output_file(self, output: str) -> bytes:
        """Returns a WAV file of the codes of an output; other words are left out."""
        codes = np.array([int(word) for word in output.split() if word.isdecimal()], np.uint8)
        return wav_file(mu_law_waveform(codes), self.sample_rate)

    def _codes(self, path: Path) -> str:
        waveform, rate = read_audio(path)
        return " ".join(map(str, mu_law_codes(resampled(waveform, rate, self.sample_rate)).tolist()))


def read_audio(path: Path | str) -> tuple[np.ndarray, int]:
    """Reads a sound file; its channels are averaged.

    Returns:
        (N,) float32 in [-1, 1], and samples per second.

    Raises:
        UserError: the file is missing, damaged, or of a kind that libsndfile does not read, or has nan or infinity.
    """
    path = Path(path)
    if not os.path.isfile(path):  # `Path.is_file` raises for names that are too long
        raise UserError(f"{path}: there is no such sound file", "check the path")
    with needs_extra("audio", "reading sound files"):
        import soundfile
    try:
        values_NC, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise UserError(
            f"{path}: cannot be read as sound ({one_line(error.error_string)})",
            "WAV, FLAC, Ogg and MP3 files can: check or convert the file",
        ) from None
    if not np.isfinite(values_NC).all():
        raise UserError(
            f"{path}: has a value that is not finite (nan or infinite)", "correct the recording, or leave it out"
        )
    return values_NC.mean(axis=1, dtype=np.float32), rate


def resampled(waveform: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Returns a waveform (N,) float32 at another rate, band-limited; rates in samples per second."""
    if rate == wanted or not len(waveform):
        return waveform.astype(np.float32, copy=False)
    with needs_extra("audio", "resampling sound"):
        import soxr
    changed: np.ndarray = soxr.resample(waveform.astype(np.float32, copy=False), rate, wanted)
    return changed


def mu_law_codes(waveform: np.ndarray) -> np.ndarray:
    """Returns the 8-bit codes, (N,) uint8, of a float waveform (N,) in [-1, 1]; louder samples are clipped.

    `sign(x) ln(1 + mu |x|) / ln(1 + mu)`, rounded to the nearest of 256 equally spaced values (ITU-T G.711; van
    den Oord et al. 2016, section 2.2).
    """
    x = np.clip(np.asarray(waveform, np.float64), -1.0, 1.0)
    companded = np.sign(x) * np.log1p(MU * np.abs(x)) / np.log1p(MU)
    codes: np.ndarray = np.floor((companded + 1.0) / 2.0 * MU + 0.5).astype(np.uint8)
    return codes


def mu_law_waveform(codes: np.ndarray) -> np.ndarray:
    """Returns the waveform, (N,) float32 in [-1, 1], of codes (N,); the inverse of `mu_law_codes`."""
    y = 2.0 * codes.astype(np.float64) / MU - 1.0
    waveform: np.ndarray = (np.sign(y) * np.expm1(np.abs(y) * np.log1p(MU)) / MU).astype(np.float32)
    return waveform


def wav_file(waveform: np.ndarray, rate: int) -> bytes:
    """Returns a WAV file, 16 bits and one channel, of a waveform (N,) float in [-1, 1]; rate in samples per second."""
    samples = np.round(np.clip(waveform, -1.0, 1.0) * LOUDEST_16_BIT).astype("<i2")
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, rate, len(samples), "NONE", ""))
        file.writeframes(samples.tobytes())
    return content.getvalue()
