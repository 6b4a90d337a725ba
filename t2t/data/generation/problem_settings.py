"""The settings and raw files that determine a problem's data, and the check that existing data was made with the same.

A raw file is identified by its size and the sha256 of its whole content. The modification time is not reliable: a copy
has another one, and tools can keep an old one. A digest of parts is not enough either: corpora are corrected in the
middle. Reading everything takes about a second per gigabyte, and happens only when data is generated.
"""

import dataclasses
import enum
import functools
import hashlib
import itertools
import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from t2t.data.manifest import Manifest, RawFile
from t2t.errors import UserError, asked_and_found
from t2t.features.feature import Feature
from t2t.files.atomic import remedy_of, sha256_of
from t2t.files.paths import address_of, named_files
from t2t.problems.base import Problem

_DECLARED = (
    "vocab_kind", "vocab_size", "vocabulary", "shared_vocabulary", "class_labels", "max_length", "max_audio_seconds",
    "sample_rate", "image_shape", "image_fit",
)  # fmt: skip
"""Attributes that are recorded even in data of the first versions."""

_SINGLE_SPACES = "single_spaces"
"""Is in the data of every problem, also of those without text."""

_LANGUAGES = ("source_language", "target_language")
"""Settings that may be added to data without them, as scores depend on them."""

_LONGEST = 200
"""Longest setting, in characters of JSON, that is recorded in full; longer ones are recorded as digests."""

_NOTHING = object()


def settings_of(problem: Problem) -> dict[str, Any]:
    """Returns, as plain JSON, the options that a user set and the attributes that data of all versions records."""
    found = {name: _brief(getattr(problem, name)) for name in _DECLARED if hasattr(problem, name)}
    return json.loads(json.dumps(found | problem.options.of_data(), default=str))


def declared_by(problem: Problem) -> dict[str, Any]:
    """Returns, as plain JSON, the other public attributes of a problem with plain values: sizes, names, languages.

    Its data may depend on any of them, except for those of which its classes say that it does not, and properties,
    which are derived from others. Features that are declared are recorded as the class has them.
    """
    cls = type(problem)
    not_of_data = {name for base in cls.__mro__ for name in vars(base).get("_not_of_data", ())}
    names = [name for name in dir(problem) if not name.startswith("_") and name not in (*_DECLARED, *not_of_data)]
    names = [name for name in names if not isinstance(getattr(cls, name, None), property | functools.cached_property)]
    found = {_SINGLE_SPACES: False} | {name: _plain(getattr(problem, name)) for name in names}
    return {name: _digest(value) for name, value in sorted(found.items()) if value is not _NOTHING}


