"""Tensor2Tensor's problems of speech, for plug-ins that subclass them, and its reader of sound files."""

from typing import Any

from t2t.compat.tensor2tensor.data_generators import base, text_encoder
from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.features.audio import read_audio, resampled


class AudioEncoder:
    """Reads sound files."""

    num_reserved_ids = 0

    def __init__(self, num_reserved_ids: int = 0, sample_rate: int = 16_000):
        self._sample_rate = sample_rate

    def encode(self, s: str) -> list[float]:
        """Returns the samples of a sound file, in [-1, 1]."""
        waveform, rate = read_audio(s)
        samples: list[float] = resampled(waveform, rate, self._sample_rate).tolist()
        return samples


class SpeechRecognitionProblem(base.Problem):
    """Speech to text: the plug-in's `generate_data` writes samples with `waveforms` and `targets`."""

    num_test_shards = 0
    """Shards of the test split; 0 for none."""

    def feature_encoders(self, data_dir: str | None) -> dict[str, Any]:
        """Returns the reader of sound files, and the vocabulary of the texts."""
        return {"inputs": None, "waveforms": AudioEncoder(), "targets": text_encoder.ByteTextEncoder()}


__getattr__ = placeholders_of(__name__)
