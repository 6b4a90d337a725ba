"""Sound files as arrays: read by libsndfile (WAV, FLAC, Ogg, MP3) and resampled by soxr.

Both come with the extra `audio` and are imported only when needed. WAV files are written without them.

Legend: N samples of a waveform.
"""

import io
import os
import wave
from pathlib import Path

import numpy as np

from t2t.errors import UserError, needs_extra, one_line

MU = 255
"""Parameter of mu-law companding; codes are 0 to MU."""
LOUDEST_16_BIT = 2**15 - 1


def read_audio(path: Path | str) -> tuple[np.ndarray, int]:
    """Reads a sound file; its channels are averaged.

    Returns:
        (N,) float32 in [-1, 1], and samples per second.

    Raises:
        UserError: the file is missing, damaged, or of a kind that libsndfile does not read, or has nan or infinity.
    """
    path = Path(path)
    if not os.path.isfile(path):  # `Path.is_file` raises for names that are too long
        raise UserError(f"{path}: there is no such sound file; check the path")
    with needs_extra("audio", "reading sound files"):
        import soundfile
    try:
        values_NC, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise UserError(
            f"{path}: cannot be read as sound ({one_line(error.error_string)}); WAV, FLAC, Ogg and MP3 files can: "
            f"check or convert the file"
        ) from None
    if not np.isfinite(values_NC).all():
        raise UserError(
            f"{path}: has a value that is not finite (nan or infinite); correct the recording, or leave it out"
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

    f(x) = sign(x) ln(1 + mu |x|) / ln(1 + mu), rounded to the nearest of 256 equally spaced values (ITU-T G.711; van
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
