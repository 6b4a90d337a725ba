"""The mean of several checkpoints' weights, variable by variable, with one checkpoint in memory at a time.

Averaging the last checkpoints of a run is how the Transformer's results were obtained (Vaswani et al. 2017, section
6.1: the last 5 of the base model, the last 20 of the big one). Variables are matched by path, never by position.
"""

import dataclasses
import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.checkpoint import ARCHITECTURE, VOCABULARIES, Checkpoint
from t2t.checkpoints.layout import AVERAGED, BEST, LATEST
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError, first_few
from t2t.files.paths import check_outside_zoo

AVERAGED_BEST = f"{AVERAGED}-best"
"""Name of the mean of the best checkpoints that training saves at its end."""
_BEST_COUNT = re.compile(rf"{BEST}:([0-9]{{1,9}})")

log = logging.getLogger("t2t")


def average(checkpoints: Iterable[tuple[str, Mapping[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    """Returns the mean of each variable, summed in float64, in the variable's own type.

    Integers and booleans (counters, seeds), which no model here has, have no meaningful mean and are taken from the
    checkpoint that comes last: the newest of `last_steps`, the least good of `best_steps`. `checkpoints` is iterated
    once and yields (name for messages, weights by variable path).

    Raises:
        UserError: no checkpoint, two with different names, shapes or types of variables, or one with NaN or infinity.
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
                raise UserError(f"cannot average {name}: {path} holds NaN or infinity", "leave this checkpoint out")
            totals[path] = totals[path] + values if count else values
        count += 1
    if not count:
        raise UserError("no checkpoint to average", "give at least one step")
    return {
        path: (total / count).astype(kinds[path][1]) if _has_mean(total) else total for path, total in totals.items()
    }


def last_steps(store: CheckpointStore, count: int) -> list[int]:
    """Returns the steps of the last `count` checkpoints, oldest first; all steps, with a warning, if there are fewer.

    Raises:
        UserError: `count` is not positive, there is no checkpoint, or there is only one and `count` is larger.
    """
    _require_positive(f"--n={count}", count)
    cure = "train on with a larger --keep_checkpoint_max"
    return _check_count(f"last {count}", count, store.steps(), f"{store.folder} holds", cure)[-count:]


def best_steps(store: CheckpointStore, count: int, warns: bool = True) -> list[int]:
    """Returns the steps of the `count` best checkpoints, best first; raises and, if `warns`, warns as `last_steps`."""
    _require_positive(f"best:{count}", count)
    best = store.best()
    steps = [one.step for one in store.ranking() if store.has(one.step)] or ([best.step] if best else [])
    cure = f"train with --keep_best_checkpoints={max(count, 2)}"
    return _check_count(f"best {count}", count, steps, f"{store.folder} ranks", cure, warns)[:count]


def _require_positive(given: str, count: int) -> None:
    if count < 1:
        raise UserError(f"{given}: it is the number of checkpoints to average", "give at least 1")


def _check_count(requested: str, count: int, steps: list[int], has: str, cure: str, warns: bool = True) -> list[int]:
    """Returns `steps` after checking their number; `requested`, `has` and `cure` are parts of the message."""
    found = f"{has} {len(steps)} ({', '.join(map(str, steps)) or 'none'})"
    if not steps:
        raise UserError(f"average the {requested} checkpoints: {found}", "train first")
    if len(steps) == 1 < count:
        raise UserError(
            f"average the {requested} checkpoints: {found}, and a mean takes at least 2",
            f"decode with --checkpoint={steps[0]}, or {cure}",
        )
    if warns and count > len(steps):
        log.warning("average the %s checkpoints: %s; averaging these", requested, found)
    return steps


def count_of_best(which: int | str) -> int | None:
    """Returns how many of the best checkpoints a name such as `best:5` asks for; None for any other name."""
    match = _BEST_COUNT.fullmatch(str(which))
    return int(match[1]) if match else None


def load_for_decoding(store: CheckpointStore, which: int | str) -> Checkpoint:
    """Reads the weights to decode with, see `CheckpointStore.load_model`; for `best:5`, computes the mean in memory."""
    count = count_of_best(which)
    if count is None:
        return store.load_model(which)
    return dataclasses.replace(mean_checkpoint(store, best_steps(store, count)), folder=store.folder / str(which))


def decoded_folders(store: CheckpointStore, which: int | str) -> list[Path]:
    """Returns the folders of the checkpoints that `load_for_decoding` reads; raises UserError if there are none."""
    count = count_of_best(which)
    return [store.find(one) for one in ([which] if count is None else best_steps(store, count, warns=False))]


def average_checkpoints(store: CheckpointStore, names: Sequence[int | str], result: str = AVERAGED) -> Path:
    """Saves the mean of some checkpoints, see `mean_checkpoint`, as a named checkpoint and returns its folder.

    Raises:
        UserError: a checkpoint is missing, damaged, given twice, or does not match the others; or it is in a zoo.
        MachineError: the result cannot be written.
    """
    check_outside_zoo(store.folder.parent, "output_dir")
    mean = mean_checkpoint(store, names)
    return store.save_named(result, mean.step, model=mean.model, state=mean.state)


def mean_checkpoint(store: CheckpointStore, names: Sequence[int | str]) -> Checkpoint:
    """Returns the mean of some checkpoints' weights.

    The weights are those that each checkpoint decodes with: the moving average if the run keeps one. The result has
    their largest step; its state has `averaged_steps`, vocabularies and architecture. `names` are steps, or other names
    that `CheckpointStore.find` accepts.

    Raises:
        UserError: a checkpoint is missing, damaged, given twice, or does not match the others.
    """
    folders = _distinct_folders(store, names)
    carried: dict[str, Any] = {}
    read_ones: list[tuple[int, str]] = []

    def read(name: int | str) -> tuple[str, Mapping[str, np.ndarray]]:
        # Loading `latest` by that name could replace a damaged checkpoint by another; loading its folder cannot.
        checkpoint = store.load_model(folders[name].name if name == LATEST else name)
        read_ones.append((checkpoint.step, checkpoint.fingerprint))
        carried.update({key: checkpoint.state[key] for key in (VOCABULARIES, ARCHITECTURE) if key in checkpoint.state})
        return f"step {name}" if isinstance(name, int) else f"checkpoint {name}", checkpoint.weights

    weights = average(map(read, names))
    steps, prints = zip(*read_ones, strict=True)
    log.info("averaged %d variables over %s", len(weights), ", ".join(map(str, names)))
    fingerprint = hashlib.sha256("+".join(prints).encode()).hexdigest()
    return Checkpoint(max(steps), weights, state={"averaged_steps": list(steps), **carried}, fingerprint=fingerprint)


def _distinct_folders(store: CheckpointStore, names: Sequence[int | str]) -> dict[int | str, Path]:
    folders: dict[int | str, Path] = {}
    for name in names:
        folder = store.find(name)
        if folder.parent.resolve() != store.folder.resolve():
            raise UserError(f"checkpoint {name!r}: {folder} is not in {store.folder}", "give checkpoints of one run")
        for other, found in folders.items():
            if found.resolve() == folder.resolve():
                raise UserError(f"checkpoints {other} and {name} are the same, {folder}", "name each once")
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
            f"cannot average {first} and {name}: {first_few(wrong)}", "only checkpoints of one model can be averaged"
        )
