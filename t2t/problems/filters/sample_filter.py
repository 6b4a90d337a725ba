"""One filter of training samples."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class SampleFilter:
    """Drops the training samples that `keeps` returns False for; samples of the other splits are all kept."""

    reason: str
    """Why samples are dropped, as it follows their number: `with a score below 0.5`."""
    keeps: Callable[[Mapping[str, Any]], bool]
    """A pure function of one sample, which has passed `Problem.sample_fault`."""
