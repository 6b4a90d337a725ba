"""Weights of training files: how often the pairs of each file are used."""

import math
import random
from collections.abc import Sequence

from t2t.errors import UserError
from t2t.problems.filters.sample_filter import SampleFilter

BY_WEIGHT = SampleFilter("not taken by weight", lambda sample: sample.copies > 0, by_record=True)
"""Drops samples with 0 copies."""


def parse_weights(text: str, files: Sequence[str]) -> list[float]:
    """Parses comma-separated weights, one for each file.

    Raises:
        UserError: a weight is not a positive number, or the number of weights is not that of the files.
    """
    asked = f"--train_weights={text}: "
    weights = []
    for part in text.split(","):
        try:
            weights.append(float(part))
        except ValueError:
            weights.append(math.nan)
        if not (math.isfinite(weights[-1]) and weights[-1] > 0):
            raise UserError(f"{asked}{part.strip()!r} is no weight, which is a number above 0; correct it")
    if len(weights) != len(files):
        raise UserError(
            f"{asked}{len(weights)} weight{'s' * (len(weights) != 1)} for {len(files)} training "
            f"file{'s' * (len(files) != 1)} ({', '.join(files)}); give one for each"
        )
    return weights


def draw_copies(weight: float, rng: random.Random) -> int:
    """Draws the number of copies of a sample: `weight` on average, rounded down or up at random."""
    return math.floor(weight + rng.random())
