"""Decides, before encoding, which training samples are left out, and why."""

from collections.abc import Sequence

from t2t.problems.base import Problem, Sample

EMPTY = "with an empty side"

DROPPED = "_dropped"
"""Key added to the features of a sample: the reason to leave it out, or None to keep it without further filters."""


def drop_reasons(problem: Problem, samples: Sequence[Sample]) -> list[str | None]:
    """Returns why each training sample is left out: an empty text, or the first filter that drops it; else None."""
    filters = problem.sample_filters()
    reasons: list[str | None] = []
    for sample in samples:
        if _has_empty_text(sample):
            reasons.append(EMPTY)
        elif DROPPED in sample:
            reasons.append(sample[DROPPED])
        else:
            reasons.append(next((one.reason for one in filters if not one.keeps(sample)), None))
    return reasons


def _has_empty_text(sample: Sample) -> bool:
    return any(isinstance(value, str) and (not value or value.isspace()) for value in sample.values())


def unfiltered(problem: Problem, samples: Sequence[Sample]) -> Sequence[Sample]:
    """Returns the training samples that no filter drops, including those with an empty text."""
    if not problem.sample_filters():
        return samples
    reasons = drop_reasons(problem, samples)
    return [sample for sample, reason in zip(samples, reasons, strict=True) if reason in (None, EMPTY)]
