"""Finds duplicates among the training samples of a corpus that is larger than memory.

Every shard first writes a digest of each sample that the other filters keep, grouped by the digest's first byte
(`digest_shard`, in `work/digests-00003/`). Then the groups are searched one after the other, each over all shards
(`find_duplicates`, in `work/duplicates/`): of N samples about N / 256 are in memory at a time, at less than 100 bytes
each. Of equal samples the first in the order of the corpus is kept, whichever process made which shard. Samples are not
encoded yet, so the first counts even if it is later dropped for its length in ids.
"""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from t2t.data.generation.encoding import MapChunks, map_chunks
from t2t.data.generation.plan import (
    WORK,
    GenerationJob,
    GenerationPlan,
    read_finished,
    write_work_record,
    written_whole,
)
from t2t.data.manifest import FileRecord
from t2t.data.npy_files import MappedFiles, NpyFile, NpyHeader
from t2t.errors import UserError
from t2t.files.atomic import fsync_file, os_errors_as_machine_errors
from t2t.problems.base import Problem
from t2t.problems.filters import EMPTY, drop_reasons
from t2t.problems.samples import SampleRecord, check_samples, samples_of
from t2t.specs import TRAIN

log = logging.getLogger("t2t")

DIGESTS = "digests-"
"""Prefix of the names of folders of digests."""

GROUPS = 256
"""Number of groups of digests; the first byte of a digest is its group."""

BLOCK = 1 << 18
"""Digests that are sorted into groups at a time; a shard with more has several blocks."""

ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("sample", "<u8")])
"""The halves of a digest, and the index of the sample in its shard, from 0."""

_CHUNK = 1 << 20
"""Bytes that `_write_zeros` writes at a time."""


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class DuplicatesRecord:
    """Which samples of a corpus repeat an earlier one."""

    plan: str
    """Fingerprint of the plan."""
    samples: list[int]
    """Number of samples of each shard."""
    repeated: FileRecord
    """A byte for each sample of the corpus, 1 for those that repeat an earlier one."""


def digest_folder(folder: Path, shard: int) -> Path:
    """Returns the folder of a shard's digests, inside that in which data is generated."""
    return folder / WORK / f"{DIGESTS}{shard:05d}"


def duplicates_folder(folder: Path) -> Path:
    """Returns the folder of the `DuplicatesRecord`, inside that in which data is generated."""
    return folder / WORK / "duplicates"


def mark_samples(samples: Iterator[SampleRecord], job: GenerationJob, shard: int) -> Iterator[SampleRecord]:
    """Yields the training samples of a shard; `dropped` of each is the reason to leave it out, or None.

    Raises:
        UserError: duplicates have not been looked for, or the number of samples has changed since then.
    """
    problem, folder, key = job.problem, job.folder, job.problem.duplicate_key()
    own = read_finished(DigestRecord, job.plan, digest_folder(folder, shard))
    common = read_finished(DuplicatesRecord, job.plan, duplicates_folder(folder))
    if key is None or own is None or common is None:
        raise UserError(
            f"{folder}: duplicates among the samples have not been looked for", "run the same command again"
        )
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
            "duplicates were looked for",
            "it must depend only on its context",
        )


def _map(path: Path, file: FileRecord) -> memoryview:
    return np.lib.format.open_memmap(path / file.name, mode="r").data


@dataclasses.dataclass(frozen=True)
class JudgedChunk:
    """The filters' decisions on consecutive samples, and digests."""

    reasons: list[str | None]
    """Why each sample is left out, or None; see `drop_reasons`."""
    digests: bytes
    """Concatenated digests of the samples that are kept."""


def judge_chunk(problem: Problem, samples: list[SampleRecord], first: int) -> JudgedChunk:
    """Judges consecutive training samples, numbered from `first`.

    Raises:
        UserError: the problem's code yields an invalid sample.
    """
    check_samples(problem, TRAIN, samples, first)
    reasons, key = drop_reasons(problem, samples), problem.duplicate_key()
    assert key is not None, "duplicates are dropped"
    kept = (sample.features for sample, reason in zip(samples, reasons, strict=True) if reason is None)
    return JudgedChunk(reasons, b"".join(map(key.digest, kept)))


