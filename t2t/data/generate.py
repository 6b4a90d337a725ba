"""Generating the data of a problem: vocabularies, then every split, then the manifest; all of it or nothing.

A run works in a hidden folder beside the final one and renames it at the very end, so that a crash leaves nothing that
looks like data; the next run removes what it left.
"""

import contextlib
import copy
import dataclasses
import hashlib
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import t2t
from t2t.data.encoding import EncodingPool, Vocabularies
from t2t.data.manifest import (
    MANIFEST_NAME,
    REMEDY,
    ColumnTotals,
    Manifest,
    SplitRecord,
    read_manifest,
    write_manifest,
)
from t2t.data.mirrored import dropping_unpublished, fetch_raw_files, is_published, publish_data, refresh
from t2t.data.progress import ReadingProgress
from t2t.data.raw_files import check_raw_files, describe_raw_files
from t2t.data.settings import check_matches, declared_by, settings_of
from t2t.data.shards import MOST_BYTES, MOST_EXAMPLES, ShardWriter
from t2t.data.tally import WORTH_A_WARNING, SplitTally, unknown_shares
from t2t.data.texts import TextsWriter
from t2t.errors import UserError
from t2t.files.atomic import (
    LockedError,
    fsync_dir,
    lock_beside,
    made_folder,
    os_errors_as_machine_errors,
)
from t2t.files.paths import local_path
from t2t.files.remote.mirror import exclusive
from t2t.problems.base import Problem, Source
from t2t.problems.samples import samples_of
from t2t.specs.constants import TRAIN
from t2t.specs.features import ProblemSpec
from t2t.text.vocabulary_files import read_encoders, save_encoders

log = logging.getLogger("t2t")

ENOUGH_TO_JUDGE = 10_000
"""After so many training examples, a corpus that is unfit so far ends the job."""

_CURE = "check the raw files and their encoding, or the problem's max_length"


@dataclasses.dataclass(frozen=True)
class _Job:
    """What stays the same for the length of one generation."""

    problem: Problem
    tmp_dir: Path
    seed: int
    folder: Path
    pool: EncodingPool
    progress: Callable[[str, int], None]
    most_examples: int
    most_bytes: int

    def source(self, use: str) -> Source:
        return Source(self.tmp_dir, random.Random(seed_of(self.seed, use)), progress=self.progress)


def data_folder(data_dir: Path | str, problem: Problem) -> Path:
    """Returns where the data of a problem lies: `<data_dir>/<data_name>`."""
    return local_path(data_dir) / problem.data_name


