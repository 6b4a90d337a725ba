"""Whether the weights of a checkpoint fit a model: its variables, its architecture and its vocabularies.

Shapes alone do not show it: 4 heads fit like 8. Weights that have a row for each id of a vocabulary are transferred to
another vocabulary by their rows.
"""

import dataclasses
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.checkpoint import ARCHITECTURE, VOCABULARIES, Checkpoint
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError, first_few
from t2t.hparams.base import HParams
from t2t.text.label import LabelEncoder
from t2t.text.vocabulary_files import VocabularyFile

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TransferReport:
    """How the weights of a checkpoint match the variables of a model, by path and shape."""

    taken: tuple[str, ...]
    """Paths that both have with the same shape."""
    missing: tuple[str, ...]
    """Variables of the model without weights in the checkpoint."""
    unused: tuple[str, ...]
    """Weights without a variable in the model."""
    mismatched: Mapping[str, tuple[Shape, Shape]]
    """Path that both have -> (shape of the weights, shape of the variable), which differ."""

    @property
    def is_exact(self) -> bool:
        """Whether weights and variables have the same paths and shapes."""
        return not (self.missing or self.unused or self.mismatched)

    def __str__(self) -> str:
        total = len(self.taken) + len(self.missing) + len(self.mismatched)
        return "; ".join([f"{len(self.taken)} of {total} variables taken", *self.differences()])

    def differences(self) -> list[str]:
        """Returns a text for each kind of mismatch, naming the first few."""
        shapes = [f"{path} ({found} there, {wanted} here)" for path, (found, wanted) in self.mismatched.items()]
        kinds = (
            ("of another shape", shapes),
            ("missing from the checkpoint", self.missing),
            ("in the checkpoint only", self.unused),
        )
        return [f"{len(names)} {kind}: {first_few(names, ', ')}" for kind, names in kinds if names]


def match(weights: Mapping[str, Any], variables: Mapping[str, Shape]) -> TransferReport:
    """Compares arrays by variable path with the shapes of a model's variables by path."""
    found = {path: tuple(array.shape) for path, array in weights.items()}
    wanted = {path: tuple(shape) for path, shape in variables.items()}
    both = [path for path in wanted if path in found]
    return TransferReport(
        taken=tuple(path for path in both if found[path] == wanted[path]),
        missing=tuple(path for path in wanted if path not in found),
        unused=tuple(path for path in found if path not in wanted),
        mismatched={path: (found[path], wanted[path]) for path in both if found[path] != wanted[path]},
    )


def require_exact(weights: Mapping[str, Any], variables: Mapping[str, Shape], source: str) -> None:
    """Requires that all weights match, for resuming and decoding; `source` names the checkpoint in messages.

    Raises:
        UserError: paths or shapes differ; the message says which.
    """
    report = match(weights, variables)
    if not report.is_exact:
        raise UserError(
            f"{source} does not fit the model: {'; '.join(report.differences())}",
            "use the model, hparams and vocabulary it was trained with, or start a new run from it with "
            "--warm_start_from",
        )


def require_some(weights: Mapping[str, Any], variables: Mapping[str, Shape], source: str) -> TransferReport:
    """Requires that some weights match, for a warm start; `source` names the checkpoint in messages.

    Raises:
        UserError: no weight has the path and shape of a variable.
    """
    report = match(weights, variables)
    if not report.taken:
        raise UserError(
            f"{source}: none of its weights fits the model: {'; '.join(report.differences())}",
            "choose a checkpoint of a model of this kind and size, or leave it out",
        )
    return report


@dataclasses.dataclass(frozen=True)
class RowTransfer:
    """Which rows to copy from weights of the source vocabulary ("there") to weights of the new one ("here")."""

    pairs: np.ndarray
    """(N, 2) int64: the ids of a shared piece, there and here."""
    there: int
    """Size of the source vocabulary."""
    here: int
    """Size of the new vocabulary."""

    def transfer_rows(self, path: str, theirs: np.ndarray, ours: np.ndarray) -> np.ndarray | None:
        """Returns `ours` with the rows of shared pieces copied from `theirs`; None if their shapes do not correspond.

        They correspond if the vocabulary axis has `there` ids in `theirs` and `here` ids in `ours`, and all other axes
        have equal sizes.
        """
        axis = vocabulary_axis(path, ours.ndim)
        there, here = np.moveaxis(theirs, axis, 0), np.moveaxis(ours.copy(), axis, 0)
        if (len(there), len(here)) != (self.there, self.here) or there.shape[1:] != here.shape[1:]:
            return None
        here[self.pairs[:, 1]] = there[self.pairs[:, 0]]
        return np.moveaxis(here, 0, axis)


