"""What a generator of samples works with: files, chance, counters, and which shard of a split it is to yield."""

import contextlib
import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import read_sealed, write_sealed


def _no_progress(what: str, read: int) -> None:
    """Shows nothing."""


def call_here(problem: Any, method: str, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Calls a method of a problem with each of some tuples of arguments, in this process."""
    return (getattr(problem, method)(*call) for call in calls)


CallEach = Callable[[Any, str, Iterable[tuple[Any, ...]]], Iterator[Any]]
"""Calls a method of a problem, by its name, with each of some tuples of arguments, in worker processes where there are
some; yields the results in order. Arguments must be picklable, results plain JSON."""


@dataclasses.dataclass
class Source:
    """Files, random generator and counters of a sample generator."""

    tmp_dir: Path
    """Folder of raw files and downloads."""
    rng: random.Random
    """The only random generator; seeded by the seed, the split and, of a split of several shards, the shard."""
    tally: Counter[str] = dataclasses.field(default_factory=Counter)
    """Counts of what was mended on the way in, e.g. `invalid UTF-8 replaced`; reported with the generated data."""
    progress: Callable[[str, int], None] = _no_progress
    """Told, now and then, what is being read and how many samples of it have been."""
    enough_bytes: int | None = None
    """Where given, about so many bytes of text will do, spread evenly over what is asked for; a generator for which it
    is no less work may yield all."""
    skipped: int = 0
    """How many samples a generator has left out since they were not needed; it adds them here."""
    shard: int = 0
    """Which shard of the split to yield, counted from 0."""
    shards: int = 1
    """Of how many: either 1, which is the whole split, or what `Problem.shards` returns."""
    work_dir: Path | None = None
    """Folder for `cached`, which lasts as long as one generation; None for none."""
    call_each: CallEach = call_here
    """See `CallEach`."""

    def fork(self) -> "Source":
        """Returns a source of the same files with its own counts and random generator."""
        return self._copy(random.Random(self.rng.random()))

    def each_shard(self, shards: int) -> "list[Source]":
        """Returns a source for each shard of a split, which travels to other processes; 1 shard is the whole."""
        return [
            dataclasses.replace(
                self._copy(random.Random(self.rng.random())),
                shard=shard, shards=shards, enough_bytes=self.enough_bytes, progress=_no_progress, call_each=call_here,
            )
            for shard in range(shards)
        ]  # fmt: skip

    def cached(self, name: str, compute: Callable[[], Any]) -> Any:
        """Returns what `compute` returns, plain JSON, which is computed once in a generation and then read.

        Args:
            name: of a file in `work_dir`, so letters, digits, dots and dashes.
            compute: a pure function of the raw files and the problem's options.

        Raises:
            MachineError: it cannot be written.
        """
        if self.work_dir is None:
            return compute()
        path = self.work_dir / f"{name}.json"
        with contextlib.suppress(OSError, UserError, ValueError):  # there is none, or it is damaged
            return read_sealed(path)["value"]
        value = compute()
        with os_errors_as_machine_errors(f"cannot write {path}"):
            write_sealed(path, {"value": value})
        return value

    def _copy(self, rng: random.Random) -> "Source":
        return Source(self.tmp_dir, rng, progress=self.progress, work_dir=self.work_dir, call_each=self.call_each)
