"""The mean of several checkpoints' weights, variable by variable, with one checkpoint in memory at a time.

Averaging the last checkpoints of a run is how the Transformer's results were obtained (Vaswani et al. 2017, section
6.1: the last 5 of the base model, the last 20 of the big one). Variables are matched by path, never by position.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.checkpoint import ARCHITECTURE, VOCABULARIES
from t2t.checkpoints.store import AVERAGED, LATEST, CheckpointStore
from t2t.errors import UserError, first_few

log = logging.getLogger("t2t")


def average(checkpoints: Iterable[tuple[str, Mapping[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    """Returns the mean of each variable, summed in float64 and given the type that the variable has.

    Integers and booleans (counters, seeds) have no meaningful mean and are the last checkpoint's. `checkpoints` are
    pairs, read once: the name in messages, and the weights by variable path.

    Raises:
        UserError: no checkpoint at all, two that differ in the names, shapes or types of their variables, or one that
            holds NaN or infinity.
    """
    first = ""
    kinds: dict[str, tuple] = {}
    totals: dict[str, np.ndarray] = {}
    count = 0
    for name, weights in checkpoints:
        if not count:
            first, kinds = name, _kinds(weights)
        else:
            _require_same(first, kinds, name, _kinds(weights))
        for path, array in weights.items():
            if not _has_mean(array):
                totals[path] = np.array(array)
                continue
            values = array.astype(np.float64)
            if not np.isfinite(values).all():
                raise UserError(f"cannot average {name}: {path} holds NaN or infinity; leave this checkpoint out")
            totals[path] = totals[path] + values if count else values
        count += 1
    if not count:
        raise UserError("no checkpoint to average: give at least one step")
    return {
        path: (total / count).astype(kinds[path][1]) if _has_mean(total) else total for path, total in totals.items()
    }


def last_steps(store: CheckpointStore, count: int) -> list[int]:
    """Returns the steps of the last `count` checkpoints, oldest first; all steps, with a warning, if there are fewer.

    Raises:
        UserError: `count` is not positive, there is no checkpoint, or there is one and more were asked for.
    """
    steps = store.steps()
    if count < 1:
        raise UserError(f"average the last {count} checkpoints: give a number of at least 1")
    found = f"{store.folder} holds {len(steps)} ({', '.join(map(str, steps)) or 'none'})"
    if not steps:
        raise UserError(f"average the last {count} checkpoints: {found}; train first")
    if len(steps) == 1 < count:
        raise UserError(
            f"average the last {count} checkpoints: {found}, and a mean takes at least 2; decode with "
            f"--checkpoint={steps[0]}, or train on with a larger --keep_checkpoint_max"
        )
    if count > len(steps):
        log.warning("average the last %d checkpoints: %s; averaging these", count, found)
    return steps[-count:]


def average_checkpoints(store: CheckpointStore, names: Sequence[int | str], result: str = AVERAGED) -> Path:
    """Saves the mean of some checkpoints' weights as a named checkpoint and returns its folder.

    The weights are those that each checkpoint decodes with: the moving average where the run keeps one. The result has
    their largest step; its state has `averaged_steps`, vocabularies and architecture. `names` are steps, or other names
    that `CheckpointStore.find` knows.

    Raises:
        UserError: a checkpoint is missing, damaged, given twice, or does not go with the others.
        MachineError: the result cannot be written.
    """
    folders = _distinct_folders(store, names)
    carried: dict[str, Any] = {}
    steps: list[int] = []

    def read(name: int | str) -> tuple[str, Mapping[str, np.ndarray]]:
        # By its folder, `latest` is this checkpoint or an error; by its name, a damaged one is replaced by another.
        checkpoint = store.load_model(folders[name].name if name == LATEST else name)
        steps.append(checkpoint.step)
        carried.update({key: checkpoint.state[key] for key in (VOCABULARIES, ARCHITECTURE) if key in checkpoint.state})
        return f"step {name}" if isinstance(name, int) else f"checkpoint {name}", checkpoint.weights

    weights = average(map(read, names))
    log.info("averaged %d variables over %s", len(weights), ", ".join(map(str, names)))
    return store.save_named(result, max(steps), model=weights, state={"averaged_steps": steps, **carried})


def _distinct_folders(store: CheckpointStore, names: Sequence[int | str]) -> dict[int | str, Path]:
    folders: dict[int | str, Path] = {}
    for name in names:
        folder = store.find(name)
        if folder.parent != store.folder:
            raise UserError(f"checkpoint {name!r}: {folder} is not in {store.folder}; give checkpoints of one run")
        for other, found in folders.items():
            if found == folder:
                raise UserError(f"checkpoints {other} and {name} are the same, {folder}; name each once")
        folders[name] = folder
    return folders


def _has_mean(array: np.ndarray) -> bool:
    return array.dtype.kind not in "iub"


def _kinds(weights: Mapping[str, np.ndarray]) -> dict[str, tuple]:
    return {path: (array.shape, array.dtype) for path, array in weights.items()}


def _require_same(first: str, wanted: dict[str, tuple], name: str, found: dict[str, tuple]) -> None:
    wrong = [f"{path} is only in {first}" for path in sorted(wanted.keys() - found.keys())]
    wrong += [f"{path} is only in {name}" for path in sorted(found.keys() - wanted.keys())]
    for path in sorted(wanted.keys() & found.keys()):
        if wanted[path] != found[path]:
            (shape, dtype), (other_shape, other_dtype) = wanted[path], found[path]
            wrong.append(f"{path} is {shape} {dtype} in {first} and {other_shape} {other_dtype} in {name}")
    if wrong:
        raise UserError(
            f"cannot average {first} and {name}: {first_few(wrong)}; only checkpoints of one model can be averaged"
        )
