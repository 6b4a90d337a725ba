"""Sound files as numbers, read by libsndfile (WAV, FLAC, Ogg, MP3) and resampled by soxr.

Both come with the extra `audio`, and are imported only when a file is read.

Legend: N samples of a waveform.
"""

from pathlib import Path

import numpy as np

from t2t.errors import UserError, needs_extra, one_line


def read_audio(path: Path | str) -> tuple[np.ndarray, int]:
    """Reads a sound file; its channels are averaged.

    Returns:
        (N,) float32 in [-1, 1], and samples per second.

    Raises:
        UserError: the file is missing, damaged, or of a kind that libsndfile does not read.
    """
    path = Path(path)
    if not path.is_file():
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
    return values_NC.mean(axis=1, dtype=np.float32), rate


def resampled(waveform: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Returns a waveform (N,) float32 at another rate, band-limited; rates in samples per second."""
    if rate == wanted or not len(waveform):
        return waveform.astype(np.float32, copy=False)
    with needs_extra("audio", "resampling sound"):
        import soxr
    changed: np.ndarray = soxr.resample(waveform.astype(np.float32, copy=False), rate, wanted)
    return changed
