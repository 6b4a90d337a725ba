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
from t2t.checkpoints.store import AVERAGED, CheckpointStore
from t2t.errors import UserError

_SHOWN = 8

log = logging.getLogger("t2t")


def average(checkpoints: Iterable[tuple[str, Mapping[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    """Returns the mean of each variable, summed in float64 and given the type that the variable has.

    Integers and booleans (counters, seeds) have no meaningful mean and are the last checkpoint's.

    Args:
        checkpoints: pairs of what a checkpoint is called in messages and its weights by variable path; read once.

    Raises:
        UserError: no checkpoint at all, or two that differ in the names, shapes or types of their variables.
    """
    first = ""
    kinds: dict[str, tuple] = {}
    totals: dict[str, np.ndarray] = {}
    count = 0
    for name, weights in checkpoints:
        if not count:
            first, kinds = name, _kinds(weights)
        else:
            _demand_same(first, kinds, name, _kinds(weights))
        for path, array in weights.items():
            if not _has_mean(array):
                totals[path] = np.array(array)
            elif not count:
                totals[path] = array.astype(np.float64)
            else:
                totals[path] += array.astype(np.float64)
        count += 1
    if not count:
        raise UserError("no checkpoint to average: give at least one step")
    return {
        path: (total / count).astype(kinds[path][1]) if _has_mean(total) else total for path, total in totals.items()
    }


def last_steps(store: CheckpointStore, count: int) -> list[int]:
    """Returns the steps of the last `count` checkpoints, oldest first.

    Raises:
        UserError: there are not so many, or `count` is not positive.
    """
    steps = store.steps()
    if count < 1:
        raise UserError(f"average the last {count} checkpoints: give a number of at least 1")
    if count > len(steps):
        raise UserError(
            f"average the last {count} checkpoints: {store.folder} holds {len(steps)} "
            f"({', '.join(map(str, steps)) or 'none'}); ask for fewer, or train with a larger --keep_checkpoint_max"
        )
    return steps[-count:]


def average_checkpoints(store: CheckpointStore, steps: Sequence[int], name: str = AVERAGED) -> Path:
    """Saves the mean of some steps' weights as a named checkpoint and returns its folder.

    What is averaged is what each would decode with: the moving average of the weights where the run keeps one. The
    result has the step of the last of them, and in its state `averaged_steps`, their vocabularies and architecture.

    Raises:
        UserError: a checkpoint is missing, damaged, or does not go with the others.
        MachineError: the result cannot be written.
    """
    carried: dict[str, Any] = {}

    def read(step: int) -> tuple[str, Mapping[str, np.ndarray]]:
        checkpoint = store.load_model(step)
        carried.update({key: checkpoint.state[key] for key in (VOCABULARIES, ARCHITECTURE) if key in checkpoint.state})
        return f"step {step}", checkpoint.weights

    weights = average(map(read, steps))
    log.info("averaged %d variables over steps %s", len(weights), ", ".join(map(str, steps)))
    return store.save_named(name, max(steps), model=weights, state={"averaged_steps": list(steps), **carried})


def _has_mean(array: np.ndarray) -> bool:
    return array.dtype.kind not in "iub"


def _kinds(weights: Mapping[str, np.ndarray]) -> dict[str, tuple]:
    return {path: (array.shape, array.dtype) for path, array in weights.items()}


def _demand_same(first: str, wanted: dict[str, tuple], name: str, found: dict[str, tuple]) -> None:
    wrong = [f"{path} is only in {first}" for path in sorted(wanted.keys() - found.keys())]
    wrong += [f"{path} is only in {name}" for path in sorted(found.keys() - wanted.keys())]
    for path in sorted(wanted.keys() & found.keys()):
        if wanted[path] != found[path]:
            wrong.append(f"{path} is {_text(wanted[path])} in {first} and {_text(found[path])} in {name}")
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise UserError(
            f"cannot average {first} and {name}: {'; '.join(wrong[:_SHOWN])}{more}; "
            f"only checkpoints of one model can be averaged"
        )


def _text(kind: tuple) -> str:
    shape, dtype = kind
    return f"{shape} {dtype}"
