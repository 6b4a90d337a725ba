"""Decisions, made before a shard is generated, on which of its training samples to leave out.

Whether a sample is a duplicate depends on all others, so duplicates are found first, after applying the other filters.
Both results are kept in the folder in which data is generated: `work/digests-00003/` by `digest_shard`,
`work/duplicates/` by `find_duplicates`.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from t2t.data.generation.plan import WORK, GenerationPlan
from t2t.data.generation.work_folders import read_finished
from t2t.data.manifest import FileRecord
from t2t.errors import UserError
from t2t.problems.base import Problem
from t2t.problems.source import SampleRecord

DIGESTS = "digests-"
"""Prefix of the names of folders of digests."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DigestRecord:
    """The filters' decisions on the samples of a shard, and the digests of those that they keep."""

    plan: str
    """Fingerprint of the plan."""
    samples: int
    """Number of samples of the shard, including those left out."""
    groups: list[list[int]]
    """For each block of digests, the number in each group."""
    digests: FileRecord
    verdicts: FileRecord
    """A byte for each sample: 0, or the number of the filter that drops it, from 1."""

    def all_files(self) -> list[FileRecord]:
        """Returns its files."""
        return [self.digests, self.verdicts]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DuplicatesRecord:
    """Which samples of a corpus repeat an earlier one."""

    plan: str
    """Fingerprint of the plan."""
    samples: list[int]
    """Number of samples of each shard."""
    repeated: FileRecord
    """A byte for each sample of the corpus, 1 for those that repeat an earlier one."""

    def all_files(self) -> list[FileRecord]:
        """Returns its files."""
        return [self.repeated]


def digest_folder(folder: Path, shard: int) -> Path:
    """Returns the folder of a shard's digests, inside that in which data is generated."""
    return folder / WORK / f"{DIGESTS}{shard:05d}"


def duplicates_folder(folder: Path) -> Path:
    """Returns the folder of the `DuplicatesRecord`, inside that in which data is generated."""
    return folder / WORK / "duplicates"


def mark_samples(
    samples: Iterator[SampleRecord], plan: GenerationPlan, problem: Problem, folder: Path, shard: int
) -> Iterator[SampleRecord]:
    """Yields the training samples of a shard; `dropped` of each is the reason to leave it out, or None.

    Raises:
        UserError: duplicates have not been looked for, or the number of samples has changed since then.
    """
    key = problem.duplicate_key()
    own = read_finished(DigestRecord, plan, digest_folder(folder, shard))
    common = read_finished(DuplicatesRecord, plan, duplicates_folder(folder))
    if key is None or own is None or common is None:
        raise UserError(f"{folder}: duplicates among the samples have not been looked for; run the same command again")
    first = sum(common.samples[:shard])
    repeated = _map(duplicates_folder(folder), common.repeated)[first : first + own.samples]
    verdicts = _map(digest_folder(folder, shard), own.verdicts)
    reasons = (None, *(one.reason for one in problem.sample_filters()))
    count = 0
    for count, sample in enumerate(samples, 1):
        if count > own.samples:
            break
        dropped = key.reason if repeated[count - 1] else reasons[verdicts[count - 1]]
        yield sample._replace(is_filtered=True, dropped=dropped)
    if count != own.samples:
        raise UserError(
            f"problem {problem.name}: generate_samples does not yield the {own.samples:,} samples that it did when "
            f"duplicates were looked for; it must depend on its source alone"
        )


def _map(place: Path, file: FileRecord) -> memoryview:
    return np.lib.format.open_memmap(place / file.name, mode="r").data
