"""How a run starts: with the weights, and optionally the optimizer state, of another; or from its latest checkpoint."""

import contextlib
import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.adapters import AdapterBase, merge_base
from t2t.checkpoints.checkpoint import ARCHITECTURE, EMA, MODEL, OPTIMIZER, Checkpoint, fingerprint_of
from t2t.checkpoints.compatibility import (
    RowTransfer,
    TransferReport,
    architecture_differences,
    architecture_state,
    check_same_architecture,
    check_same_meaning,
    check_same_vocabularies,
    compare_vocabularies,
    counterparts,
    require_exact,
    require_some,
)
from t2t.checkpoints.run_dir import RECORD_FILE, RunDir, check_same_seed
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.files.paths import local_path, to_record
from t2t.hparams.base import HParams
from t2t.problems.base import declared_spec
from t2t.runs.config import RunConfig
from t2t.runs.resolving import ResolvedRun
from t2t.runs.run_checks import find_source
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import TextEncoder, shared_ids
from t2t.text.vocabulary_files import describe_encoders
from t2t.training.step import UpdateStep
from t2t.training.weights import assign_model, restore, slots_of_weights

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """Initial weights of a run, from a checkpoint."""

    checkpoint: Checkpoint
    report: TransferReport
    """On the weights with the same vocabulary."""
    reinitialized_features: tuple[str, ...]
    """Features with another vocabulary than the source's."""
    rows: Mapping[str, RowTransfer]
    """Path -> rows that were taken, for weights with another vocabulary."""
    reinitialized: tuple[str, ...]
    """Paths of weights with another vocabulary that took no rows."""
    optimizer_updates: int
    """Updates of the optimizer state that was taken; 0 for empty slots."""
    base: AdapterBase | None = None
    """The checkpoint as the base of the run's adapters; None if the weights themselves are trained."""

    def lines(self) -> list[str]:
        """Describes what was taken, left and reinitialized."""
        found = self.checkpoint
        lines = [f"warm start from {found.folder} (update {found.step}): {self.report}"]
        if self.rows:
            carried = (f"{path} ({len(moved.pairs):,} of {moved.here:,})" for path, moved in sorted(self.rows.items()))
            lines.append(f"rows of shared pieces taken over to another vocabulary: {', '.join(carried)}")
        if self.reinitialized:
            features = ", ".join(self.reinitialized_features)
            lines.append(f"reinitialized for another vocabulary of {features}: {', '.join(self.reinitialized)}")
        if self.optimizer_updates:
            lines.append(f"the optimizer continues after its {self.optimizer_updates:,} updates")
        return lines

    def record(self, source: str) -> dict[str, Any]:
        """Returns the entry for the run's record; `source` is the checkpoint as the user named it."""
        return {
            "from": to_record(local_path(source)),
            "step": self.checkpoint.step,
            "fingerprint": self.checkpoint.fingerprint,
            "anew": list(self.reinitialized_features),
            "optimizer_updates": self.optimizer_updates,
            "report": self.lines(),
        }


def check_start(resolved: ResolvedRun) -> None:
    """Checks a warm start as far as it is known before there is data: hours of generating it may follow.

    Raises:
        UserError: no such checkpoint, or hparams that give its weights another meaning.
    """
    config, problems = resolved.config, resolved.problems
    specs = tuple(spec for problem in problems if (spec := declared_spec(problem)) is not None)
    if not config.warm_start_from or len(specs) < len(problems) or resolved.resumed:
        return
    spec = specs[0] if len(specs) == 1 else ProblemSpec(name=config.problem, members=specs)
    store, which = find_source(config.warm_start_from)
    requested = f"--warm_start_from={config.warm_start_from}"
    _check_meaning(store.load(which, parts=()), resolved.model_class, resolved.hparams, spec, requested)


def _check_meaning(
    checkpoint: Checkpoint, model_class: type[Any], hparams: HParams, spec: ProblemSpec, requested: str
) -> bool:
    """Calls `check_same_meaning` with what the model reads."""
    unread = {*model_class.unread_hparams(spec)}
    if not any(one.shared_vocabulary for one in spec.members or [spec]):
        unread.add("shared_embedding")
    return check_same_meaning(checkpoint, hparams, unread, requested)


