"""The plan of a generation: everything that determines its bytes, its vocabularies, and the number of shards.

It is written first, into the work folder. Every process and machine that makes a shard follows it, and an interrupted
generation is resumed if its plan is still the requested one.
"""

import contextlib
import copy
import dataclasses
import functools
import hashlib
import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import t2t
from t2t.data.generation.problem_settings import declared_by, described_file, recorded_path, settings_of
from t2t.data.generation.split_writer import MOST_BYTES, MOST_EXAMPLES
from t2t.data.manifest import REMEDY, Manifest, RawFile, SplitRecord
from t2t.errors import UserError, asked_and_found
from t2t.files.atomic import LockedError, new_folder, os_errors_as_machine_errors, sha256_of
from t2t.files.trust import read_record, read_sealed, remembered, write_sealed
from t2t.problems.base import Problem
from t2t.problems.samples import GenerationContext
from t2t.specs import TRAIN
from t2t.specs.features import ProblemSpec
from t2t.text.vocabulary_files import VocabularyFile, read_encoders

PLAN_NAME = "plan.json"

WORK = "work"
"""Name of the subfolder for files that are not part of the finished data: plan, shards, caches."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataIdentity:
    """Everything that determines the bytes of generated data."""

    problem: str
    settings: dict[str, Any]
    declared: dict[str, Any]
    options: dict[str, Any]
    seed: int
    raw_files: dict[str, RawFile]
    code: str
    """sha256 of the source files of the problem's classes: a changed plug-in makes other data."""
    most_examples: int = MOST_EXAMPLES
    most_bytes: int = MOST_BYTES
    written_by: str = t2t.__version__


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationPlan:
    """What all processes of a generation follow."""

    identity: DataIdentity
    spec: ProblemSpec
    vocabularies: dict[str, VocabularyFile]
    shards: dict[str, int]
    """Number of shards, by split."""

    @property
    def order(self) -> list[str]:
        """The splits, training last, as it can take hours: errors in the small splits show first."""
        return sorted(self.shards, key=lambda split: split == TRAIN)

    def every_shard(self) -> list[tuple[str, int]]:
        """Returns all shards, as split and number, in the order of their generation."""
        return [(split, shard) for split in self.order for shard in range(self.shards[split])]

    @functools.cached_property
    def fingerprint(self) -> str:
        """sha256 of the plan; recorded with each shard, so that shards of another plan are not used."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as plain JSON."""
        return {**dataclasses.asdict(self), "spec": self.spec.to_dict()}

    def manifest(self, splits: dict[str, SplitRecord]) -> Manifest:
        """Returns the manifest of the finished data."""
        same = {name: getattr(self.identity, name) for name in _OF_MANIFEST}
        return Manifest(**same, spec=self.spec, vocabularies=self.vocabularies, splits=splits)


_OF_MANIFEST = ("problem", "settings", "declared", "options", "seed", "raw_files", "written_by")


def identify(
    problem: Problem,
    tmp_dir: Path,
    seed: int,
    most_examples: int = MOST_EXAMPLES,
    most_bytes: int = MOST_BYTES,
    trusted: Mapping[str, RawFile] | None = None,
) -> DataIdentity:
    """Returns the identity of the data that a problem would generate now.

    Args:
        problem: as it was constructed, before its code changes any attribute.
        tmp_dir: folder of raw files.
        seed: of all randomness.
        most_examples: examples in one file of the data.
        most_bytes: bytes of values in one file of the data.
        trusted: known raw files; a file of the same path and size is assumed to be unchanged and not read.
    """
    files = problem.raw_files(tmp_dir)
    known = {name: file for name, file in (trusted or {}).items() if _has_same_size(files.get(name), file)}
    others = {name: Path(path) for name, path in files.items() if name not in known}
    described = known | {name: described_file(path) for name, path in others.items() if path.is_file()}
    return DataIdentity(
        problem=problem.stored.name,
        settings=settings_of(problem),
        declared=declared_by(problem),
        options=problem.options.of_data(),
        seed=seed,
        raw_files={name: described[name] for name in files if name in described},
        code=_digest_code(type(problem)),
        most_examples=most_examples,
        most_bytes=most_bytes,
    )


def count_shards(problem: Problem, split: str, context: GenerationContext) -> int:
    """Returns the checked result of `Problem.shards`.

    Raises:
        UserError: it is not an integer of 1 or more.
    """
    shards = problem.shards(split, context)
    if not isinstance(shards, int) or isinstance(shards, bool) or shards < 1:
        raise UserError(
            f"problem {problem.name}: shards returned {shards!r} for split {split!r}",
            "it must return a whole number, 1 or more",
        )
    return shards


def write_plan(folder: Path, plan: GenerationPlan) -> None:
    """Writes a plan into the folder in which data is generated.

    Raises:
        MachineError: the disk is full, or the folder is not writable.
    """
    with os_errors_as_machine_errors(f"cannot write {folder}"):
        write_sealed(folder / WORK / PLAN_NAME, plan.to_dict())


def read_plan(folder: Path) -> GenerationPlan | None:
    """Returns the plan in the folder in which data is generated; None if there is no usable one."""
    with contextlib.suppress(OSError, UserError, ValueError):  # a damaged plan is made again
        return _read(folder / WORK / PLAN_NAME)
    return None


@remembered  # every shard reads it, and it describes the raw files of all
def _read(path: Path) -> GenerationPlan:
    return read_record(GenerationPlan, read_sealed(path))