def seed_of(seed: int, use: str) -> int:
    """Returns the seed of one use of chance (a split, the vocabulary), the same on every machine and Python."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{use}".encode()).digest()[:8], "big")


def generate(
    problem: Problem,
    data_dir: Path | str,
    tmp_dir: Path | str,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[str, int], None] | None = None,
    *,
    once_forked: Callable[[], object] | None = None,
    most_examples: int = MOST_EXAMPLES,
    most_bytes: int = MOST_BYTES,
) -> Manifest:
    """Generates the data of a problem, or says that it is there already.

    Args:
        problem: what to generate; of a variant (`_rev`, `_copy`) pass the base.
        data_dir: the data goes to `<data_dir>/<problem.data_name>`.
        tmp_dir: raw files and downloads.
        seed: of everything that chance decides in the data.
        workers: processes that encode, None for one a core; the bytes do not depend on it.
        progress: called with what is read (a split, or `vocabulary`) and how many examples of it have been; None for a
            bar on a terminal and log lines elsewhere.
        once_forked: called before anything is generated, as soon as there are workers: a place for checks that import
            TensorFlow, whose threads keep a process from forking.
        most_examples: examples in one shard.
        most_bytes: bytes of values in one shard.

    Returns:
        The manifest of what lies there now.

    Raises:
        UserError: the folder holds other data or data of raw files that have changed, another process is generating
            it, a sample is wrong, a split is empty, or more than half of the training examples are unfit.
        MachineError: the disk is full, or the place is not writable.
    """
    folder, tmp_dir = data_folder(data_dir, problem), local_path(tmp_dir)
    refresh(folder)
    fetch_raw_files(problem, tmp_dir)
    if is_published(folder) and (existing := _existing(folder, problem, seed, tmp_dir)) is not None:
        return existing
    for place in (folder.parent, folder):
        if place.exists() and not place.is_dir():
            raise UserError(f"{place}: that is a file, and a folder goes there; move it or choose another --data_dir")
    with lock_generation(folder):
        refresh(folder)
        existing = None
        with dropping_unpublished(folder):
            existing = _existing(folder, problem, seed, tmp_dir)
        if existing is not None:
            publish_data(folder, existing)
            return existing
        log.info("generating %s in %s", problem.data_name, folder)
        pool, shown = EncodingPool(problem, workers), ReadingProgress()
        try:
            if once_forked is not None:
                once_forked()
            with written_aside(folder) as partial:
                show = progress or shown.show
                job = _Job(copy.copy(problem), tmp_dir, seed, partial, pool, show, most_examples, most_bytes)
                manifest = _generate_into(job)
            publish_data(folder, manifest)
            return manifest
        finally:
            pool.close()
            shown.close()


@contextlib.contextmanager
def written_aside(folder: Path) -> Iterator[Path]:
    """Yields an empty folder beside `folder`, which gets its name at the end of a `with` block without an error.

    Raises:
        MachineError: the disk is full, or the place is not writable.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        with os_errors_as_machine_errors(f"cannot write {partial}"):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
        yield partial
        with os_errors_as_machine_errors(f"cannot write {folder}"):
            fsync_dir(partial)
            os.rename(partial, folder)
            fsync_dir(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def lock_generation(folder: Path, flag: str = "--data_dir") -> Iterator[None]:
    """Keeps every other process from generating into a folder for the length of a `with` block.

    The folder above it, which `flag` names in a message, is made, and removed again where nothing is generated.
    """
    with contextlib.ExitStack() as stack:
        with os_errors_as_machine_errors(f"cannot write {folder.parent}"):
            stack.enter_context(made_folder(folder.parent))
        with os_errors_as_machine_errors(f"cannot lock {folder}"):
            try:
                stack.enter_context(exclusive(lock_beside(folder)))
            except LockedError as error:
                raise UserError(
                    f"{folder} is being generated by another process ({error}); wait for it, or choose another {flag}"
                ) from None
        yield


def _existing(folder: Path, problem: Problem, seed: int, tmp_dir: Path) -> Manifest | None:
    """Returns the manifest of data that is what is asked for, None where there is nothing yet."""
    with contextlib.suppress(NotADirectoryError, FileNotFoundError):
        if (folder / MANIFEST_NAME).exists():
            manifest = read_manifest(folder)
            check_matches(manifest, folder, problem, seed)
            check_raw_files(manifest.raw_files, problem.raw_files(tmp_dir), folder)
            log.info("%s is there already: %s; nothing to do", folder, describe_counts(manifest))
            return manifest
        if any(folder.iterdir()):
            raise UserError(
                f"{folder} exists and holds no {MANIFEST_NAME}, so it is not generated data; "
                f"delete it or choose another --data_dir"
            )
    return None


def describe_counts(manifest: Manifest) -> str:
    """Returns the numbers of examples, and whether those of training are distilled."""
    counts = ", ".join(f"{split.examples:,} {name}" for name, split in manifest.splits.items()) + " examples"
    return f"{counts}, training targets distilled" if manifest.distilled else counts


def _generate_into(job: _Job) -> Manifest:
    problem = job.problem
    settings, declared = settings_of(problem), declared_by(problem)  # before its code changes any
    raw_files = describe_raw_files(problem.raw_files(job.tmp_dir))
    encoders = problem.build_encoders(job.source("vocabulary"))
    records = save_encoders(job.folder, encoders)
    problem.with_encoders(read_encoders(job.folder, records, REMEDY))
    _log_vocabularies(problem)
    spec = problem.spec()
    vocabularies = Vocabularies(job.folder, records)
    # Small splits first: what is wrong with them shows before the hours that training data can take.
    order = sorted(problem.splits, key=lambda split: split == TRAIN)
    splits = {split: _generate_split(job, split, spec, vocabularies) for split in order}
    manifest = Manifest(
        problem=problem.data_name,
        settings=settings,
        declared=declared,
        options=problem.options.of_data(),
        seed=job.seed,
        raw_files=raw_files,
        spec=spec,
        vocabularies=records,
        splits={split: splits[split] for split in problem.splits},
        written_by=t2t.__version__,
    )
    write_manifest(job.folder, manifest)
    return manifest


def _generate_split(job: _Job, split: str, spec: ProblemSpec, vocabularies: Vocabularies) -> SplitRecord:
    source = job.source(split)
    tally = SplitTally(samples_of(job.problem, split, source), source.tally)
    with contextlib.ExitStack() as stack:
        writer = ShardWriter(job.folder, split, dict(spec.features), job.most_examples, job.most_bytes)
        stack.callback(writer.close)
        texts = TextsWriter(job.folder, split)
        stack.callback(texts.close)
        for chunk in job.pool.encode(tally, split, vocabularies):
            tally.add(chunk)
            writer.write(chunk.columns)
            texts.write(chunk.texts, chunk.altered)
            job.progress(split, tally.read)
            if split == TRAIN and tally.read >= ENOUGH_TO_JUDGE:
                _check_fit(job.problem, tally, "so far", "; if only their beginning is so, shuffle them")
        _check_split(job.problem, split, tally, writer.examples)
        columns, shards = writer.finish()
        kept_texts = texts.finish(writer.examples)
    log.info("%s: %s examples written%s", split, f"{writer.examples:,}", tally.describe())
    _report_unknown(split, tally, columns, writer.examples)
    return SplitRecord(
        examples=writer.examples,
        columns=columns,
        shards=shards,
        dropped=dict(sorted(tally.dropped.items())),
        mended=dict(sorted(tally.mended.items())),
        texts=kept_texts,
        unknown=dict(sorted(tally.unknown.items())),
    )


def _check_split(problem: Problem, split: str, tally: SplitTally, written: int) -> None:
    if not tally.read:
        raise UserError(
            f"split {split!r} of {problem.name} is empty: no example came out of its raw data; check the raw files"
        )
    if split == TRAIN:
        _check_fit(problem, tally)
        if not written:
            raise UserError(f"split {split!r} of {problem.name} is empty{tally.describe()}; {_CURE}")


def _check_fit(problem: Problem, tally: SplitTally, when: str = "", cure: str = "") -> None:
    """Ends a job whose training data is mostly unfit, early where it can: it may take hours."""
    if tally.is_mostly_unfit:
        raise UserError(
            f"more than half of the training data of {problem.name} is unfit{when and ' ' + when}: {tally.unfit:,} of "
            f"{'the first ' if when else ''}{tally.read:,} examples{tally.describe()}; {_CURE}{cure}"
        )


def _report_unknown(split: str, tally: SplitTally, columns: Mapping[str, ColumnTotals], examples: int) -> None:
    """Logs the share of unknown ids by feature; warns where there are many."""
    for name, share in sorted(unknown_shares(tally.unknown, columns, examples).items()):
        found = f"{split}: {share:.2%} of the ids of {name} ({tally.unknown[name]:,}) stand for unknown words"
        if share < WORTH_A_WARNING:
            log.info("%s", found)
        else:
            log.warning(
                "%s, which a model can neither tell apart nor write; raise --vocab_size, or choose a --vocab_kind that "
                "spells every word (sentencepiece, subword, byte)", found,
            )  # fmt: skip


def _log_vocabularies(problem: Problem) -> None:
    learnt = not getattr(problem, "vocabulary", ())
    asked = getattr(problem, "vocab_size", 0)
    seen: dict[str, list[str]] = {}
    for name, encoder in problem.encoders.items():
        seen.setdefault(encoder.fingerprint, []).append(name)
    for names in seen.values():
        encoder = problem.encoders[names[0]]
        note = f" ({asked:,} asked for)" if learnt and asked and encoder.kind not in ("byte", "label") else ""
        log.info("vocabulary of %s: %s, %s ids%s", ", ".join(names), encoder.kind, f"{encoder.vocab_size:,}", note)