def vocabulary_axis(path: str, rank: int) -> int:
    """Returns the axis on which a weight has an entry for each id: the last of a kernel, the first of all else."""
    return rank - 1 if path.endswith("/kernel") else 0


def architecture_state(model: str, hparams: HParams) -> dict[str, Any]:
    """Returns, as an entry of a checkpoint's state, all that determines what its weights compute: model and hparams."""
    values = hparams.to_dict()["model"]
    kept = {name: value for name, value in values.items() if not hparams.field_of(name).metadata["only_trains"]}
    return {ARCHITECTURE: {"model": model} | kept}


def check_same_architecture(checkpoint: Checkpoint, model: str, hparams: HParams, record: Path) -> None:
    """Checks that a checkpoint's weights are loaded into the architecture that they were trained in.

    Entries in only one of them came with a later version and are not compared; the first checkpoints have none.

    Raises:
        UserError: the architecture differs; the message names `record`, the file that describes it.
    """
    differing = architecture_differences(checkpoint, architecture_state(model, hparams)[ARCHITECTURE])
    if differing:
        raise UserError(
            f"checkpoint {checkpoint.folder} was not trained as {record} says: {'; '.join(differing)}; its weights "
            "would answer wrongly",
            f"put the {record.name} back that belongs to it, or take another checkpoint",
        )


def check_same_meaning(checkpoint: Checkpoint, hparams: HParams, unread: Collection[str], requested: str) -> bool:
    """Checks that the weights of a checkpoint compute in a new run what they computed where they were trained.

    Hparams with `only_shapes` may differ, see `param`: they change names or shapes of weights, and such weights are not
    loaded. An hparam that the checkpoint lacks was added by a later version; its default computes the same as before.

    Args:
        checkpoint: it has been read from its folder; the weights are not needed.
        hparams: of the new run.
        unread: those that nothing reads in the new run.
        requested: the warm start as the user requested it, with which the error begins.

    Returns:
        whether it could be checked: the first checkpoints do not name their hparams, but the run that they lie in does.

    Raises:
        UserError: other hparams give the weights another meaning.
    """
    theirs = checkpoint.state.get(ARCHITECTURE) or _recorded(checkpoint)
    own = architecture_state("", hparams)[ARCHITECTURE]
    # of a model of another class, only weights of the same names are taken
    compared = [hparams.field_of(name) for name in own if name not in ("model", *unread)] if theirs else []
    differing = []
    for field in compared:
        there, free = theirs.get(field.name, field.default), field.metadata["only_shapes"]
        if _plain(there) != _plain(own[field.name]) and not (there in free if isinstance(free, tuple) else free):
            differing.append((f"{field.name}={_plain(there)}", f"{field.name}={_plain(own[field.name])}"))
    if differing:
        there, here = map(", ".join, zip(*differing, strict=True))
        raise UserError(
            f"{requested}: checkpoint {checkpoint.name} was trained with {there}, and this run has {here}, with which "
            "its weights compute something else",
            "give its values in --hparams, or no --hparams_set to take those of its run",
        )
    return bool(theirs)