def digest_shard(
    job: GenerationJob,
    shard: int,
    *,
    chunks: MapChunks | None = None,
    progress: Callable[[int], None] = lambda read: None,
) -> DigestRecord:
    """Writes the digests of a shard of the training split, unless they exist.

    Args:
        job: of the generation.
        shard: its number, from 0.
        chunks: maps the chunks of samples; None to do so in this process.
        progress: called now and then with the number of samples read.

    Raises:
        UserError: a sample is wrong, raw files are missing, or another process makes the same digests.
        MachineError: the disk is full, or the folder is not writable.
    """
    path = digest_folder(job.folder, shard)
    if (finished := read_finished(DigestRecord, job.plan, path)) is not None:
        return finished
    problem = job.open_problem()
    chunks = chunks or functools.partial(map_chunks, job.problem)
    with job.errors_of(TRAIN, shard), written_whole(path) as written:
        with contextlib.closing(_DigestWriter(written, problem)) as writer:
            for chunk in chunks(judge_chunk, samples_of(problem, TRAIN, job.context(TRAIN, shard))):
                writer.add(chunk)
                progress(writer.samples)
            record = writer.finish(job.plan)
        write_work_record(written, record)
    return record


class _DigestWriter:
    """Writes the digests of a shard and the decisions of its filters, in bounded memory."""

    def __init__(self, folder: Path, problem: Problem):
        self._folder = folder
        self._numbers: dict[str | None, int] = {None: 0, EMPTY: 0}  # encoding drops empty texts by itself
        self._numbers |= {one.reason: number for number, one in enumerate(problem.sample_filters(), 1)}
        with os_errors_as_machine_errors(f"cannot write {folder}"):
            self._digests = NpyFile(folder / "digests.npy", ENTRY, ())
            self._verdicts = NpyFile(folder / "verdicts.npy", np.dtype(np.uint8), ())
        self._waiting: list[np.ndarray] = []
        self._groups: list[list[int]] = []
        self.samples = 0

    def add(self, chunk: JudgedChunk) -> None:
        kept = [number for number, reason in enumerate(chunk.reasons, self.samples) if reason is None]
        halves = np.frombuffer(chunk.digests, ">u8").reshape(len(kept), 2)
        entries = np.empty(len(kept), ENTRY)
        entries["high"], entries["low"], entries["sample"] = halves[:, 0], halves[:, 1], kept
        self._waiting.append(entries)
        self.samples += len(chunk.reasons)
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            self._verdicts.append(np.array([self._numbers[reason] for reason in chunk.reasons], np.uint8))
            if sum(map(len, self._waiting)) >= BLOCK:
                self._write_block()

    def finish(self, plan: GenerationPlan) -> DigestRecord:
        with os_errors_as_machine_errors(f"cannot write {self._folder}"):
            self._write_block()
            digests, verdicts = self._digests.close(), self._verdicts.close()
        return DigestRecord(
            plan=plan.fingerprint, samples=self.samples, groups=self._groups, digests=digests, verdicts=verdicts
        )

    def close(self) -> None:
        """Closes the open files without finishing them."""
        self._digests.abandon()
        self._verdicts.abandon()

    def _write_block(self) -> None:
        entries = np.concatenate([np.empty(0, ENTRY), *self._waiting])
        group = (entries["high"] >> np.uint64(56)).astype(np.int64)
        self._digests.append(entries[np.argsort(group, kind="stable")])
        self._groups.append(np.bincount(group, minlength=GROUPS).tolist())
        self._waiting = []


def missing_digests(plan: GenerationPlan, folder: Path) -> list[int]:
    """Returns the numbers of the training split's shards whose digests do not exist yet."""
    shards = range(plan.shards[TRAIN])
    return [shard for shard in shards if read_finished(DigestRecord, plan, digest_folder(folder, shard)) is None]


