"""Where the weights of a training run come from: its own latest checkpoint, another run's, or chance."""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import fingerprint_of
from t2t.checkpoints.store import LATEST, CheckpointStore
from t2t.checkpoints.transfer import require_some
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.run_dir import RunDir
from t2t.runs.vocabularies import check_same_vocabularies, compare
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


def warm_start(
    step: UpdateStep, source: str, vocabularies: Mapping[str, VocabularyFile], folder: Path, other_vocabulary: bool
) -> dict[str, Any]:
    """Gives a new run the weights of a checkpoint or run, where they have a place; returns what the record says of it.

    Args:
        step: its model and moving averages are changed.
        source: folder of the run or checkpoint.
        vocabularies: of the new run.
        folder: of the new run.
        other_vocabulary: whether the source may be of other vocabularies; what belongs to those then begins anew.

    Raises:
        UserError: there is no such checkpoint, it is of other vocabularies, or nothing of it fits.
    """
    asked = f"--warm_start_from={source}"
    store, which = _place_of(source)
    checkpoint = store.load_model(which)
    anew: list[str] = []
    if other_vocabulary:
        found = compare(checkpoint, vocabularies)
        anew = [name for name in vocabularies if name in found.differing or not found.where]
    else:
        remedy = ", or pass --warm_start_other_vocabulary to begin with the rest of its weights"
        check_same_vocabularies(checkpoint, vocabularies, folder, asked, remedy)
    left = step.model.vocabulary_weights(anew)
    weights = {path: array for path, array in checkpoint.weights.items() if path not in left}
    places = {v.path: tuple(v.shape) for v in step.model.variables if v.path not in left}
    report = require_some(weights, places, f"{asked}: checkpoint {checkpoint.name}")
    assign_model(step.model, {path: weights[path] for path in report.taken})
    for mean, variable in zip(step.ema, step.model.trainable_variables, strict=False):
        mean.assign(variable.value)
    log.info("warm start from %s (update %d): %s", checkpoint.folder, checkpoint.step, report)
    if left:
        log.info("begun anew for another vocabulary of %s: %s", ", ".join(anew), ", ".join(sorted(left)))
    return {"from": _absolute(source), "step": checkpoint.step, "fingerprint": checkpoint.fingerprint, "anew": anew}


def check_same_start(run: RunDir, asked: str) -> None:
    """Demands that a resumed run is not asked to begin with other weights than it did; says that they are not read.

    Raises:
        UserError: it is.
    """
    begun = run.record.warm_start
    if not asked:
        return
    if not begun or not (_absolute(asked) == begun["from"] or _has_fingerprint(asked, begun.get("fingerprint"))):
        what = f"from {begun['from']} (update {begun['step']})" if begun else "without one"
        raise UserError(
            f"--warm_start_from={asked}: the run in {run.path} began {what}; "
            f"leave the flag out to go on with it, or use another --output_dir"
        )
    log.info(
        "--warm_start_from=%s: the run in %s has begun with its update %d already; the flag is ignored",
        asked, run.path, begun["step"],
    )  # fmt: skip


def _place_of(source: str) -> tuple[CheckpointStore, str]:
    """Returns the store in which the folder of a run or checkpoint is looked for, and as what."""
    if RunDir.exists(source):
        return CheckpointStore(RunDir.open(source).checkpoints_folder), LATEST
    return CheckpointStore(Path(source)), source


def _has_fingerprint(source: str, fingerprint: str | None) -> bool:
    """Returns whether a folder holds the checkpoint of this fingerprint; records of the first runs have none."""
    with contextlib.suppress(UserError, OSError):
        store, which = _place_of(source)
        return fingerprint_of(store.find(which)) == fingerprint
    return False


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
