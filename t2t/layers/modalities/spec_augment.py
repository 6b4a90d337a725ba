"""SpecAugment: masks of mel bands and frames while training (Park et al. 2019, arXiv:1904.08779, section 2).

Masked values are zeros, the mean of every band, since bands are normalised. The paper's time warping is left out.

Legend: B batch, F frames, M mel bands, K masks of an example, L places along an axis, frames or bands.
"""

from typing import NamedTuple

import keras
from keras import ops

from t2t.layers.dropout import GivenSeed, SeededLayer
from t2t.layers.modalities.audio import LogMelAudio
from t2t.registry import register_modality


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