def find_duplicates(plan: GenerationPlan, folder: Path) -> DuplicatesRecord:
    """Finds the training samples that repeat an earlier one, unless they were found before.

    Args:
        plan: of the generation.
        folder: in which data is generated; it has the digests of all shards.

    Raises:
        UserError: digests are missing, or another process looks for duplicates.
        MachineError: the disk is full, or the folder is not writable.
    """
    path = duplicates_folder(folder)
    if (finished := read_finished(DuplicatesRecord, plan, path)) is not None:
        return finished
    digests = _ShardDigests.open_all(plan, folder)
    samples = [one.samples for one in digests]
    with written_whole(path) as written, os_errors_as_machine_errors(f"cannot write {path}"):
        path = written / "repeated.npy"
        _write_zeros(path, sum(samples))
        repeated = np.lib.format.open_memmap(path, "r+")
        for group in range(GROUPS):
            repeated[_find_repeated(digests, group)] = 1
        repeated.flush()
        count = np.count_nonzero(repeated)
        del repeated
        fsync_file(path)
        record = DuplicatesRecord(plan=plan.fingerprint, samples=samples, repeated=FileRecord.of(path))
        write_work_record(written, record)
    log.info("%s: %s of %s samples repeat an earlier one", TRAIN, f"{count:,}", f"{sum(samples):,}")
    return record


def _write_zeros(path: Path, count: int) -> None:
    """Writes an array of zeros, (count,) uint8, so that its space is taken before it is mapped.

    If the disk were full later, writing to the map would kill the process by a signal.
    """
    file = NpyFile(path, np.dtype(np.uint8), ())
    try:
        for first in range(0, count, _CHUNK):
            file.append(np.zeros(min(_CHUNK, count - first), np.uint8))
        file.close()
    finally:
        file.abandon()


class _ShardDigests:
    """The digests of one shard, mapped into memory."""

    def __init__(self, entries: np.ndarray, record: DigestRecord):
        self._entries, self.samples = entries, record.samples
        groups = np.array(record.groups, np.int64)  # (blocks, groups)
        self._stops = np.cumsum(groups).reshape(groups.shape)
        self._starts = self._stops - groups

    @classmethod
    def open_all(cls, plan: GenerationPlan, folder: Path) -> "list[_ShardDigests]":
        """Maps the digests of all shards; raises UserError if some do not exist, MachineError if there is no room."""
        paths, records = [], []
        for shard in range(plan.shards[TRAIN]):
            path = digest_folder(folder, shard)
            record = read_finished(DigestRecord, plan, path)
            if record is None:
                raise UserError(
                    f"{folder}: the digests of shard {shard} of split {TRAIN!r}, which duplicates are found by, are "
                    "not written yet",
                    "run the same command again",
                )
            paths.append(path / record.digests.name)
            records.append(record)
        with os_errors_as_machine_errors(f"cannot read the digests in {folder}"):
            entries = MappedFiles([NpyHeader.read(path) for path in paths])
        return [cls(entries[shard], record) for shard, record in enumerate(records)]

    def read(self, group: int) -> np.ndarray:
        """Returns the entries of one group, in the order of the samples."""
        bounds = zip(self._starts[:, group], self._stops[:, group], strict=True)
        return np.concatenate([self._entries[start:stop] for start, stop in bounds])


def _find_repeated(digests: Sequence[_ShardDigests], group: int) -> np.ndarray:
    """Returns the indices, in the corpus, of the samples in a group that repeat an earlier one."""
    firsts = np.cumsum([0, *(one.samples for one in digests)])
    parts = [one.read(group) for one in digests]
    entries = np.concatenate(parts)
    indices = entries["sample"] + np.repeat(firsts[:-1], [len(part) for part in parts]).astype(np.uint64)
    order = np.lexsort((entries["low"], entries["high"]))  # stable: equal ones stay in the order of the corpus
    high, low = entries["high"][order], entries["low"][order]
    same = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    return indices[order[1:][same]]
