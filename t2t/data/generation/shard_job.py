"""Makes one shard of a split, all or nothing: reads, encodes and writes it.

Each shard has a folder, e.g. `work/train-00003/`, which is written under a temporary name and then renamed. It holds
the shard's files and, written last, a sealed record of them. A shard with a record of the same plan is not made again.
"""

import contextlib
import copy
import dataclasses
import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from t2t.data.generation.encoding import Chunk, ChunkEncoder, StoredVocabularies
from t2t.data.generation.plan import WORK, GenerationPlan, read_plan
from t2t.data.generation.shards import ShardWriter
from t2t.data.generation.tally import ENOUGH_TO_JUDGE, SampleCounts, SplitTally, check_fit
from t2t.data.generation.verdicts import mark_samples
from t2t.data.generation.work_folders import read_finished, write_work_record, written_whole
from t2t.data.manifest import REMEDY, ColumnTotals, FileRecord, ShardRecord
from t2t.data.texts import TextsRecord, TextsWriter
from t2t.errors import UserError
from t2t.problems.base import Problem
from t2t.problems.samples import samples_of
from t2t.problems.source import SampleRecord, Source
from t2t.specs.constants import TRAIN
from t2t.text.vocabulary_files import read_encoders

Encode = Callable[[Iterable[SampleRecord], str, StoredVocabularies], Iterator[Chunk]]
"""Encodes the samples of a split, chunk by chunk and in their order."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardResult:
    """The contents of a shard, and the counts made while generating it."""

    plan: str
    """Fingerprint of the plan."""
    split: str
    shard: int
    """Its number, from 0."""
    examples: int
    """Their number."""
    columns: dict[str, ColumnTotals]
    files: list[ShardRecord]
    """The files of its examples, named as if this shard were the whole split."""
    texts: dict[str, TextsRecord]
    """By feature, the raw text; for dev and test splits only."""
    counts: SampleCounts

    def all_files(self) -> list[FileRecord]:
        """Returns all files of the shard."""
        return [file for part in self.files for file in part.files()] + [text.file for text in self.texts.values()]


def seed_of(seed: int, use: str) -> int:
    """Returns the seed for one random generator (of a split, the vocabulary), the same on every machine and Python."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{use}".encode()).digest()[:8], "big")


def shard_folder(folder: Path, split: str, shard: int) -> Path:
    """Returns the folder of a finished shard, inside that in which data is generated."""
    return folder / WORK / f"{split}-{shard:05d}"


def finished_shard(plan: GenerationPlan, folder: Path, split: str, shard: int) -> ShardResult | None:
    """Returns the record of a shard that was made by this plan; None if there is none or its files are missing."""
    result = read_finished(ShardResult, plan, shard_folder(folder, split, shard))
    return result if result and (result.split, result.shard) == (split, shard) else None


def generate_shard(
    plan: GenerationPlan,
    problem: Problem,
    split: str,
    shard: int,
    folder: Path,
    tmp_dir: Path,
    *,
    encode: Encode | None = None,
    progress: Callable[[int], None] = lambda read: None,
) -> ShardResult:
    """Makes one shard, unless it is finished; its bytes depend on the plan, the split and the number alone.

    Args:
        plan: of the generation.
        problem: what is generated; it is not changed.
        split: one of the plan's.
        shard: its number, from 0.
        folder: in which data is generated; it holds the plan and the vocabularies.
        tmp_dir: folder of raw files.
        encode: encodes the samples; None to encode in this process.
        progress: called now and then with the number of samples read.

    Raises:
        UserError: a sample is wrong, raw files are missing, or another process makes the same shard.
        MachineError: the disk is full, or the place is not writable.
    """
    if (finished := finished_shard(plan, folder, split, shard)) is not None:
        return finished
    read_same_plan(folder, plan.fingerprint)
    vocabularies = StoredVocabularies(folder, plan.vocabularies)
    problem = open_problem(plan, problem, folder)
    encode = encode or ChunkEncoder(problem).encode
    place = shard_folder(folder, split, shard)
    with errors_of_shard(plan, split, shard), written_whole(place) as written:
        source = shard_source(plan, split, shard, folder, tmp_dir)
        samples = samples_of(problem, split, source)
        if split == TRAIN and problem.duplicate_key() is not None:
            samples = mark_samples(samples, plan, problem, folder, shard)
        tally = SplitTally(samples, source.tally)
        chunks = _counted(encode(tally, split, vocabularies), tally, progress)
        if split == TRAIN and plan.shards[split] == 1:
            chunks = _judged(chunks, tally, problem)
        parts = _write_chunks(plan, split, chunks, written)
        result = ShardResult(plan=plan.fingerprint, split=split, shard=shard, counts=tally.counts(), **parts)
        write_work_record(written, result)
    return result


def open_problem(plan: GenerationPlan, problem: Problem, folder: Path) -> Problem:
    """Returns a copy of a problem that has the vocabularies of the plan."""
    return copy.copy(problem).with_encoders(read_encoders(folder, plan.vocabularies, REMEDY))


def shard_source(plan: GenerationPlan, split: str, shard: int, folder: Path, tmp_dir: Path) -> Source:
    """Returns the source of a shard's samples."""
    shards = plan.shards[split]
    use = split if shards == 1 else f"{split}/{shard}"
    rng = random.Random(seed_of(plan.identity.seed, use))
    return Source(tmp_dir, rng, shard=shard, shards=shards, work_dir=folder / WORK, data_dir=folder.parent)


def read_same_plan(folder: Path, fingerprint: str) -> GenerationPlan:
    """Returns the plan with a fingerprint; raises UserError if the folder in which data is generated has it no more."""
    found = read_plan(folder)
    if found is None or found.fingerprint != fingerprint:
        raise UserError(
            f"{folder} does not hold the plan of this generation any more: another process has finished it, or "
            f"generates other data there; run the same command again"
        )
    return found


def _counted(chunks: Iterator[Chunk], tally: SplitTally, progress: Callable[[int], None]) -> Iterator[Chunk]:
    for chunk in chunks:
        tally.add(chunk)
        yield chunk
        progress(tally.read)


def _judged(chunks: Iterator[Chunk], tally: SplitTally, problem: Problem) -> Iterator[Chunk]:
    """Raises UserError early if most training data is unfit so far: the whole may take hours."""
    for chunk in chunks:
        yield chunk
        if (counts := tally.counts()).judged >= ENOUGH_TO_JUDGE:
            check_fit(problem, counts, "so far", "; if only their beginning is so, shuffle them")


def _write_chunks(plan: GenerationPlan, split: str, chunks: Iterator[Chunk], written: Path) -> dict[str, Any]:
    """Writes the files of a shard; returns the fields of `ShardResult` about them."""
    with contextlib.ExitStack() as stack:
        identity = plan.identity
        writer = ShardWriter(written, split, dict(plan.spec.features), identity.most_examples, identity.most_bytes)
        stack.callback(writer.close)
        texts = TextsWriter(written, split)
        stack.callback(texts.close)
        for chunk in chunks:
            writer.write(chunk.columns)
            texts.write(chunk.texts, chunk.altered)
        columns, files = writer.finish()
        return {"examples": writer.examples, "columns": columns, "files": files, "texts": texts.finish()}


@contextlib.contextmanager
def errors_of_shard(plan: GenerationPlan, split: str, shard: int) -> Iterator[None]:
    """Adds the shard to the messages of errors if a split has several: samples are counted within the shard."""
    try:
        yield
    except UserError as error:
        if plan.shards[split] == 1:
            raise
        raise UserError(f"split {split!r}, shard {shard} of {plan.shards[split]:,}: {error}") from error
