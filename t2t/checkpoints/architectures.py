"""Checks that weights are used in the architecture they were trained in. Shapes do not show it: 4 heads fit like 8."""

from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import ARCHITECTURE, Checkpoint
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
