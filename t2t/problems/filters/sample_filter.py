"""One filter of training samples."""

import dataclasses
from collections.abc import Callable
from typing import Any

from t2t.problems.source import SampleRecord


@dataclasses.dataclass(frozen=True)
class SampleFilter:
    """Drops training samples for which `keeps` returns False; samples of other splits are all kept."""

    reason: str
    """Why samples are dropped, in the form that follows their number in messages: `with a score below 0.5`."""
    keeps: Callable[[Any], bool]
    """A pure function of one sample, called only after `Problem.sample_fault` has found no fault."""
    by_record: bool = False
    """Whether `keeps` is called with the sample's record, which has its score and copies, not with its features."""

    def keeps_record(self, sample: SampleRecord) -> bool:
        """Returns whether a sample is kept."""
        return self.keeps(sample if self.by_record else sample.features)
