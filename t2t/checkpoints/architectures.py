"""Checks that weights are used in the architecture they were trained in. Shapes do not show it: 4 heads fit like 8."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import ARCHITECTURE, Checkpoint
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.hparams.base import HParams


def to_state(model: str, hparams: HParams) -> dict[str, Any]:
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
    differing = differences(checkpoint, to_state(model, hparams)[ARCHITECTURE])
    if differing:
        raise UserError(
            f"checkpoint {checkpoint.folder} was not trained as {record} says: {'; '.join(differing)}; its weights "
            f"would answer wrongly; put the {record.name} back that belongs to it, or take another checkpoint"
        )


def check_same_meaning(checkpoint: Checkpoint, hparams: HParams, unread: Collection[str], asked: str) -> bool:
    """Checks that the weights of a checkpoint compute in a new run what they computed where they were trained.

    Hparams with `only_shapes` may differ, see `param`: they change names or shapes of weights, and such weights are not
    loaded. An hparam that the checkpoint lacks was added by a later version; its default computes the same as before.

    Args:
        checkpoint: it has been read from its folder; the weights are not needed.
        hparams: of the new run.
        unread: those that nothing reads in the new run.
        asked: the warm start as the user requested it, with which the error begins.

    Returns:
        whether it could be checked: the first checkpoints do not name their hparams, but the run that they lie in does.

    Raises:
        UserError: other hparams give the weights another meaning.
    """
    theirs = checkpoint.state.get(ARCHITECTURE) or _recorded(checkpoint)
    own = to_state("", hparams)[ARCHITECTURE]
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
            f"{asked}: checkpoint {checkpoint.name} was trained with {there}, and this run has {here}, with which its "
            f"weights compute something else; give its values in --hparams, or no --hparams_set to take those of its "
            f"run"
        )
    return bool(theirs)


def _recorded(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns the hparams of the network in the record of the run in which a checkpoint lies, if it lies in one."""
    assert checkpoint.folder is not None, "it has been read from its folder"
    run = checkpoint.folder.resolve().parent.parent
    return RunDir.open(run).record.hparams.get("model", {}) if RunDir.exists(run) else {}


def differences(checkpoint: Checkpoint, architecture: dict[str, Any]) -> list[str]:
    """Returns descriptions of the differences between a checkpoint's architecture and an entry of `to_state`."""
    theirs = checkpoint.state.get(ARCHITECTURE, {})
    return [
        f"{name}={_plain(theirs[name])} there, {name}={_plain(value)} here"
        for name, value in architecture.items()
        if name in theirs and _plain(theirs[name]) != _plain(value)
    ]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
