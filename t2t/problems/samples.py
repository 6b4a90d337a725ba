"""Reads the samples that a problem's code yields, and checks them against what the problem declares.

A fault is usually a mistake in a few lines of a plug-in, so the message says which sample, of which split, has what,
and what it needs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from t2t.errors import UserError
from t2t.features.feature import Feature, shown
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.problems.source import Sample, SampleRecord, Source
from t2t.text.encoder import TextEncoder


class Samples(Protocol):
    """What reading the samples of a problem needs to know of it; see `Problem`."""

    name: str
    splits: tuple[str, ...]
    chunk_size: int
    options: Any
    encoders: Mapping[str, TextEncoder]

    @property
    def features(self) -> Mapping[str, Feature]:
        """See `Problem`."""

    def generate_samples(self, split: str, source: Source) -> Iterator[Any]:
        """See `Problem`."""

    def shards(self, split: str, source: Source) -> int:
        """See `Problem`."""

    def sample_fault(self, sample: Any) -> str:
        """See `Problem`."""

    def sample_filters(self) -> Sequence[SampleFilter]:
        """See `Problem`."""

    def raw_data_of(self, split: str) -> str:
        """See `Problem`."""


def samples_of(problem: Samples, split: str, source: Source) -> Iterator[SampleRecord]:
    """Returns the samples that `generate_samples` yields, unchecked, each as a record.

    Raises:
        UserError: it returned something that is not iterable.
    """
    samples = problem.generate_samples(split, source)
    if not isinstance(samples, Iterable):
        raise UserError(
            f"problem {problem.name}: generate_samples returned {type(samples).__name__} for split {split!r}; it must "
            f"yield a dict for each sample"
        )
    return (sample if isinstance(sample, SampleRecord) else SampleRecord(sample) for sample in samples)


def empty_split(problem: Samples, split: str) -> UserError:
    """Returns the error for a split without a sample."""
    return UserError(
        f"split {split!r} of {problem.name} is empty: no example came out of {problem.raw_data_of(split)}; check the "
        f"raw files"
    )


def chunk_samples(samples: Iterable[SampleRecord], size: int) -> Iterator[tuple[int, list[SampleRecord]]]:
    """Yields lists of `size` samples, the last perhaps shorter, each with the number of its first, counted from 1."""
    stream, first = iter(samples), 1
    while chunk := list(islice(stream, size)):
        yield first, chunk
        first += len(chunk)


def check_samples(problem: Samples, split: str, samples: Sequence[SampleRecord], first: int = 1) -> None:
    """Checks that consecutive samples of a split have what the problem needs.

    `first` is the number of the first of them, counted from 1.

    Raises:
        UserError: one is faulty; the message names the first such sample.
    """
    for number, (sample, *_) in enumerate(samples, first):
        if fault := problem.sample_fault(sample):
            keys = f" (keys: {', '.join(map(str, sample)) or 'none'})" if isinstance(sample, Mapping) else ""
            raise UserError(
                f"problem {problem.name}: sample {number:,} of split {split!r}{keys} {fault}; correct its "
                f"generate_samples"
            )


__all__ = ["Sample", "SampleRecord", "Samples", "check_samples", "chunk_samples", "empty_split", "samples_of", "shown"]
