"""Small examples of every kind of feature."""

import numpy as np

from t2t.specs.features import FeatureKind, FeatureSpec

RATE = 400
"""Sample rate of the sound in Hz: one position every 16 samples, so that tests are fast."""
SPECS = {
    FeatureKind.TOKENS: FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=13),
    FeatureKind.IMAGE: FeatureSpec(kind=FeatureKind.IMAGE, shape=(6, 5, 3)),
    FeatureKind.AUDIO: FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=RATE),
    FeatureKind.REAL: FeatureSpec(kind=FeatureKind.REAL, shape=(4,)),
    FeatureKind.VIDEO: FeatureSpec(kind=FeatureKind.VIDEO, shape=(6, 5, 1)),
    FeatureKind.LABEL: FeatureSpec(kind=FeatureKind.LABEL, vocab_size=7),
}
LENGTHS = {
    FeatureKind.TOKENS: (5, 3, 7), FeatureKind.AUDIO: (100, 61, 240), FeatureKind.REAL: (5, 3, 7),
    FeatureKind.VIDEO: (3, 1, 4),
}  # fmt: skip


def example(kind, rng, length):
    """Returns an example of a kind, as the input pipeline would."""
    if kind == FeatureKind.TOKENS:
        return np.array([*rng.integers(2, 13, length - 1), 1], np.int32)
    if kind in (FeatureKind.IMAGE, FeatureKind.VIDEO):
        shape = SPECS[kind].shape if kind == FeatureKind.IMAGE else (length, *SPECS[kind].shape)
        return rng.integers(0, 256, shape).astype(np.uint8)
    if kind == FeatureKind.LABEL:
        return np.int32(rng.integers(0, 7))
    return rng.normal(0.0, 0.3, (length, 4) if kind == FeatureKind.REAL else length).astype(np.float32)


def column(kind, seed, width=0):
    """Returns three examples, padded if their lengths differ."""
    rng = np.random.default_rng(seed)
    rows = [example(kind, rng, length) for length in LENGTHS.get(kind, (0, 0, 0))]
    if kind not in LENGTHS:
        return np.stack(rows)
    array = np.zeros((3, max(width, *map(len, rows)), *rows[0].shape[1:]), rows[0].dtype)
    for place, row in zip(array, rows, strict=True):
        place[: len(row)] = row
    return array
