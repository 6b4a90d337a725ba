"""Decides, before encoding, which training samples are left out, and why."""

from collections.abc import Sequence
from typing import Any

from t2t.problems.base import Problem, Sample
from t2t.specs.constants import INPUTS, TARGETS

EMPTY = "with an empty side"

DROPPED = "_dropped"
"""Key added to the features of a sample: the reason to leave it out, or None to keep it without further filters."""


def drop_reasons(problem: Problem, samples: Sequence[Sample]) -> list[str | None]:
    """Returns why each training sample is left out: an empty text, or the first filter that drops it; else None."""
    filters, spec = problem.sample_filters(), problem.declared_spec()
    features = (INPUTS, TARGETS) if spec is None else tuple(spec.features)
    reasons: list[str | None] = []
    for sample in samples:
        if any(_is_empty_text(sample.get(name)) for name in features):
            reasons.append(EMPTY)
        elif DROPPED in sample:
            reasons.append(sample[DROPPED])
        else:
            reasons.append(next((one.reason for one in filters if not one.keeps(sample)), None))
    return reasons


def _is_empty_text(value: Any) -> bool:
    return isinstance(value, str) and (not value or value.isspace())


def unfiltered(problem: Problem, samples: Sequence[Sample]) -> Sequence[Sample]:
    """Returns the training samples that no filter drops, including those with an empty text."""
    if not problem.sample_filters():
        return samples
    reasons = drop_reasons(problem, samples)
    return [sample for sample, reason in zip(samples, reasons, strict=True) if reason in (None, EMPTY)]
