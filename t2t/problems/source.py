"""What a sample generator gets and yields.

It gets raw files, a random generator, counters, and the shard that it is to yield; it yields samples.
"""

import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import read_sealed, remembered, write_sealed

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


def call_here(problem: Any, method: str, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Calls a method of a problem with each tuple of arguments, in this process; see `CallEach`."""
    return (getattr(problem, method)(*call) for call in calls)


@remembered
def _read_value(path: Path) -> Any:
    return read_sealed(path)["value"]


CallEach = Callable[[Any, str, Iterable[tuple[Any, ...]]], Iterator[Any]]
"""Calls a method of a problem, by its name, with each tuple of arguments, in worker processes if there are any; yields
the results in order. Arguments must be picklable, results plain JSON."""


@dataclasses.dataclass
class Source:
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
    """Size of a shard of a plain text file; None for `t2t.problems.line_shards.SHARD_BYTES`."""
    work_dir: Path | None = None
    """Folder of the results of `cached`, removed after the generation; None to keep none."""
    call_each: CallEach = call_here
    """See `CallEach`."""
    data_dir: Path | None = None
    """Folder of the data of all problems, as the user gave it; None outside of a generation."""

    def fork(self) -> "Source":
        """Returns a source of the same files with its own counts and random generator."""
        return self._copy(random.Random(self.rng.random()))

    def each_shard(self, shards: int) -> "list[Source]":
        """Returns a picklable source for each shard of a split; for 1 shard, that of the whole split."""
        return [
            dataclasses.replace(
                self._copy(random.Random(self.rng.random())),
                shard=shard, shards=shards, enough_bytes=self.enough_bytes, progress=_no_progress, call_each=call_here,
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

    def _copy(self, rng: random.Random) -> "Source":
        return Source(
            self.tmp_dir, rng, progress=self.progress, shard_bytes=self.shard_bytes, work_dir=self.work_dir,
            call_each=self.call_each, data_dir=self.data_dir,
        )  # fmt: skip
