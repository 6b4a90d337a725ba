"""Checks that weights are used with the vocabularies they were trained with."""

import dataclasses
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import VOCABULARIES, Checkpoint
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError, first_few
from t2t.text.label import LabelEncoder
from t2t.text.vocabulary_files import VocabularyFile

log = logging.getLogger("t2t")


def to_state(vocabularies: Mapping[str, VocabularyFile]) -> dict[str, Any]:
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


def compare(checkpoint: Checkpoint, own: Mapping[str, VocabularyFile], shared_modalities: bool) -> VocabularyComparison:
    """Compares the vocabularies of a checkpoint, and of the run in which it lies, with a run's own.

    A feature that only one of them has, or that is text in one and a class in the other, is no difference: no weight of
    it is in both. The checkpoint must have been read from a folder, which may be `<run>/checkpoints/<name>`.
    `shared_modalities` is the hparam of the run, see `counterparts`.
    """
    known: dict[str, dict[str, list]] = {}
    assert checkpoint.folder is not None, "it has been read from its folder"
    run = checkpoint.folder.resolve().parent.parent
    if RunDir.exists(run):
        known[f"the run in {run}"] = to_state(RunDir.open(run).record.vocabularies)[VOCABULARIES]
    if VOCABULARIES in checkpoint.state:
        known[f"checkpoint {checkpoint.folder}"] = checkpoint.state[VOCABULARIES]
    ours = to_state(own)[VOCABULARIES]
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
    asked: str,
    remedy: str = "",
) -> None:
    """Checks that a checkpoint was trained with a run's `own` vocabularies; warns if its vocabularies are unknown.

    `shared_modalities` is the hparam of the run. For the message, `user` is the folder of the run, `asked` the user's
    request, e.g. `--checkpoint=/runs/base`, and `remedy` a further remedy.

    Raises:
        UserError: a vocabulary differs.
    """
    found = compare(checkpoint, own, shared_modalities)
    if not found.where:
        log.warning("%s: no run and no state tells of its vocabulary, which cannot be checked", asked)
    if found.differing:
        differing = first_few(list(found.differing.values()))
        raise UserError(
            f"{asked}: {found.where} has another vocabulary than the run in {user}: {differing}; the same ids would "
            f"mean other words; take a checkpoint of the same vocabulary{remedy}"
        )


def _is_class(entry: list) -> bool:
    return bool(entry[0] == LabelEncoder.kind)


def _format_entry(entry: list) -> str:
    kind, size, fingerprint = entry
    return f"{kind} of {size} ids, fingerprint {fingerprint[:12]}"