def warm_start(step: UpdateStep, config: RunConfig, encoders: Mapping[str, TextEncoder], folder: Path) -> WarmStart:
    """Copies those weights of a checkpoint or run that fit into a new run.

    Changes the model, the moving averages and, if `config` says so, the optimizer of `step`.

    Raises:
        UserError: no such checkpoint, different vocabularies, hparams that give its weights another meaning, no weight
            that fits, or another optimizer's state.
    """
    requested = f"--warm_start_from={config.warm_start_from}"
    store, which = find_source(config.warm_start_from)
    optimizer = (OPTIMIZER,) if config.warm_start_optimizer else ()
    checkpoint = merge_base(store.load(which, (MODEL, EMA, *optimizer)))
    vocabularies, is_shared = describe_encoders(encoders), step.model.hparams.shared_modalities
    reinitialized_features: tuple[str, ...] = ()
    if config.warm_start_other_vocabulary:
        found = compare_vocabularies(checkpoint, vocabularies, is_shared)
        reinitialized_features = tuple(name for name in vocabularies if name in found.differing or not found.where)
    else:
        remedy = ", or pass --warm_start_other_vocabulary to take the rows of the pieces that both have"
        check_same_vocabularies(checkpoint, vocabularies, is_shared, folder, requested, remedy)
    theirs, left = checkpoint.weights, step.model.vocabulary_weights(reinitialized_features)
    weights = {path: array for path, array in theirs.items() if path not in left}
    places = {v.path: tuple(v.shape) for v in step.model.variables if v.path not in left}
    report = require_some(weights, places, f"{requested}: checkpoint {checkpoint.name}")
    base = _base_of(step, checkpoint, report, requested) if step.adapters else None
    if not _check_meaning(checkpoint, type(step.model), step.model.hparams, step.model.spec, requested):
        log.warning("%s: checkpoint %s does not say with which hparams it was trained", requested, checkpoint.name)
    rows, carried = _select_rows(step, theirs, _row_transfers(step, checkpoint, encoders, reinitialized_features))
    slots: dict[str, tuple[Any, np.ndarray]] = {}
    updates = 0
    if config.warm_start_optimizer:
        slots, updates = _slots_of(step, slots_of_weights(step), checkpoint, report, rows, requested)
    assign_model(step.model, {path: weights[path] for path in report.taken} | carried)
    for mean, variable in zip(step.ema, step.trained, strict=False):
        mean.assign(variable.value)
    for variable, value in slots.values():
        variable.assign(value)
    if updates:
        step.optimizer.iterations.assign(updates)
        step.updates_before = updates
    reinitialized = tuple(sorted(left - set(rows)))
    return WarmStart(checkpoint, report, reinitialized_features, rows, reinitialized, updates, base)


def _base_of(step: UpdateStep, checkpoint: Checkpoint, report: TransferReport, requested: str) -> AdapterBase:
    """Returns a checkpoint as the base of a run's adapters.

    Raises:
        UserError: a weight of the model is not in it, or it was trained in a model that computes something else.
    """
    assert step.adapters is not None, "the run trains adapters"
    ours = architecture_state("", step.model.hparams)[ARCHITECTURE]
    ours.pop("model")  # the weights are compared instead
    if wrong := [*report.differences(), *architecture_differences(checkpoint, ours)]:
        raise UserError(
            f"{requested}: adapters (lora_rank={step.adapters.rank}) are added to all weights of a model, and "
            f"checkpoint {checkpoint.name} is of another: {'; '.join(wrong)}",
            "use the model, hparams and vocabulary that it was trained with",
        )
    return AdapterBase.from_checkpoint(checkpoint, step.adapters.scale)


