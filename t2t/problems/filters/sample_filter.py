"""One filter of training samples."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class SampleFilter:
    """Drops training samples for which `keeps` returns False; samples of other splits are all kept."""

    reason: str
    """Why samples are dropped, in the form that follows their number in messages: `with a score below 0.5`."""
    keeps: Callable[[Mapping[str, Any]], bool]
    """A pure function of one sample, called only after `Problem.sample_fault` has found no fault."""
