"""The first pass over a shard's training samples if duplicates are to be dropped: filters them and writes digests."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from t2t.data.generation.encoding import chunks_of
from t2t.data.generation.plan import GenerationPlan
from t2t.data.generation.shard_job import errors_of_shard, open_problem, read_same_plan, shard_source
from t2t.data.generation.shards import NpyFile
from t2t.data.generation.verdicts import DigestRecord, digest_folder
from t2t.data.generation.work_folders import read_finished, write_work_record, written_whole
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.problems.base import Problem
from t2t.problems.filters.selection import EMPTY, drop_reasons
from t2t.problems.samples import check_samples, samples_of
from t2t.problems.source import SampleRecord
from t2t.specs.constants import TRAIN

GROUPS = 256
"""Number of groups of digests; the first byte of a digest is its group."""

BLOCK = 1 << 18
"""Digests that are sorted into groups at a time; a shard with more has several blocks."""

ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("sample", "<u8")])
"""The halves of a digest, and the index of the sample in its shard, from 0."""


@dataclasses.dataclass(frozen=True)
class JudgedChunk:
    """The filters' decisions on consecutive samples, and digests."""

    reasons: list[str | None]
    """Why each sample is left out, or None; see `drop_reasons`."""
    digests: bytes
    """Concatenated digests of the samples that are kept."""


Judge = Callable[[Iterable[SampleRecord]], Iterator[JudgedChunk]]
"""Judges the samples of a split, chunk by chunk and in their order."""


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


def judge_samples(problem: Problem, samples: Iterable[SampleRecord]) -> Iterator[JudgedChunk]:
    """Yields the judged chunks in the order of the samples; see `judge_chunk`."""
    return (judge_chunk(problem, chunk, first) for first, chunk in chunks_of(problem, samples))


def digest_shard(
    plan: GenerationPlan,
    problem: Problem,
    shard: int,
    folder: Path,
    tmp_dir: Path,
    *,
    judge: Judge | None = None,
    progress: Callable[[int], None] = lambda read: None,
) -> DigestRecord:
    """Writes the digests of a shard of the training split, unless they exist.

    Args:
        plan: of the generation.
        problem: what is generated; it is not changed.
        shard: its number, from 0.
        folder: in which data is generated; it holds the plan and the vocabularies.
        tmp_dir: folder of raw files.
        judge: judges the samples; None to judge in this process.
        progress: called now and then with the number of samples read.

    Raises:
        UserError: a sample is wrong, raw files are missing, or another process makes the same digests.
        MachineError: the disk is full, or the place is not writable.
    """
    place = digest_folder(folder, shard)
    if (finished := read_finished(DigestRecord, plan, place)) is not None:
        return finished
    read_same_plan(folder, plan.fingerprint)
    problem = open_problem(plan, problem, folder)
    judge = judge or functools.partial(judge_samples, problem)
    with errors_of_shard(plan, TRAIN, shard), written_whole(place) as written:
        source = shard_source(plan, TRAIN, shard, folder, tmp_dir)
        with contextlib.closing(_DigestWriter(written, problem)) as writer:
            for chunk in judge(samples_of(problem, TRAIN, source)):
                writer.add(chunk)
                progress(writer.samples)
            record = writer.finish(plan)
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