def _recorded(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns the hparams of the network in the record of the run in which a checkpoint lies, if it lies in one."""
    assert checkpoint.folder is not None, "it has been read from its folder"
    run = checkpoint.folder.resolve().parent.parent
    return RunDir.open(run).record.hparams.get("model", {}) if RunDir.exists(run) else {}


def architecture_differences(checkpoint: Checkpoint, architecture: dict[str, Any]) -> list[str]:
    """Returns what differs between a checkpoint's architecture and an entry of `architecture_state`."""
    theirs = checkpoint.state.get(ARCHITECTURE, {})
    return [
        f"{name}={_plain(theirs[name])} there, {name}={_plain(value)} here"
        for name, value in architecture.items()
        if name in theirs and _plain(theirs[name]) != _plain(value)
    ]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


log = logging.getLogger("t2t")


def vocabularies_state(vocabularies: Mapping[str, VocabularyFile]) -> dict[str, Any]:
    """Returns, as an entry of a checkpoint's state, the kind, size and fingerprint of each feature's vocabulary.

    With it, a checkpoint can be checked even if it was copied out of its run.
    """
    return {VOCABULARIES: {name: [entry.kind, entry.size, entry.fingerprint] for name, entry in vocabularies.items()}}


@dataclasses.dataclass(frozen=True)
class VocabularyComparison:
    """How the vocabularies of a checkpoint differ from a run's own."""

    where: str
    """Source of its vocabularies, the run that it lies in or the checkpoint; empty if they are unknown."""
    differing: Mapping[str, str]
    """Feature -> description of the two vocabularies, where they differ."""


def compare_vocabularies(
    checkpoint: Checkpoint, own: Mapping[str, VocabularyFile], shared_modalities: bool
) -> VocabularyComparison:
    """Compares the vocabularies of a checkpoint, and of the run in which it lies, with a run's own.

    A feature that only one of them has, or that is text in one and a class in the other, is no difference: no weight of
    it is in both. The checkpoint must have been read from a folder, which may be `<run>/checkpoints/<name>`.
    `shared_modalities` is the hparam of the run, see `counterparts`.
    """
    known: dict[str, dict[str, list]] = {}
    assert checkpoint.folder is not None, "it has been read from its folder"
    run = checkpoint.folder.resolve().parent.parent
    if RunDir.exists(run):
        known[f"the run in {run}"] = vocabularies_state(RunDir.open(run).record.vocabularies)[VOCABULARIES]
    if VOCABULARIES in checkpoint.state:
        known[f"checkpoint {checkpoint.folder}"] = checkpoint.state[VOCABULARIES]
    ours = vocabularies_state(own)[VOCABULARIES]
    for where, theirs in known.items():
        pairs = {
            name: (theirs[there], ours[name])
            for name, there in counterparts(ours, theirs, checkpoint.weights, shared_modalities).items()
        }
        differing = {
            name: f"of {name} {_format_entry(there)} there, {_format_entry(here)} here"
            for name, (there, here) in pairs.items()
            if there != here and _is_class(there) == _is_class(here)
        }
        if differing:
            return VocabularyComparison(where, differing)
    return VocabularyComparison(next(iter(known), ""), {})


def counterparts(
    ours: Collection[str], theirs: Collection[str], their_weights: Collection[str], shared_modalities: bool
) -> dict[str, str]:
    """Returns our feature -> their feature whose weights have the same paths, where there is one.

    The weights of a problem of a mixture lie at paths of its own, but with `shared_modalities` at those of a model of a
    single problem. Then names differ in the problem: `a.inputs` is the counterpart of `inputs`, and of `b.inputs`.

    Args:
        ours: names of a run's features with vocabularies.
        theirs: those of a checkpoint.
        their_weights: paths of the checkpoint's weights.
        shared_modalities: the hparam of the run.
    """
    names = {}
    for name in theirs:
        problem, _, feature = name.rpartition(".")
        if not problem or not any(f"/{problem}/" in path for path in their_weights):
            names[feature] = name
    found = {}
    for name in ours:
        problem, _, feature = name.rpartition(".")
        if name in theirs:
            found[name] = name
        elif feature in names and (shared_modalities or not problem):
            found[name] = names[feature]
    return found


def check_same_vocabularies(
    checkpoint: Checkpoint,
    own: Mapping[str, VocabularyFile],
    shared_modalities: bool,
    user: Path,
    requested: str,
    remedy: str = "",
) -> None:
    """Checks that a checkpoint was trained with a run's `own` vocabularies; warns if its vocabularies are unknown.

    `shared_modalities` is the hparam of the run. For the message, `user` is the folder of the run, `asked` the user's
    request, e.g. `--checkpoint=/runs/base`, and `remedy` a further remedy.

    Raises:
        UserError: a vocabulary differs.
    """
    found = compare_vocabularies(checkpoint, own, shared_modalities)
    if not found.where:
        log.warning("%s: no run and no state tells of its vocabulary, which cannot be checked", requested)
    if found.differing:
        differing = first_few(list(found.differing.values()))
        raise UserError(
            f"{requested}: {found.where} has another vocabulary than the run in {user}: {differing}; the same ids "
            "would mean other words",
            f"take a checkpoint of the same vocabulary{remedy}",
        )


def _is_class(entry: list) -> bool:
    return bool(entry[0] == LabelEncoder.kind)


def _format_entry(entry: list) -> str:
    kind, size, fingerprint = entry
    return f"{kind} of {size} ids, fingerprint {fingerprint[:12]}"
