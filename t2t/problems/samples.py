"""What a sample generator gets and yields, and the check of its samples against what the problem declares.

It gets raw files, a random generator, counters and the shard to yield. A fault is usually a mistake in a few
lines of a plug-in, so the message says which sample, of which split, has what, and what it needs.
"""

import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from t2t.errors import UserError
from t2t.features.feature import Feature, shown
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import read_sealed, remembered, write_sealed
from t2t.text.encoder import TextEncoder

Sample = dict[str, Any]
"""One example before encoding: feature name to string, number or array."""


class SampleRecord(NamedTuple):
    """A sample, and what generation knows of it besides. Problems may yield one in place of a sample."""

    features: Sample
    score: float | None = None
    """Of a training pair, from a file of scores; None without one."""
    copies: int = 1
    """How many times a training sample is written."""
    is_filtered: bool = False
    """Whether the filters have been applied already, with the result `dropped`."""
    dropped: str | None = None
    """Why the sample is left out; None to keep it."""


def _no_progress(what: str, read: int) -> None:
    """Shows nothing."""


def call_here(problem: Any, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Calls a function with a problem and each tuple of arguments, in this process; see `CallEach`."""
    return (function(problem, *call) for call in calls)


@remembered
def _read_value(path: Path) -> Any:
    return read_sealed(path)["value"]


CallEach = Callable[[Any, Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]
"""Calls a function of a module with a problem and each tuple of arguments, in worker processes if there are any; yields
the results in order. Arguments must be picklable, results plain JSON."""


@dataclasses.dataclass
class GenerationContext:
    """Files, random generator and counters of a sample generator."""

    tmp_dir: Path
    """Folder of raw files and downloads."""
    rng: random.Random
    """The only random generator; seeded by the seed, the split and, if there are several shards, the shard."""
    tally: Counter[str] = dataclasses.field(default_factory=Counter)
    """Counts of repairs to the raw data, e.g. `invalid UTF-8 replaced`; reported with the generated data."""
    progress: Callable[[str, int], None] = _no_progress
    """Called now and then with what is being read and how many samples of it have been read."""
    enough_bytes: int | None = None
    """If set, about so many bytes of text, spread evenly over the split or shard, are enough; a generator that saves no
    work by this may yield everything."""
    skipped: int = 0
    """Samples left out because of `enough_bytes`; the generator counts them here."""
    shard: int = 0
    """Which shard of the split to yield, counted from 0."""
    shards: int = 1
    """Number of shards: 1 for the whole split, or what `Problem.shards` returns."""
    shard_bytes: int | None = None
    """Size of a shard of a plain text file; None for `t2t.problems.split_files.SHARD_BYTES`."""
    work_dir: Path | None = None
    """Folder of the results of `cached`, removed after the generation; None to keep none."""
    call_each: CallEach = call_here
    """See `CallEach`."""
    data_dir: Path | None = None
    """Folder of the data of all problems, as the user gave it; None outside of a generation."""

    def fork(self) -> "GenerationContext":
        """Returns a context with the same files, and its own counts and random generator."""
        rng = random.Random(self.rng.random())
        return dataclasses.replace(self, rng=rng, tally=Counter(), enough_bytes=None, skipped=0, shard=0, shards=1)

    def each_shard(self, shards: int) -> "list[GenerationContext]":
        """Returns a picklable context for each shard of a split; for 1 shard, that of the whole split."""
        return [
            dataclasses.replace(
                self.fork(), shard=shard, shards=shards, enough_bytes=self.enough_bytes, progress=_no_progress,
                call_each=call_here,
            )
            for shard in range(shards)
        ]  # fmt: skip

    def cached(self, name: str, compute: Callable[[], Any]) -> Any:
        """Returns the result of `compute`, plain JSON, computed once in a generation and then read from a file.

        The result is shared, so do not change it.

        Args:
            name: of the file in `work_dir`: letters, digits, dots and dashes.
            compute: a pure function of the raw files and the problem's options.

        Raises:
            MachineError: the file cannot be written.
        """
        if self.work_dir is None:
            return compute()
        path = self.work_dir / f"{name}.json"
        with contextlib.suppress(OSError, UserError, ValueError):  # there is none, or it is damaged
            return _read_value(path)
        value = compute()
        with os_errors_as_machine_errors(f"cannot write {path}"):
            write_sealed(path, {"value": value})
        return value


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


Source = GenerationContext
"""Its name in earlier versions, for plug-ins."""


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

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Any]:
        """See `Problem`."""

    def shards(self, split: str, context: GenerationContext) -> int:
        """See `Problem`."""

    def sample_fault(self, sample: Any) -> str:
        """See `Problem`."""

    def sample_filters(self) -> Sequence[SampleFilter]:
        """See `Problem`."""

    def raw_data_of(self, split: str) -> str:
        """See `Problem`."""


def samples_of(problem: Samples, split: str, context: GenerationContext) -> Iterator[SampleRecord]:
    """Returns the samples that `generate_samples` yields, unchecked, each as a record.

    Raises:
        UserError: it returned something that is not iterable.
    """
    samples = problem.generate_samples(split, context)
    if not isinstance(samples, Iterable):
        raise UserError(
            f"problem {problem.name}: generate_samples returned {type(samples).__name__} for split {split!r}",
            "it must yield a dict for each sample",
        )
    return (sample if isinstance(sample, SampleRecord) else SampleRecord(sample) for sample in samples)


def empty_split(problem: Samples, split: str) -> UserError:
    """Returns the error for a split without a sample."""
    return UserError(
        f"split {split!r} of {problem.name} is empty: no example came out of {problem.raw_data_of(split)}",
        "check the raw files",
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
                f"problem {problem.name}: sample {number:,} of split {split!r}{keys} {fault}",
                "correct its generate_samples",
            )


__all__ = ["Sample", "SampleRecord", "Samples", "check_samples", "chunk_samples", "empty_split", "samples_of", "shown"]