def describe_differences(asked: DataIdentity, found: DataIdentity) -> str:
    """Describes the differences between two identities, for a message; empty if there are none."""
    one, other = (_flat(dataclasses.asdict(identity)) for identity in (asked, found))
    names = [name for name in sorted(one | other) if one.get(name) != other.get(name)]
    return "; ".join(f"{name}: {asked_and_found(one.get(name, 'none'), other.get(name, 'none'))}" for name in names)


def _has_same_size(path: Path | None, file: RawFile) -> bool:
    return (
        path is not None and recorded_path(path) == file.path and path.is_file() and path.stat().st_size == file.bytes
    )


def _digest_code(cls: type) -> str:
    modules = {base.__module__: getattr(sys.modules.get(base.__module__), "__file__", None) for base in cls.__mro__}
    digests = [sha256_of(Path(file)) for _, file in sorted(modules.items()) if file and Path(file).is_file()]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _flat(plain: Any, name: str = "") -> dict[str, str]:
    """Flattens nested dicts: returns the values as JSON, by keys joined with dots."""
    if not isinstance(plain, dict):
        return {name: json.dumps(plain)}
    parts = (_flat(value, f"{name}.{key}" if name else key) for key, value in plain.items())
    return {key: value for part in parts for key, value in part.items()}


# === Following the plan ===
def seed_of(seed: int, use: str) -> int:
    """Returns the seed for one random generator (of a split, the vocabulary), the same on every machine and Python."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{use}".encode()).digest()[:8], "big")


@dataclasses.dataclass(frozen=True)
class GenerationJob:
    """What every process needs that makes shards of a generation."""

    plan: GenerationPlan
    problem: Problem
    """What is generated; it is not changed."""
    folder: Path
    """In which data is generated; it holds the plan and the vocabularies."""
    tmp_dir: Path
    """Folder of raw files."""

    def open_problem(self) -> Problem:
        """Returns a copy of the problem that has the vocabularies; raises as `read_same_plan`."""
        return open_problem(self.problem, self.folder, self.plan.fingerprint)

    def context(self, split: str, shard: int) -> GenerationContext:
        """Returns what the generator of a shard's samples gets."""
        shards = self.plan.shards[split]
        use = split if shards == 1 else f"{split}/{shard}"
        rng = random.Random(seed_of(self.plan.identity.seed, use))
        work_dir = self.folder / WORK
        return GenerationContext(
            self.tmp_dir, rng, shard=shard, shards=shards, work_dir=work_dir, data_dir=self.folder.parent
        )

    @contextlib.contextmanager
    def errors_of(self, split: str, shard: int) -> Iterator[None]:
        """Adds the shard to the messages of errors if a split has several: samples are counted within the shard."""
        try:
            yield
        except UserError as error:
            if self.plan.shards[split] == 1:
                raise
            raise error.at(f"split {split!r}, shard {shard} of {self.plan.shards[split]:,}") from error


def read_same_plan(folder: Path, fingerprint: str) -> GenerationPlan:
    """Returns the plan with a fingerprint; raises UserError if the folder in which data is generated has it no more."""
    found = read_plan(folder)
    if found is None or found.fingerprint != fingerprint:
        raise UserError(
            f"{folder} does not hold the plan of this generation any more: another process has finished it, or "
            "generates other data there",
            "run the same command again",
        )
    return found


def open_problem(problem: Problem, folder: Path, fingerprint: str) -> Problem:
    """Returns a copy of a problem that has the vocabularies of a plan; raises as `read_same_plan`."""
    plan = read_same_plan(folder, fingerprint)
    return copy.copy(problem).with_encoders(read_encoders(folder, plan.vocabularies, REMEDY))


RECORD_NAME = "record.json"


Record = TypeVar("Record")
"""Of a folder: a dataclass of plain values and records of files, with the fingerprint of its `plan`."""


def read_finished(kind: type[Record], plan: GenerationPlan, path: Path) -> Record | None:
    """Returns the record of a folder; None if there is none for this plan, or its files are missing."""
    with contextlib.suppress(OSError, UserError, ValueError):  # a damaged folder is made again
        found = read_sealed(path / RECORD_NAME)
        there = all((path / name).stat().st_size == size for name, size in found.pop("sizes", {}).items())
        if there and found.get("plan") == plan.fingerprint:
            return read_record(kind, found)
    return None


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yields an empty folder with a temporary name, renamed to `path` if the `with` block ends without an error.

    Raises:
        UserError: another process makes the same folder.
        MachineError: the disk is full, or the folder is not writable.
    """
    with contextlib.ExitStack() as stack:
        with os_errors_as_machine_errors(f"cannot write {path}"):
            shutil.rmtree(path, ignore_errors=True)  # it is damaged, or of another plan
            try:
                written = stack.enter_context(new_folder(path))
            except LockedError as error:
                raise UserError(f"{path} is being generated by another process ({error})", "wait for it") from None
        yield written
        with os_errors_as_machine_errors(f"cannot write {path}"):
            stack.close()


def write_work_record(written: Path, record: Any) -> None:
    """Writes the record of a folder, a dataclass, with the sizes of its files.

    Raises:
        MachineError: the disk is full, or the folder is not writable.
    """
    with os_errors_as_machine_errors(f"cannot write {written}"):
        sizes = {path.name: path.stat().st_size for path in written.iterdir()}
        write_sealed(written / RECORD_NAME, {**dataclasses.asdict(record), "sizes": sizes})
