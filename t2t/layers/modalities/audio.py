"""Waveforms as inputs: log-mel energies, computed in the graph, then a convolution and strided residual blocks.

SpecAugment hides bands and frames while training (Park et al. 2019, arXiv:1904.08779, section 2). Masked values are
zeros, the mean of every band, since bands are normalised. The paper's time warping is left out.

Legend: B batch, N samples, F frames, L samples of a frame (in masks: positions along an axis), K frequencies (in masks:
masks of an example), M mel bands, C channels, P positions, D width.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from t2t.layers.dropout import GivenSeed, SeededLayer
from t2t.layers.image_blocks import DownBlock
from t2t.layers.modalities.base import Bottom, input_keep
from t2t.layers.mode import current_mode
from t2t.registry import register_modality
from t2t.specs.features import FeatureKind

FRAME_SECONDS, HOP_SECONDS = 0.025, 0.010
BANDS = 80
CHANNELS = 32
HALVINGS = 2
"""Positions are HOP_SECONDS * 2^HALVINGS apart."""


@register_modality
class LogMelAudio(Bottom):
    """Waveforms: 80 log-mel energies every 10 ms, and a vector every 40 ms. Zeros at the end are padding.

    Of silence alone, one frame is read.
    """

    kinds = frozenset({FeatureKind.AUDIO})

    def build(self, input_shape=None):
        """Creates the convolutions and the last projection."""
        policy = self.dtype_policy
        self.first = keras.layers.Conv2D(CHANNELS, 3, padding="same", dtype=policy, name="first")
        self.first.build((None, None, BANDS, 1))
        self.blocks = [DownBlock((2 * CHANNELS,) * 2, dtype=policy, name=f"block_{i}") for i in range(HALVINGS)]
        channels = CHANNELS
        for block in self.blocks:
            block.build((None, None, None, channels))
            channels = 2 * CHANNELS
        self.last = keras.layers.Dense(self.width, dtype=policy, name="last")
        self.last.build((None, None, -(-BANDS // 2**HALVINGS) * channels))

    def call(self, samples_BN, seed=None):
        """Returns (B, P, D) of waveforms (B, N) float32 in [-1, 1]."""
        keep_BF = self.frames_keep(samples_BN)
        x_BFM = normalised(log_mel(samples_BN, self.spec.sample_rate), keep_BF)
        x_BFMC = self.augmented(x_BFM, keep_BF, seed)[..., None]
        keep = keep_BF[:, :, None, None]
        x_BFMC = self.first(ops.cast(x_BFMC, self.compute_dtype))
        for block in self.blocks:
            x_BFMC = block(x_BFMC, keep)
            keep = keep[:, ::2]
        x_BFMC = ops.where(keep, x_BFMC, ops.zeros_like(x_BFMC))
        return self.last(ops.reshape(x_BFMC, (*ops.shape(x_BFMC)[:2], x_BFMC.shape[2] * x_BFMC.shape[3])))

    def augmented(self, x_BFM, keep_BF, seed):
        """Returns the normalised bands (B, F, M) with data augmentation: unchanged, unless a subclass overrides it."""
        return x_BFM

    def keep(self, samples_BN):
        """Returns (B, P) bool."""
        return self.frames_keep(samples_BN)[:, :: 2**HALVINGS]

    def positions_of(self, length: int) -> int:
        """Returns the number of vectors for `length` samples."""
        return -(-length // (_samples(HOP_SECONDS, self.spec.sample_rate) * 2**HALVINGS))

    def frames_keep(self, samples_BN):
        """Returns (B, F) bool, True where a frame begins in the data."""
        return input_keep(samples_BN[..., None])[:, :: _samples(HOP_SECONDS, self.spec.sample_rate)]


def log_mel(samples_BN, sample_rate: int):
    """Returns (B, F, M) float32, natural logarithms of mel energies; F = N / hop, rounded up.

    Hann windows of 25 ms every 10 ms, the power spectrum, triangular bands equally spaced on the mel scale.
    """
    frame, hop = (_samples(seconds, sample_rate) for seconds in (FRAME_SECONDS, HOP_SECONDS))
    size = 2 ** int(np.ceil(np.log2(frame)))
    # Frames that begin in the last samples are completed with zeros.
    padded_BN = ops.pad(ops.cast(samples_BN, "float32"), ((0, 0), (0, frame)))
    frames_BFL = ops.extract_sequences(padded_BN, frame, hop)[:, : (ops.shape(samples_BN)[1] + hop - 1) // hop]
    window_L = np.hanning(frame + 1)[:-1].astype(np.float32)
    real_BFK, imaginary_BFK = _spectrum(frames_BFL * window_L, size)
    power_BFK = ops.square(real_BFK) + ops.square(imaginary_BFK)
    return ops.log(ops.matmul(power_BFK, mel_bands(sample_rate, size)) + 1e-6)


def _spectrum(frames_BFL, size: int):
    """Returns the discrete Fourier transform of frames followed by zeros, real and imaginary (B, F, size / 2 + 1)."""
    frame = frames_BFL.shape[-1]
    if not current_mode().for_converters:
        return ops.rfft(ops.pad(frames_BFL, ((0, 0), (0, 0), (0, size - frame))))
    angles_LK = 2 * np.pi / size * (np.arange(frame)[:, None] * np.arange(size // 2 + 1) % size)
    return tuple(ops.matmul(frames_BFL, wave(angles_LK).astype(np.float32)) for wave in (np.cos, lambda x: -np.sin(x)))


def mel_bands(sample_rate: int, size: int, bands: int = BANDS):
    """Returns the weight of each of the K = size / 2 + 1 frequencies in each band, (K, M) float32.

    The mel scale is that of O'Shaughnessy (1987), 2595 log10(1 + f / 700); bands go from 0 to half the sample rate.
    """
    highest = 2595.0 * np.log10(1.0 + sample_rate / 2 / 700.0)
    edges = 700.0 * (10.0 ** (np.linspace(0.0, highest, bands + 2) / 2595.0) - 1.0)
    frequencies_K1 = np.linspace(0.0, sample_rate / 2, size // 2 + 1)[:, None]
    rising = (frequencies_K1 - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies_K1) / (edges[2:] - edges[1:-1])
    return np.maximum(0.0, np.minimum(rising, falling)).astype(np.float32)


def normalised(x_BFM, keep_BF):
    """Returns each band with mean 0 and variance 1 over the frames of its example that are kept, zeros elsewhere."""
    weights_BF1 = ops.cast(keep_BF, x_BFM.dtype)[..., None]
    count_B11 = ops.maximum(ops.sum(weights_BF1, axis=1, keepdims=True), 1.0)
    mean_B1M = ops.sum(x_BFM * weights_BF1, axis=1, keepdims=True) / count_B11
    centred_BFM = (x_BFM - mean_B1M) * weights_BF1
    variance_B1M = ops.sum(ops.square(centred_BFM), axis=1, keepdims=True) / count_B11
    return centred_BFM * ops.rsqrt(variance_B1M + 1e-3)


def _samples(seconds: float, sample_rate: int) -> int:
    return round(seconds * sample_rate)


class Policy(NamedTuple):
    """A row of the paper's Table 1."""

    band_masks: int
    """m_F, masks of neighbouring bands."""
    widest_band_mask: int
    """F, bands."""
    time_masks: int
    """m_T, masks of neighbouring frames."""
    widest_time_mask: int
    """T, frames of 10 ms."""
    time_fraction: float
    """p: no mask has more than this fraction of the frames of its example."""


