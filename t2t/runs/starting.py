"""Resumes a training run from its latest checkpoint, and checks that it is the same run."""

import contextlib
import logging
from typing import Any

from t2t.checkpoints.adapters import AdapterBase
from t2t.checkpoints.architectures import check_same_architecture
from t2t.checkpoints.checkpoint import fingerprint_of
from t2t.checkpoints.run_dir import RECORD_FILE, RunDir, check_same_seed
from t2t.checkpoints.store import CheckpointStore
from t2t.checkpoints.transfer import require_exact
from t2t.errors import UserError
from t2t.files.paths import local_path, to_record
from t2t.hparams.base import HParams
from t2t.runs.config import RunConfig
from t2t.runs.run_checks import find_source
from t2t.training.step import UpdateStep
from t2t.training.weights import assign_model, restore

log = logging.getLogger("t2t")


def restore_latest(
    step: UpdateStep, store: CheckpointStore, seed: int, model: str
) -> tuple[int, dict[str, Any], AdapterBase | None]:
    """Restores the latest checkpoint; returns its update, the state of the data and the base of its adapters, if any.

    Raises:
        UserError: the run was begun with another seed or `model` name, or the checkpoint or its base does not fit.
    """
    checkpoint = store.load()
    check_same_seed(store.folder.parent, checkpoint.state.get("seed"), seed)
    check_same_architecture(checkpoint, model, step.model.hparams, store.folder.parent / RECORD_FILE)
    base = AdapterBase.from_state(checkpoint.state)
    if base is not None:
        weights = base.load(checkpoint.folder)
        require_exact(weights, {v.path: tuple(v.shape) for v in step.model.variables}, f"checkpoint {base.path}")
        assign_model(step.model, weights)
    restore(step, checkpoint.model, checkpoint.optimizer, checkpoint.ema, f"checkpoint {checkpoint.folder}")
    place = checkpoint.state.get("data")
    if not isinstance(place, dict):
        raise UserError(
            f"checkpoint {checkpoint.folder} has no place in the data to resume from (found {place!r:.60}); begin a "
            f"new run with its weights by --warm_start_from"
        )
    return checkpoint.step, place, base


def check_same_start(run: RunDir, asked: str) -> None:
    """Raises UserError if the warm start `asked` is not the one of the resumed run; else logs that it is ignored."""
    begun = run.record.warm_start
    if not asked:
        return
    path = to_record(local_path(asked))
    if not begun or not (path == begun["from"] or _has_fingerprint(asked, begun.get("fingerprint"))):
        what = f"from {begun['from']} (update {begun['step']})" if begun else "without one"
        raise UserError(
            f"--warm_start_from={asked}: the run in {run.path} began {what}; "
            f"leave it out to resume the run, or use another --output_dir"
        )
    log.info(
        "--warm_start_from=%s: the run in %s has begun with its update %d already; the flag is ignored",
        asked, run.path, begun["step"],
    )  # fmt: skip


def _has_fingerprint(source: str, fingerprint: str | None) -> bool:
    """Returns whether a folder holds the checkpoint with this fingerprint; None, from old records, fits no folder."""
    with contextlib.suppress(UserError, OSError):
        store, which = find_source(source)
        return fingerprint_of(store.find(which)) == fingerprint
    return False


def log_settings(run: RunDir, config: RunConfig) -> None:
    """Logs which of its options a run keeps, if they are not the defaults, and which have changed."""
    before, now, defaults = run.record.settings, config.remembered(), RunConfig().remembered()
    kept = [f"--{name}={value}" for name, value in now.items() if before.get(name) == value != defaults[name]]
    changed = [
        f"--{name}={value} instead of --{name}={before[name]}"
        for name, value in now.items()
        if before.get(name, value) != value
    ]
    if found := [f"{', '.join(kept)} as before"] * bool(kept) + changed:
        log.info("settings of the run in %s: %s", run.path, "; ".join(found))


def warn_changed_train_steps(run: RunDir, hparams: HParams) -> None:
    """Warns if a changed number of updates changes the learning rates of the schedule."""
    before, schedule = run.record.hparams["train"]["train_steps"], hparams.learning_rate_schedule
    if schedule in ("linear", "cosine") and before != hparams.train_steps:
        log.warning(
            "train_steps was %d and is %d now: the %s schedule falls to the new end, so that the learning rate jumps",
            before, hparams.train_steps, schedule,
        )  # fmt: skip
