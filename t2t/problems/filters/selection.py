"""Decides, before encoding, which training samples are left out, and why."""

from collections.abc import Sequence
from typing import Any

from t2t.problems.samples import SampleRecord, Samples
from t2t.specs.constants import INPUTS, TARGETS

EMPTY = "with an empty side"


def drop_reasons(problem: Samples, samples: Sequence[SampleRecord]) -> list[str | None]:
    """Returns why each training sample is left out: an empty text, or the first filter that drops it; else None."""
    filters, features = problem.sample_filters(), tuple(problem.features) or (INPUTS, TARGETS)
    reasons: list[str | None] = []
    for sample in samples:
        if any(_is_empty_text(sample.features.get(name)) for name in features):
            reasons.append(EMPTY)
        elif sample.is_filtered:
            reasons.append(sample.dropped)
        else:
            reasons.append(next((one.reason for one in filters if not one.keeps_record(sample)), None))
    return reasons


def _is_empty_text(value: Any) -> bool:
    return isinstance(value, str) and (not value or value.isspace())


def unfiltered(problem: Samples, samples: Sequence[SampleRecord]) -> Sequence[SampleRecord]:
    """Returns the training samples that no filter drops, including those with an empty text."""
    if not problem.sample_filters():
        return samples
    reasons = drop_reasons(problem, samples)
    return [sample for sample, reason in zip(samples, reasons, strict=True) if reason in (None, EMPTY)]
