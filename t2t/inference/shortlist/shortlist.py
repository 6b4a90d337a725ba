"""A lexical shortlist, i.e. the target pieces that a search considers for a source, and its files in a run directory.

It has the most frequent pieces, and the most probable translations of each source piece: Jean et al. 2015
(arXiv:1412.2007), section 3.3; compared with other methods by L'Hostis et al. 2016 (arXiv:1610.00072).

Legend: B sentences, S source length, F frequent pieces, K translations of a piece, V target vocabulary.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np

from t2t.checkpoints.arrays import parse_arrays, write_arrays
from t2t.checkpoints.layout import NamedFolders
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError, one_line
from t2t.files.atomic import fsync_dir, fsync_file, os_errors_as_machine_errors, sha256_of
from t2t.files.remote.mirror import fetch
from t2t.files.trust import check_inside, read_record, read_sealed, sealed
from t2t.specs.constants import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.specs.features import FeatureKind, ProblemSpec

FORMAT = 1

RECORD, ARRAYS = "shortlist.json", "shortlist.safetensors"


@dataclasses.dataclass(frozen=True)
class Shortlist:
    """The candidate target pieces of every source piece."""

    frequent: np.ndarray
    """(F,) int32: candidates for every source."""
    translations: np.ndarray
    """(source vocabulary, K) int32: further candidates if a piece is in the source."""
    target_size: int
    """V."""
    fingerprint: str = ""
    """sha256 of the file it was read from."""

    def candidates(self, ids_BS: np.ndarray) -> np.ndarray:
        """Returns the candidates for each source, (B, V) bool; the rows `ids_BS` are zero padded.

        Padding and end of sequence are always candidates.
        """
        candidates_BV = np.zeros((len(ids_BS), self.target_size), bool)
        candidates_BV[:, [PAD_ID, EOS_ID]] = True
        candidates_BV[:, self.frequent] = True
        rows_B1 = np.arange(len(ids_BS))[:, None]
        translations_BSK = np.where((ids_BS == PAD_ID)[..., None], EOS_ID, self.translations[ids_BS])
        candidates_BV[rows_B1, translations_BSK.reshape(len(ids_BS), -1)] = True
        return candidates_BV


@dataclasses.dataclass(frozen=True)
class _Record:
    """The record of a stored shortlist."""

    format: int
    vocabularies: dict[str, str]
    """Fingerprint of the vocabulary of each feature."""
    examples: int
    """How many it was learned from."""
    checksum: str
    """sha256 of its arrays."""


def write_shortlist(run: RunDir, problem: str, shortlist: Shortlist, examples: int) -> Path:
    """Writes the shortlist of one of a run's problems, replacing an earlier one; returns its folder.

    Raises:
        MachineError: it cannot be written; the earlier one is unchanged.
    """
    folders = _folders(run)

    def fill(folder: Path) -> None:
        folder.mkdir()
        write_arrays(folder / ARRAYS, {"frequent": shortlist.frequent, "translations": shortlist.translations})
        record = _Record(FORMAT, _fingerprints(run, problem), examples, sha256_of(folder / ARRAYS))
        (folder / RECORD).write_text(json.dumps(sealed(RECORD, dataclasses.asdict(record))), encoding="utf-8")
        for path in folder.iterdir():
            fsync_file(path)
        fsync_dir(folder)

    with os_errors_as_machine_errors(f"cannot write a shortlist in {folders.root}"):
        folders.write(problem, problem, fill)
    return folders.path(problem)


def read_shortlist(run: RunDir, problem: str) -> Shortlist:
    """Reads the shortlist of one of a run's problems.

    Raises:
        UserError: there is none, it is damaged, or it was learned for other vocabularies.
        MachineError: it cannot be read.
    """
    folder, spec = _folders(run).path(problem), text_spec(run, problem)
    learn = f"t2t-shortlist --output_dir={run.path}"
    with os_errors_as_machine_errors(f"cannot read {folder}"):
        fetch(folder / RECORD, folder / ARRAYS)
    for name in (RECORD, ARRAYS):
        check_inside(run.path, folder / name)
    if not (folder / RECORD).is_file():
        raise UserError(f"shortlist=True: {run.path} has no shortlist of {problem}; learn it with {learn}")
    try:
        with os_errors_as_machine_errors(f"cannot read {folder}"):
            record = read_record(_Record, read_sealed(folder / RECORD))
            if record.format > FORMAT:
                raise ValueError(f"it has format {record.format}, this version of t2t reads formats up to {FORMAT}")
            content = (folder / ARRAYS).read_bytes()
        _check_vocabularies(record, run, problem, f"the shortlist in {folder}", learn)
        if hashlib.sha256(content).hexdigest() != record.checksum:
            raise ValueError(f"{ARRAYS} is not what was written")
        return _parse(content, spec, record.checksum)
    except ValueError as error:
        what = f"the shortlist in {folder} is damaged ({one_line(error)})"
        raise UserError(f"{what}; learn it again with {learn}") from error


def text_spec(run: RunDir, problem: str) -> ProblemSpec:
    """Returns the spec of one of a run's problems; raises UserError unless inputs and targets are text."""
    spec = run.record.for_problem(problem).spec
    kinds = [feature.kind if feature else "absent" for feature in (spec.inputs, spec.targets)]
    if kinds != [FeatureKind.TOKENS] * 2:
        raise UserError(
            f"a shortlist of {problem}: its inputs are {kinds[0]}, its targets {kinds[1]}; there are shortlists of "
            f"problems from text to text"
        )
    return spec


def _folders(run: RunDir) -> NamedFolders:
    return NamedFolders(run.shortlist_folder, lambda name: True, RECORD)


def _fingerprints(run: RunDir, problem: str) -> dict[str, str]:
    vocabularies = run.record.for_problem(problem).vocabularies
    return {feature: vocabulary.fingerprint for feature, vocabulary in vocabularies.items()}


def _check_vocabularies(record: _Record, run: RunDir, problem: str, what: str, learn: str) -> None:
    for feature, own in _fingerprints(run, problem).items():
        found = record.vocabularies.get(feature, "none")
        if found != own:
            raise UserError(
                f"{what} was learned for another vocabulary of {feature}: fingerprint {found[:12]}, the run has "
                f"{own[:12]}; learn it again with {learn}"
            )


def _parse(content: bytes, spec: ProblemSpec, checksum: str) -> Shortlist:
    """Returns the shortlist of a file; raises ValueError if its arrays do not fit the features."""
    arrays = parse_arrays(content)
    rows, size = (spec.features[name].vocab_size for name in (INPUTS, TARGETS))
    for name, axes in (("frequent", 1), ("translations", 2)):
        array = arrays.get(name)
        if array is None or array.ndim != axes or array.dtype != np.int32:
            raise ValueError(f"it has no {name} of {axes} axes, int32")
        if array.size and not 0 <= array.min() <= array.max() < size:
            raise ValueError(f"{name} holds ids outside of the vocabulary")
    if len(arrays["translations"]) != rows:
        raise ValueError(f"translations has {len(arrays['translations'])} rows for a vocabulary of {rows}")
    return Shortlist(arrays["frequent"], arrays["translations"], size, checksum)