def _row_transfers(
    step: UpdateStep,
    checkpoint: Checkpoint,
    encoders: Mapping[str, TextEncoder],
    reinitialized_features: tuple[str, ...],
) -> dict[str, RowTransfer]:
    """Returns, by path, the row transfers of weights whose vocabulary in the source is another and is known."""
    assert checkpoint.folder is not None, "it has been read from its folder"
    run = checkpoint.folder.resolve().parent.parent
    if not reinitialized_features or not RunDir.exists(run):
        return {}
    try:
        theirs = RunDir.open(run).encoders()
    except UserError as error:
        log.warning("%s; without it, no rows are taken over", error)
        return {}
    names = counterparts(encoders, theirs, checkpoint.weights, step.model.hparams.shared_modalities)
    before = {name: theirs[there] for name, there in names.items()}
    users = {name: step.model.vocabulary_weights([name]) for name in encoders}
    found = {}
    for path in set().union(*(users[name] for name in reinitialized_features)):
        of_path = [name for name in encoders if path in users[name]]
        # A table shared by features with separate tables in the source would get the rows of only one of them.
        known = {before[name].fingerprint for name in of_path if name in before}
        if len(known) != 1 or not before.keys() >= set(of_path):
            continue
        there, here = before[of_path[0]], encoders[of_path[0]]
        found[path] = RowTransfer(shared_ids(there, here), there.vocab_size, here.vocab_size)
    return found


def _select_rows(
    step: UpdateStep, theirs: Mapping[str, np.ndarray], transfers: Mapping[str, RowTransfer]
) -> tuple[dict[str, RowTransfer], dict[str, np.ndarray]]:
    """Returns the transfers that have rows, and the weights with these rows, by path."""
    ours = {v.path: np.asarray(v) for v in step.model.variables if v.path in transfers and v.path in theirs}
    moved = {path: transfers[path].transfer_rows(path, theirs[path], array) for path, array in ours.items()}
    carried = {path: array for path, array in moved.items() if array is not None and len(transfers[path].pairs)}
    return {path: transfers[path] for path in carried}, carried


def _slots_of(
    step: UpdateStep,
    own: Mapping[str, Mapping[str, Any]],
    checkpoint: Checkpoint,
    report: TransferReport,
    rows: Mapping[str, RowTransfer],
    requested: str,
) -> tuple[dict[str, tuple[Any, np.ndarray]], int]:
    """Returns name -> (slot, value) for the weights and rows that are taken, and the number of updates.

    `own` has the slots of the run's weights, see `slots_of_weights`.

    Raises:
        UserError: the checkpoint has no optimizer state, or another optimizer's.
    """
    theirs = checkpoint.optimizer or {}
    iterations = step.optimizer.iterations.path
    if iterations not in theirs:
        kinds = sorted({name.partition("/")[0] for name in theirs if "/" in name})
        raise UserError(
            f"{requested} --warm_start_optimizer: checkpoint {checkpoint.name} has the state of "
            f"{' '.join(kinds) or 'no'} optimizer, the run's is {step.optimizer.name}",
            "leave it out to begin with empty slots",
        )
    found: dict[str, tuple[Any, np.ndarray]] = {}
    for path, slots in own.items():
        for name, slot in slots.items():
            if name in theirs and path in report.taken:
                found[name] = slot, theirs[name]
            elif name in theirs and path in rows:
                moved = rows[path].transfer_rows(path, theirs[name], np.asarray(slot))
                if moved is not None:  # else it has no such rows, and starts empty
                    found[name] = slot, moved
    return found, int(theirs[iterations])


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
            f"checkpoint {checkpoint.folder} has no place in the data to resume from (found {place!r:.60})",
            "begin a new run with its weights by --warm_start_from",
        )
    return checkpoint.step, place, base


def check_same_start(run: RunDir, requested: str) -> None:
    """Raises UserError if the warm start `requested` is not that of the resumed run; else logs that it is ignored."""
    start = run.record.warm_start
    if not requested:
        return
    path = to_record(local_path(requested))
    if not start or not (path == start["from"] or _has_fingerprint(requested, start.get("fingerprint"))):
        what = f"from {start['from']} (update {start['step']})" if start else "without one"
        raise UserError(
            f"the run in {run.path} began {what}",
            "leave it out to resume the run, or use another --output_dir",
            option="warm_start_from",
            value=requested,
        )
    log.info(
        "--warm_start_from=%s: the run in %s has begun with its update %d already; the flag is ignored",
        requested, run.path, start["step"],
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
