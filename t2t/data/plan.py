"""The plan of a generation: everything that determines its bytes, its vocabularies, and the number of shards.

It is written first, into the work folder. Every process and machine that makes a shard follows it, and an interrupted
generation is resumed if its plan is still the requested one.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import t2t
from t2t.data.manifest import Manifest, SplitRecord
from t2t.data.problem_settings import declared_by, settings_of
from t2t.data.raw_files import RawFile, describe_raw_files, recorded_path
from t2t.data.shards import MOST_BYTES, MOST_EXAMPLES
from t2t.errors import UserError, asked_and_found
from t2t.files.atomic import os_errors_as_machine_errors, sha256_of
from t2t.files.trust import read_record, read_sealed, remembered, write_sealed
from t2t.problems.base import Problem
from t2t.problems.source import Source
from t2t.specs.constants import TRAIN
from t2t.specs.features import ProblemSpec
from t2t.text.vocabulary_files import VocabularyFile

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
    described = known | describe_raw_files({name: path for name, path in files.items() if name not in known})
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


def count_shards(problem: Problem, split: str, source: Source) -> int:
    """Returns the checked result of `Problem.shards`.

    Raises:
        UserError: it is not an integer of 1 or more.
    """
    shards = problem.shards(split, source)
    if not isinstance(shards, int) or isinstance(shards, bool) or shards < 1:
        raise UserError(
            f"problem {problem.name}: shards returned {shards!r} for split {split!r}; it must return a whole number, "
            f"1 or more"
        )
    return shards


def write_plan(folder: Path, plan: GenerationPlan) -> None:
    """Writes a plan into the folder in which data is generated.

    Raises:
        MachineError: the disk is full, or the place is not writable.
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
