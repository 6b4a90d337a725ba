"""Which training samples of a shard are left out, where that was found before the shard is made.

Duplicates are: whether a sample is one depends on all others. The filters of a problem have then been applied, too, and
are not applied again. Both are kept in the folder in which data are made: `work/digests-00003/` by `digest_shard` and
`work/duplicates/` by `find_duplicates`.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from t2t.data.manifest import FileRecord
from t2t.data.plan import WORK, Plan
from t2t.problems.filters.selection import DROPPED
from t2t.errors import UserError
from t2t.files.trust import read_record, read_sealed
from t2t.problems.base import Problem, Sample
from t2t.specs.constants import TRAIN

RECORD_NAME = "record.json"

Record = TypeVar("Record", "DigestRecord", "DuplicatesRecord")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DigestRecord:
    """What the filters of a problem say of the samples of a shard, and the digests of those that they keep."""

    plan: str
    """Fingerprint of the plan."""
    samples: int
    """All samples of the shard."""
    groups: list[list[int]]
    """For each block of digests, how many it has in each group."""
    digests: FileRecord
    verdicts: FileRecord
    """A byte for each sample: 0, or the number of the filter that drops it, from 1."""

    def files(self) -> list[FileRecord]:
        """Returns its files."""
        return [self.digests, self.verdicts]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DuplicatesRecord:
    """Which samples of a corpus repeat an earlier one."""

    plan: str
    """Fingerprint of the plan."""
    samples: list[int]
    """All samples of each shard."""
    repeated: FileRecord
    """A byte for each sample of the corpus, 1 for those that repeat an earlier one."""

    def files(self) -> list[FileRecord]:
        """Returns its files."""
        return [self.repeated]


def digest_folder(folder: Path, shard: int) -> Path:
    """Returns where the digests of a shard lie in the folder in which data are made."""
    return folder / WORK / f"digests-{shard:05d}"


def duplicates_folder(folder: Path) -> Path:
    """Returns where it is kept which samples are duplicates, in the folder in which data are made."""
    return folder / WORK / "duplicates"


def read_finished(kind: type[Record], plan: Plan, place: Path) -> Record | None:
    """Returns the record in a folder, None where there is none of this plan, or its files are not there."""
    with contextlib.suppress(OSError, UserError, ValueError):  # what is damaged is made again
        record = read_record(kind, read_sealed(place / RECORD_NAME))
        if record.plan == plan.fingerprint and all((place / f.name).stat().st_size == f.bytes for f in record.files()):
            return record
    return None


def mark_samples(
    samples: Iterator[Sample], plan: Plan, problem: Problem, folder: Path, shard: int
) -> Iterator[Sample]:
    """Yields the training samples of a shard, each with why it is left out as its `DROPPED`.

    Raises:
        UserError: duplicates have not been looked for, or there are not as many samples as there were then.
    """
    key = problem.duplicate_key()
    own = read_finished(DigestRecord, plan, digest_folder(folder, shard))
    common = read_finished(DuplicatesRecord, plan, duplicates_folder(folder))
    if key is None or own is None or common is None:
        raise UserError(f"{folder}: the duplicates of split {TRAIN!r} are not known yet; run the same command again")
    start = sum(common.samples[:shard])
    repeated = memoryview(_map(duplicates_folder(folder), common.repeated)[start : start + own.samples])
    verdicts = memoryview(_map(digest_folder(folder, shard), own.verdicts))
    reasons = (None, *(one.reason for one in problem.sample_filters()))
    number = -1
    for number, sample in enumerate(samples):
        if number == own.samples:
            break
        yield {**sample, DROPPED: key.reason if repeated[number] else reasons[verdicts[number]]}
    if number + 1 != own.samples:
        raise UserError(
            f"problem {problem.name}: generate_samples does not yield as many samples of split {TRAIN!r} as when their "
            f"duplicates were looked for ({own.samples:,}); what it yields may depend on its source alone"
        )


def _map(place: Path, file: FileRecord) -> np.ndarray:
    return np.load(place / file.name, mmap_mode="r")