LIBRISPEECH_DOUBLE = Policy(2, 27, 2, 100, 1.0)
SWITCHBOARD_MILD = Policy(2, 15, 2, 70, 0.2)


class SpecMasks(SeededLayer):
    """Masks random bands and frames of each example, a function of the seed."""

    def __init__(self, policy: Policy, **kwargs):
        super().__init__(**kwargs)
        self.policy = policy

    def call(self, x_BFM, keep_BF, seed):
        """Returns (B, F, M) with zeros in the masks; `keep_BF` (B, F) bool is False at padding."""
        policy, (batch, frames, bands) = self.policy, ops.shape(x_BFM)
        masks = policy.band_masks + policy.time_masks
        # Integers, which all compilers draw alike; 24 of their bits make a float32 in [0, 1).
        words_2BK = keras.random.randint(
            (2, batch, masks), -(2**31), 2**31 - 1, dtype="int32", seed=GivenSeed(self.own_seed(seed))
        )
        drawn_2BK = ops.cast(ops.bitwise_and(words_2BK, 2**24 - 1), "float32") * 2.0**-24
        length_B1 = ops.sum(ops.cast(keep_BF, "float32"), axis=1, keepdims=True)
        widest_B1 = ops.minimum(float(policy.widest_time_mask), ops.floor(policy.time_fraction * length_B1))
        first = policy.band_masks
        of_bands_BM = masked(drawn_2BK[:, :, :first], float(policy.widest_band_mask), float(bands), bands)
        of_time_BF = masked(drawn_2BK[:, :, first:], widest_B1, length_B1, frames)
        hidden_BFM = ops.logical_or(of_bands_BM[:, None, :], of_time_BF[:, :, None])
        return ops.where(hidden_BFM, ops.zeros_like(x_BFM), x_BFM)


def masked(drawn_2BK, widest, size, length):
    """Returns (B, L) bool, True at the positions that any of K masks hides.

    The width of a mask is uniform from 0 to `widest`, and its start uniform from 0 to below `size` minus the width.

    Args:
        drawn_2BK: (2, B, K) float32, uniform in [0, 1): for widths and for starts.
        widest: a float, or (B, 1) float32.
        size: number of positions that hold data, a float or (B, 1) float32.
        length: L.
    """
    width_BK1 = ops.floor(drawn_2BK[0] * (widest + 1.0))[..., None]
    start_BK1 = ops.floor(drawn_2BK[1][..., None] * (ops.reshape(size, (-1, 1, 1)) - width_BK1))
    place_L = ops.arange(length, dtype="float32")
    is_in_BKL = ops.logical_and(place_L >= start_BK1, place_L < start_BK1 + width_BK1)
    return ops.any(is_in_BKL, axis=1)


@register_modality
class SpecAugmentAudio(LogMelAudio):
    """log_mel_audio with SpecAugment's masks while training: the paper's policy LibriSpeech double."""

    policy = LIBRISPEECH_DOUBLE

    def build(self, input_shape=None):
        """Creates the weights of `log_mel_audio`; masks have none."""
        super().build(input_shape)
        self.masks = SpecMasks(self.policy, dtype="float32", name="masks")
        self.masks.build()

    def augmented(self, x_BFM, keep_BF, seed):
        """Returns the bands (B, F, M) with masks; without a seed, unchanged."""
        return x_BFM if seed is None else self.masks(x_BFM, keep_BF, seed)


@register_modality
class SpecAugmentMildAudio(SpecAugmentAudio):
    """log_mel_audio with SpecAugment's masks while training: the paper's policy Switchboard mild, for short sound."""

    policy = SWITCHBOARD_MILD
