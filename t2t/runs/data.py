"""Generated data of a problem: making it, opening it."""

import dataclasses
import hashlib

from t2t.constants import DATA_SEED
from t2t.data.generate import data_folder, generate
from t2t.data.manifest import Manifest, check_matches, load_encoders, read_manifest
from t2t.data.reader import SplitReader
from t2t.errors import UserError
from t2t.problems.base import Problem
from t2t.runs.names import Request, problem_named


@dataclasses.dataclass(frozen=True)
class OpenData:
    """A problem with its vocabularies, and the readers of its splits."""

    problem: Problem
    manifest: Manifest
    readers: dict[str, SplitReader]
    fingerprint: str
    """sha256 of the manifest."""


def generate_data(request: Request, problem: Problem, seed: int = DATA_SEED) -> Manifest:
    """Generates what a problem reads, or finds it there already."""
    return generate(problem.stored, request.data_folder, request.tmp_folder, seed=seed)


def open_data(request: Request, problem: Problem, verify: bool = True) -> OpenData:
    """Opens the generated data of a problem, and gives the problem its vocabularies.

    Args:
        request: says where.
        problem: whose.
        verify: compare every file with its checksum first.

    Raises:
        UserError: there is none, it is another problem's or vocabulary's, or a file is damaged.
    """
    folder = data_folder(request.data_folder, problem)
    if not folder.is_dir():
        raise UserError(
            f"no data of {problem.stored.name} in {request.data_folder}; make it with "
            f"t2t-datagen --problem={problem.stored.name} --data_dir={request.data_dir}, or pass --generate_data"
        )
    manifest = read_manifest(folder)
    if not request.problem_options and manifest.options:
        problem = problem_named(request.problem, manifest.options)  # the data remembers what it was made with
    check_matches(manifest, folder, problem.stored)
    problem.with_encoders(load_encoders(folder, manifest))
    readers = {split: SplitReader(folder, manifest, split) for split in manifest.splits}
    if verify:
        for reader in readers.values():
            reader.verify()
    return OpenData(problem, manifest, readers, hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest())