def _plain(value: Any) -> Any:
    """Converts a value to plain JSON; returns `_NOTHING` if that is not possible."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Feature):
        values = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        others = {f.name: values[f.name] for f in dataclasses.fields(value) if values[f.name] != f.default}
        plain = {name: _plain(one) for name, one in others.items()}  # defaults are left out: there may be more later
        return {"kind": type(value).__name__, **{name: one for name, one in plain.items() if one is not _NOTHING}}
    if isinstance(value, Mapping):
        found = {str(key): _plain(entry) for key, entry in value.items()}
        return _NOTHING if _NOTHING in found.values() else found
    if isinstance(value, list | tuple | range | Set):
        entries = [_plain(entry) for entry in (sorted(value, key=repr) if isinstance(value, Set) else value)]
        return _NOTHING if _NOTHING in entries else entries
    return _NOTHING


def _digest(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    if len(text) <= _LONGEST:
        return value
    return f"{len(value)} {'characters' if isinstance(value, str) else 'entries'}, sha256 {_sha256(text)}"


def _brief(value: Any) -> Any:
    """Replaces a long list by its digest, in the format of the first versions."""
    if not isinstance(value, tuple | list) or len(value) <= 20:
        return value
    return f"{len(value)} entries, sha256 {_sha256(json.dumps(value, default=str))}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_matches(
    manifest: Manifest, folder: Path, problem: Problem, seed: int | None = None, is_known: bool = False
) -> None:
    """Refuses data that was made by another problem, vocabulary, option, setting or seed.

    An option may name another file with the same content: files can move. Declared settings that only the data or only
    the problem has, because the versions of the code differ, are ignored. A language may be given to data without one.

    Args:
        manifest: of the data in the folder.
        folder: for the message.
        problem: the requested problem; a variant (`_rev`, `_copy`) matches the data of its base.
        seed: of the generator; None to accept any.
        is_known: whether the data is known to be the right one, so that its raw files need not exist any more.

    Raises:
        UserError: something differs; the message lists the requested and the found values.
    """
    asked = settings_of(problem) | {"problem": problem.stored.name}
    found = manifest.settings | {"problem": manifest.problem}
    if seed is not None:
        asked["seed"], found["seed"] = seed, manifest.seed
    if not is_known:
        declared = declared_by(problem) | {"splits": list(problem.splits)}
        remembered = manifest.declared | {"splits": list(manifest.splits)}
        both = declared.keys() & remembered.keys() - found.keys()
        asked |= {key: declared[key] for key in both}
        found |= {key: remembered[key] for key in both}
    files = problem.options.file_names()
    differing = [key for key in sorted(asked | found) if asked.get(key) != found.get(key)]
    wrong = {}
    for key in differing:
        if key in _LANGUAGES and not found.get(key):
            continue
        values: tuple[str, str] | None = (_shown(asked, key), _shown(found, key))
        if key in files and all(isinstance(names, str) and names for names in (asked.get(key), found.get(key))):
            values = _first_other_file(manifest, asked[key], found[key], is_known)
        if values:
            wrong[key] = asked_and_found(*values)
    if wrong:
        listed = "; ".join(f"{key}: {difference}" for key, difference in wrong.items())
        hint = "; a file may lie elsewhere, but must hold the same" if set(wrong) & set(files) else ""
        raise UserError(
            f"{folder} holds data made with other settings than requested ({listed}{hint})",
            "choose another --data_dir, delete that folder, or ask for what it holds",
        )


def _first_other_file(manifest: Manifest, asked: str, found: str, is_known: bool) -> tuple[str, str] | None:
    """Returns the first pair of a requested and a recorded path with different contents; None if the files moved."""
    paths = named_files(asked)
    if is_known and not all(path.is_file() for path in paths):
        return None
    recorded = {file.path: file for file in manifest.raw_files.values()}
    for path, old in itertools.zip_longest(paths, map(recorded_path, named_files(found))):
        if path is None or old not in recorded or not has_same_content(path, recorded[old]):
            return repr(str(path)) if path else "none", repr(old) if old else "none"
    return None


def _shown(settings: dict[str, Any], key: str) -> str:
    return repr(settings[key]) if key in settings else "none"


def check_raw_files(recorded: Mapping[str, RawFile], files: Mapping[str, Path], folder: Path) -> None:
    """Refuses data if the content of a raw file has changed since it was made; missing files are ignored.

    A file is found among those recorded by its name, or else by its path: earlier versions gave some files other names.

    Raises:
        UserError: the message names every file that differs.
    """
    by_path = {file.path: file for file in recorded.values()}
    before = {Path(path): recorded.get(name) or by_path.get(recorded_path(Path(path))) for name, path in files.items()}
    differing = [
        str(path) for path, file in before.items() if file and path.is_file() and not has_same_content(path, file)
    ]
    if differing:
        raise UserError(
            f"{folder} was made when {', '.join(differing)} held something else; to generate it again, delete that "
            "folder or choose another --data_dir",
            "to use the data as it is, do not generate it again",
        )


def has_same_content(path: Path, recorded: RawFile) -> bool:
    """Returns whether a file exists and has the content of a recorded one, whatever its path was.

    Raises:
        UserError: the file cannot be read.
    """
    return path.is_file() and path.stat().st_size == recorded.bytes and described_file(path).sha256 == recorded.sha256


def recorded_path(path: Path) -> str:
    """Returns a path as a `RawFile` records it: the address of a file of an object store."""
    return address_of(path) or str(path)


def described_file(path: Path) -> RawFile:
    """Returns the record of a raw file; raises UserError if it cannot be read."""
    try:
        return RawFile(path=recorded_path(path), bytes=path.stat().st_size, sha256=sha256_of(path))
    except OSError as error:
        cure = remedy_of(error, "correct its permissions")
        raise UserError(f"{path}: cannot be read ({error.strerror})", cure) from None
