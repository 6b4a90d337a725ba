"""Checks that weights are used with the vocabularies they were trained with."""

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import VOCABULARIES, Checkpoint
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.text.label import LabelEncoder
from t2t.text.vocabulary_files import VocabularyFile

log = logging.getLogger("t2t")


def to_state(vocabularies: Mapping[str, VocabularyFile]) -> dict[str, Any]:
    """Returns, as an entry of a checkpoint's state, the kind, size and fingerprint of each feature's vocabulary.

    With it, a checkpoint can be checked even if it was copied out of its run.
    """
    return {VOCABULARIES: {name: [entry.kind, entry.size, entry.fingerprint] for name, entry in vocabularies.items()}}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How the vocabularies of a checkpoint differ from a run's own."""

    where: str
    """Source of its vocabularies, the run that it lies in or the checkpoint; empty if they are unknown."""
    differing: Mapping[str, str]
    """Feature -> description of the two vocabularies, where they differ."""


def compare(checkpoint: Checkpoint, own: Mapping[str, VocabularyFile]) -> Comparison:
    """Compares the vocabularies of a checkpoint, and of the run in which it lies, with a run's own.

    A feature that only one of them has, or that is text in one and a class in the other, is no difference: no weight of
    it is in both. The checkpoint must have been read from a folder, which may be `<run>/checkpoints/<name>`.
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
        differing = {
            name: f"of {name} {_format_entry(theirs[name])} there, {_format_entry(ours[name])} here"
            for name in ours
            if name in theirs and theirs[name] != ours[name] and _is_class(theirs[name]) == _is_class(ours[name])
        }
        if differing:
            return Comparison(where, differing)
    return Comparison(next(iter(known), ""), {})


def check_same_vocabularies(
    checkpoint: Checkpoint, own: Mapping[str, VocabularyFile], user: Path, asked: str, remedy: str = ""
) -> None:
    """Checks that a checkpoint was trained with a run's `own` vocabularies; warns if its vocabularies are unknown.

    For the message, `user` is the folder of the run, `asked` the user's request, e.g. `--checkpoint=/runs/base`, and
    `remedy` a further remedy.

    Raises:
        UserError: a vocabulary differs.
    """
    found = compare(checkpoint, own)
    if not found.where:
        log.warning("%s: no run and no state tells of its vocabulary, which cannot be checked", asked)
    if found.differing:
        raise UserError(
            f"{asked}: {found.where} has another vocabulary than the run in {user}: "
            f"{'; '.join(found.differing.values())}; the same ids would mean other words; take a checkpoint of the "
            f"same vocabulary{remedy}"
        )


def _is_class(entry: list) -> bool:
    return bool(entry[0] == LabelEncoder.kind)


def _format_entry(entry: list) -> str:
    kind, size, fingerprint = entry
    return f"{kind} of {size} ids, fingerprint {fingerprint[:12]}"
