"""How often the pairs of each training file are taken."""

import math
import random
from collections.abc import Sequence

from t2t.errors import UserError
from t2t.problems.filters.sample_filter import SampleFilter

COPIES = "_copies"
"""Key added to the features of a training sample: how many times it is written; 1 without it."""

BY_WEIGHT = SampleFilter("not taken by weight", lambda sample: sample.get(COPIES, 1) > 0)
"""Drops samples of which no copy is taken."""


def parse_weights(text: str, files: Sequence[str]) -> list[float]:
    """Returns the weight of each file from numbers that commas separate.

    Raises:
        UserError: one is no positive number, or there are more or fewer than files.
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
    """Returns how often one sample is taken: `weight` times on average, and never less or more by 1 or more."""
    return math.floor(weight + rng.random())
