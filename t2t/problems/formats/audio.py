"""Sound as numbers: WAV by the standard library, everything else through the program `ffmpeg`.

Legend: N samples of a waveform.
"""

import functools
import math
import shutil
import subprocess
import wave
from pathlib import Path

import numpy as np

from t2t.errors import UserError, one_line

_ZEROS = 16
"""Zero crossings of the resampling filter on each side."""
_ROLLOFF = 0.945
"""Where the filter halves what it lets through, as a part of the lower of the two Nyquist frequencies."""
_BETA = 8.6
"""Of the Kaiser window: stopband about 90 dB down."""
_OTHER_RATE = 16_000
"""Samples per second that `ffmpeg` is asked for."""


def read_audio(path: Path | str) -> tuple[np.ndarray, int]:
    """Reads a sound file; its channels are averaged.

    Returns:
        (N,) float32 in [-1, 1], and samples per second.

    Raises:
        UserError: the file is missing, damaged, or of a kind that this machine cannot read.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such sound file; check the path")
    return _read_wav(path) if path.suffix.lower() in (".wav", ".wave") else _read_by_ffmpeg(path)


def _read_wav(path: Path) -> tuple[np.ndarray, int]:
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            content = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        raise UserError(
            f"{path}: cannot be read as a WAV file ({one_line(error) or 'it ends too soon'}); it must hold plain PCM: "
            f"convert it, e.g. `ffmpeg -i FILE -c:a pcm_s16le NEW.wav`"
        ) from None
    whole = len(content) - len(content) % (width * channels)
    values = _integers(content[:whole], width, path).reshape(-1, channels)
    return values.mean(axis=1, dtype=np.float32), rate


def _integers(content: bytes, width: int, path: Path) -> np.ndarray:
    """Returns the numbers of PCM as float32 in [-1, 1]: one byte is unsigned, more are signed, the lowest first."""
    if width == 1:
        return (np.frombuffer(content, np.uint8).astype(np.float32) - 128) / 128
    if width in (2, 4):
        return np.frombuffer(content, f"<i{width}").astype(np.float32) / 2.0 ** (8 * width - 1)
    if width == 3:
        padded = np.zeros((len(content) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
        return padded.view("<i4")[:, 0].astype(np.float32) / 2.0**31
    raise UserError(f"{path}: samples of {width} bytes; 1 to 4 can be read: convert the file to 16 bits")


def _read_by_ffmpeg(path: Path) -> tuple[np.ndarray, int]:
    if shutil.which("ffmpeg") is None:
        raise UserError(
            f"{path}: only WAV files can be read without the program ffmpeg, which is not on the PATH; install it, or "
            f"convert the files and name them"
        )
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-nostdin",
        "-i",
        f"file:{path}",
        "-f",
        "s16le",
        "-ac",
        "1",
        "-ar",
        str(_OTHER_RATE),
    ]
    done = subprocess.run([*command, "-"], capture_output=True, check=False)
    if done.returncode:
        said = one_line(done.stderr.decode(errors="replace"))[:200]
        raise UserError(f"{path}: ffmpeg cannot read it ({said}); check the file")
    return np.frombuffer(done.stdout, "<i2").astype(np.float32) / 2**15, _OTHER_RATE


def resampled(waveform: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Returns a waveform at another rate.

    Band-limited interpolation by a sinc under a Kaiser window (Smith and Gossett 1984, "A flexible sampling-rate
    conversion method"), its filter taken at the phases that occur: between rates a and b there are b / gcd(a, b).

    Args:
        waveform: (N,) float32 at `rate`.
        rate: samples per second that it has.
        wanted: samples per second that it gets.

    Returns:
        (ceil(N wanted / rate),) float32.
    """
    if rate == wanted or not len(waveform):
        return waveform.astype(np.float32, copy=False)
    common = math.gcd(rate, wanted)
    up, down = wanted // common, rate // common
    filters = _filters(up, down)  # (up, taps)
    taps = filters.shape[1]
    padded = np.pad(waveform.astype(np.float32), (taps // 2 - 1, taps // 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps)
    count = -(-len(waveform) * up // down)
    result = np.empty(count, np.float32)
    for phase in range(min(up, count)):
        places = np.arange(phase, count, up)  # output samples that lie equally between two inputs
        starts = places * down // up
        result[places] = windows[starts] @ filters[places[0] * down % up]
    return result


@functools.lru_cache(maxsize=16)
def _filters(up: int, down: int) -> np.ndarray:
    """Returns (up, taps) float32: the weights of the inputs around each place between two of them, in steps of 1/up."""
    cutoff = _ROLLOFF * min(1.0, up / down)
    half = math.ceil(_ZEROS / cutoff)
    offsets = np.arange(-half, half + 2)[None, :] - np.arange(up)[:, None] / up
    window = np.i0(_BETA * np.sqrt(np.maximum(0.0, 1.0 - (offsets / (half + 1)) ** 2))) / np.i0(_BETA)
    weights = cutoff * np.sinc(cutoff * offsets) * window
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
