"""Generated data of a problem: making it, opening it."""

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable

from t2t.constants import DATA_SEED
from t2t.data.generate import data_folder, generate
from t2t.data.manifest import MANIFEST_NAME, Manifest, load_encoders, read_manifest
from t2t.data.reader import SplitReader
from t2t.data.settings import check_matches
from t2t.errors import UserError
from t2t.problems.base import Problem
from t2t.runs.names import Request, parts_of, problem_named


@dataclasses.dataclass(frozen=True)
class OpenData:
    """A problem with its vocabularies, and the readers of its splits."""

    problem: Problem
    manifest: Manifest
    readers: dict[str, SplitReader]
    """Of the splits that were asked for."""
    fingerprint: str
    """sha256 of what the manifest says of the data, but for who wrote it, from files that lay where."""
    former_fingerprint: str
    """The same with the paths of the files that its user named, as the first runs remember it."""


def fingerprint_of(data: Iterable[OpenData]) -> str:
    """Returns the fingerprint of the data of one problem, or those of several with + between them."""
    return "+".join(one.fingerprint for one in data)


def generate_all(
    request: Request, seed: int = DATA_SEED, once_forked: Callable[[], object] | None = None
) -> list[Manifest]:
    """Generates the data of each problem of a request; returns what each has.

    What is called once there are workers comes with the last problem's, since it may keep others from being forked.
    """
    *others, last = parts_of(request)
    made = [generate_data(part, problem_named(part.problem, part.problem_options), seed) for part in others]
    return [*made, generate_data(last, problem_named(last.problem, last.problem_options), seed, once_forked)]


def generate_data(
    request: Request, problem: Problem, seed: int = DATA_SEED, once_forked: Callable[[], object] | None = None
) -> Manifest:
    """Generates what a problem reads, or finds it there already; see `generate`."""
    problem = _as_generated(request, problem)
    return generate(problem.stored, request.data_folder, request.tmp_folder, seed=seed, once_forked=once_forked)


def _as_generated(request: Request, problem: Problem) -> Problem:
    """Returns the problem with the options that its data was made with, those of the request over them."""
    folder = data_folder(request.data_folder, problem)
    if not (folder / MANIFEST_NAME).is_file():
        return problem
    remembered = read_manifest(folder).options
    return problem_named(request.problem, {**remembered, **request.problem_options}) if remembered else problem


def open_data(
    request: Request, problem: Problem, verify: bool = True, known: str = "", splits: Collection[str] | None = None
) -> OpenData:
    """Opens the generated data of a problem, and gives the problem its vocabularies.

    Args:
        request: says where.
        problem: whose.
        verify: compare every file of these splits with its checksum first, see `verify_files`.
        known: fingerprint of the data that a run was trained from, see `fingerprint_of`; of these, raw files may have
            moved or gone.
        splits: which to open, as far as the data has them; of the others no file is looked at. None for all.

    Raises:
        UserError: there is none, it is another problem's or vocabulary's, or a file is damaged.
    """
    folder = data_folder(request.data_folder, problem)
    if not folder.is_dir() and request.is_data_of_run:
        raise UserError(
            f"no data of {problem.stored.name} in {request.data_folder}, where it was when the run in "
            f"{request.output_folder} was trained; name its new place with --data_dir"
        )
    if not folder.is_dir():
        raise UserError(
            f"no data of {problem.stored.name} in {request.data_folder}; make it with "
            f"t2t-datagen --problem={problem.stored.name} --data_dir={request.data_folder}, or pass --generate_data"
        )
    manifest = read_manifest(folder)
    fingerprints = _fingerprints(manifest, problem.options.file_names())
    problem = _as_generated(request, problem)
    check_matches(manifest, folder, problem.stored, is_known=any(one in fingerprints for one in known.split("+")))
    problem = _with_its_files(request, problem, manifest)
    problem.with_encoders(load_encoders(folder, manifest))
    readers = {
        split: SplitReader(folder, manifest, split) for split in manifest.splits if splits is None or split in splits
    }
    if verify:
        for reader in readers.values():
            reader.verify()
    return OpenData(problem, manifest, readers, *fingerprints)


def open_all(request: Request, known: str = "", splits: Collection[str] | None = None) -> list[OpenData]:
    """Opens the data of each problem of a request, see `open_data`."""
    return [
        open_data(part, problem_named(part.problem, part.problem_options), known=known, splits=splits)
        for part in parts_of(request)
    ]


def _with_its_files(request: Request, problem: Problem, manifest: Manifest) -> Problem:
    """Returns the problem with the files where they lay when the data was made from them."""
    options = problem.options.changed()
    there = {name: manifest.options[name] for name in problem.options.file_names() if name in manifest.options}
    return problem if options == options | there else problem_named(request.problem, options | there)


def _fingerprints(manifest: Manifest, file_names: tuple[str, ...]) -> tuple[str, str]:
    """Returns the sha256 of what the data is, without and with the paths of files that it was made from.

    What the first versions did not remember is left out, so that runs know their data, made again by this one.
    """
    splits = {name: dataclasses.replace(split, unknown={}) for name, split in manifest.splits.items()}
    former = dataclasses.replace(manifest, written_by="", raw_files={}, declared={}, splits=splits)
    without = {
        part: {name: value for name, value in getattr(former, part).items() if name not in file_names}
        for part in ("settings", "options")
    }
    same = dataclasses.replace(former, **without)
    return tuple(hashlib.sha256(one.to_json().encode()).hexdigest() for one in (same, former))
