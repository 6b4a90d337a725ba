"""Where the weights of a training run come from: its own latest checkpoint, another run's, or chance."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t.checkpoints.store import CheckpointStore
from t2t.checkpoints.transfer import require_some
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.run_dir import RunDir
from t2t.runs.vocabularies import check_same_vocabularies
from t2t.text.files import VocabularyFile
from t2t.training.step import UpdateStep
from t2t.training.weights import assign_model, restore

log = logging.getLogger("t2t")


def restore_latest(step: UpdateStep, store: CheckpointStore, seed: int) -> tuple[int, dict[str, Any]]:
    """Puts back what training had changed; returns the number of its update and the state of its data.

    Raises:
        UserError: the run was begun with another seed, or the checkpoint does not fit.
    """
    checkpoint = store.load()
    begun_with = checkpoint.state.get("seed")
    if begun_with != seed:
        raise UserError(
            f"--random_seed={seed}: the run in {store.folder.parent} was begun with {begun_with}; "
            f"go on with that seed or use another --output_dir"
        )
    restore(step, checkpoint.model, checkpoint.optimizer, checkpoint.ema, f"checkpoint {checkpoint.folder}")
    return checkpoint.step, checkpoint.state["data"]


def warm_start(step: UpdateStep, source: str, vocabularies: Mapping[str, VocabularyFile]) -> dict[str, Any]:
    """Gives a new run the weights of a checkpoint or run, where they have a place; returns what the record says of it.

    Raises:
        UserError: there is no such checkpoint, it is of other vocabularies, or nothing of it fits.
    """
    asked = f"--warm_start_from={source}"
    store = CheckpointStore(RunDir.open(source).checkpoints_folder if RunDir.exists(source) else Path(source))
    checkpoint = store.load_model("latest" if RunDir.exists(source) else source)
    check_same_vocabularies(checkpoint.folder, vocabularies, asked)
    report = require_some(checkpoint.weights, {v.path: tuple(v.shape) for v in step.model.variables}, asked)
    assign_model(step.model, {name: checkpoint.weights[name] for name in report.taken})
    for mean, variable in zip(step.ema, step.model.trainable_variables, strict=False):
        mean.assign(variable.value)
    log.info("warm start from %s (update %d): %s", checkpoint.folder, checkpoint.step, report)
    return {"from": _absolute(source), "step": checkpoint.step}


def check_same_start(run: RunDir, asked: str) -> None:
    """Demands that a resumed run is not asked to begin with other weights than it did.

    Raises:
        UserError: it is.
    """
    begun = run.record.warm_start.get("from", "")
    if asked and _absolute(asked) != begun:
        raise UserError(
            f"--warm_start_from={asked}: the run in {run.path} began {f'from {begun}' if begun else 'without one'}; "
            f"leave the flag out to go on with it, or use another --output_dir"
        )


def warn_of_another_end(run: RunDir, hparams: HParams) -> None:
    """Warns where another number of updates changes the learning rates of a schedule that falls to the end."""
    before, schedule = run.record.hparams["train"]["train_steps"], hparams.learning_rate_schedule
    if schedule in ("linear", "cosine") and before != hparams.train_steps:
        log.warning(
            "train_steps was %d and is %d now: the %s schedule falls to the new end, so that the learning rate jumps",
            before, hparams.train_steps, schedule,
        )  # fmt: skip


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())
