"""SpecAugment's masks against loops, and where they act.

Legend: B batch, F frames, M bands, K masks, L places.
"""

import numpy as np
import tensorflow as tf

from t2t.layers.modalities.audio import (
    LIBRISPEECH_DOUBLE,
    SWITCHBOARD_MILD,
    LogMelAudio,
    Policy,
    SpecAugmentAudio,
    SpecMasks,
    masked,
)
from t2t.specs.features import FeatureKind, FeatureSpec
from tests.builders import numpy, randomise

RATE = 1000
"""Samples a second: a frame every 10."""


def seed_of(number):
    return tf.constant([1, number], tf.int64)


def masks_of(policy):
    layer = SpecMasks(policy, name="masks", dtype="float32")
    layer.build()
    return layer


def runs(row):
    """Lengths of the runs of True in a row of bools."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return edges[1::2] - edges[::2]


def test_masks_are_those_of_a_loop_over_them():
    rng = np.random.default_rng(0)
    drawn = rng.uniform(size=(2, 50, 3)).astype(np.float32)
    sizes, widest = rng.integers(5, 20, (50, 1)), rng.integers(0, 5, (50, 1))
    found = masked(drawn, widest.astype(np.float32), sizes.astype(np.float32), 20)
    for b in range(50):
        expected = np.zeros(20, bool)
        for width, start in drawn[:, b].T:
            width = int(width * (widest[b, 0] + 1))
            start = int(start * (sizes[b, 0] - width))
            assert start + width <= sizes[b, 0]
            expected[start : start + width] = True
        np.testing.assert_array_equal(found[b], expected)


def test_a_batch_has_masks_of_both_kinds_within_their_bounds_and_the_rest_stays():
    policy, lengths = Policy(1, 6, 1, 9, 0.5), np.array([40, 10, 0] * 150)
    keep = np.arange(40) < lengths[:, None]
    x = np.random.default_rng(1).normal(size=(450, 40, 20)).astype(np.float32)
    widths = {"bands": set(), "frames": set()}
    found = numpy(masks_of(policy)(x, keep, seed_of(1)))
    hidden = found == 0
    np.testing.assert_array_equal(found[~hidden], x[~hidden])
    for row, length in zip(hidden, lengths, strict=True):
        bands, frames = row.all(axis=0), row.all(axis=1)
        np.testing.assert_array_equal(row, bands[None, :] | frames[:, None])
        assert len(runs(bands)) <= 1
        assert len(runs(frames)) <= 1
        assert frames.sum() <= min(9, length // 2)
        assert not frames[length:].any()
        widths["bands"].add(int(bands.sum()))
        if length == 40:
            widths["frames"].add(int(frames.sum()))
    assert widths == {"bands": set(range(7)), "frames": set(range(10))}


def test_a_compiler_with_fixed_shapes_draws_the_same_masks():
    keep = np.arange(40) < np.array([40, 10])[:, None]
    x = np.random.default_rng(1).normal(size=(2, 40, 80)).astype(np.float32)
    layer = masks_of(SWITCHBOARD_MILD)
    compiled = tf.function(lambda seed: layer(x, keep, seed), jit_compile=True)
    np.testing.assert_array_equal(compiled(seed_of(5)), layer(x, keep, seed_of(5)))


def test_the_papers_policies():
    """Table 1: LD has F 27, m_F 2, T 100, p 1.0, m_T 2; SM has F 15, m_F 2, T 70, p 0.2, m_T 2."""
    for policy, F, m_F, T, p, m_T in ((LIBRISPEECH_DOUBLE, 27, 2, 100, 1.0, 2), (SWITCHBOARD_MILD, 15, 2, 70, 0.2, 2)):
        assert policy == Policy(band_masks=m_F, widest_band_mask=F, time_masks=m_T, widest_time_mask=T, time_fraction=p)


def test_sound_is_masked_by_its_seed_while_training_and_never_else():
    spec = FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=RATE)
    plain, augmented = (
        kind(spec, 8, name="source_embedding", dtype="float32") for kind in (LogMelAudio, SpecAugmentAudio)
    )
    for bottom in (plain, augmented):
        bottom.build()
        randomise(bottom)
    assert [v.path for v in augmented.variables] == [v.path for v in plain.variables]
    samples = np.random.default_rng(0).normal(0.0, 0.2, (2, 2000)).astype(np.float32)
    expected = numpy(plain(samples, seed=seed_of(3)))
    np.testing.assert_array_equal(numpy(augmented(samples)), expected)
    first, again, other = (numpy(augmented(samples, seed=seed_of(number))) for number in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    for found in (first, other):
        assert np.abs(found - expected).max() > 1e-3
    assert np.abs(first - other).max() > 1e-3
