"""Checks the samples that a problem's code yields against what the problem declares.

A fault is usually a mistake in a few lines of a plug-in, so the message says which sample, of which split, has what,
and what it needs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from t2t.errors import UserError, one_line
from t2t.problems.base import Problem, Sample, Source
from t2t.problems.source import call_here

_SHOWN = 40
"""Characters of a wrong value that a message shows."""


def samples_of(problem: Problem, split: str, source: Source) -> Iterator[Sample]:
    """Returns the samples that `generate_samples` yields, unchecked.

    Raises:
        UserError: it returned something that is not iterable.
    """
    samples = problem.generate_samples(split, source)
    if not isinstance(samples, Iterable):
        raise UserError(
            f"problem {problem.name}: generate_samples returned {type(samples).__name__} for split {split!r}; it must "
            f"yield a dict for each sample"
        )
    return iter(samples)


def empty_split(problem: Problem, split: str) -> UserError:
    """Returns the error for a split without a sample."""
    return UserError(
        f"split {split!r} of {problem.name} is empty: no example came out of {problem.raw_data_of(split)}; check the "
        f"raw files"
    )


def call_each_shard(problem: Problem, method: str, split: str, source: Source) -> Iterator[Any]:
    """Calls a method of the problem with the source of each shard of a split; yields the results in order.

    Several shards are read in worker processes if there are any, see `Source.call_each`; a single one in this process.
    """
    calls = [(each,) for each in source.each_shard(problem.shards(split, source))]
    call_each = source.call_each if len(calls) > 1 else call_here
    return call_each(problem, method, calls)


def chunk_samples(samples: Iterable[Sample], size: int) -> Iterator[tuple[int, list[Sample]]]:
    """Yields lists of `size` samples, the last perhaps shorter, each with the number of its first, counted from 1."""
    stream, first = iter(samples), 1
    while chunk := list(islice(stream, size)):
        yield first, chunk
        first += len(chunk)


def check_samples(problem: Problem, split: str, samples: Sequence[Any], first: int = 1) -> None:
    """Checks that consecutive samples of a split have what the problem needs.

    `first` is the number of the first of them, counted from 1.

    Raises:
        UserError: one is faulty; the message names the first such sample.
    """
    for number, sample in enumerate(samples, first):
        if fault := problem.sample_fault(sample):
            keys = f" (keys: {', '.join(map(str, sample)) or 'none'})" if isinstance(sample, Mapping) else ""
            raise UserError(
                f"problem {problem.name}: sample {number:,} of split {split!r}{keys} {fault}; correct its "
                f"generate_samples"
            )


def text_fault(sample: Any, names: Sequence[str], also: str = "") -> str:
    """Returns what is wrong with the text features of a sample, or ''; `also` says what else a sample needs."""
    fault = _first_fault(sample, names)
    return f"{fault}; it must be a dict with a str for {' and '.join(map(repr, names))}{also}" if fault else ""


def shown(value: Any) -> str:
    """Returns a wrong value for a message, cut where it is long."""
    text = one_line(repr(value))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _first_fault(sample: Any, names: Sequence[str]) -> str:
    if not isinstance(sample, dict | Mapping):  # dict first: its check is the faster one
        return f"is of type {type(sample).__name__}"
    for name in names:
        if fault := _fault_of(sample[name], name) if name in sample else f"has no {name!r}":
            return fault
    return ""


def _fault_of(text: Any, name: str) -> str:
    if isinstance(text, bytes):
        return f"has bytes for {name!r} ({shown(text)}), which must be decoded first"
    if not isinstance(text, str):
        return f"has {shown(text)} for {name!r}, of type {type(text).__name__}"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"has a lone surrogate, U+{ord(text[error.start]):04X}, in {name!r}, which is no valid Unicode"
    return ""
