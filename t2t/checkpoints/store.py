"""The checkpoints of a run: those of steps, `step-00001500`, named ones such as `averaged`, and pointers to them.

A folder with a checkpoint's name is complete, see `t2t.checkpoints.layout`. The pointers are small files:
`latest.json`, and those of `t2t.checkpoints.layout`.
"""

import contextlib
import logging
import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.adapters import merge_base
from t2t.checkpoints.checkpoint import (
    CHECKSUM_FILE,
    EMA,
    MODEL,
    PARTS,
    Checkpoint,
    DamagedCheckpointError,
    fingerprint_of,
    is_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from t2t.checkpoints.layout import (
    AVERAGED,
    BEST,
    LATEST,
    LATEST_FILE,
    REPLACED,
    BestPointers,
    NamedFolders,
    Pointer,
    is_extra_name,
    is_name,
    step_name,
    step_of,
)
from t2t.errors import UserError
from t2t.files.atomic import LockedError, lock_beside, os_errors_as_machine_errors
from t2t.files.paths import local_path
from t2t.files.remote.mirror import exclusive, is_mirrored

_ATTEMPTS = 10
"""Attempts to look up and read a checkpoint while another process removes checkpoints."""
log = logging.getLogger("t2t")


class CheckpointStore(BestPointers):
    """The checkpoints in one folder, `<run>/checkpoints`. One process may save while any number load."""

    def __init__(self, folder: Path):
        super().__init__(local_path(folder))
        self._folders = NamedFolders(self.folder, is_name, CHECKSUM_FILE)
        self._latest = Pointer(self.folder / LATEST_FILE, {"step": int})

    # === Saving ===

    def save(
        self,
        step: int,
        *,
        model: Mapping[str, np.ndarray],
        optimizer: Mapping[str, np.ndarray] | None = None,
        ema: Mapping[str, np.ndarray] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> Path:
        """Saves a step's checkpoint atomically, and makes it the latest.

        Raises:
            MachineError: disk full, no permission, or the like; the old checkpoints are untouched.
            TypeError: the state is not JSON.
        """
        name = step_name(step)
        with os_errors_as_machine_errors(f"cannot save checkpoint {name} in {self.folder}"):
            checkpoint = Checkpoint(step, model, optimizer, ema, dict(state or {}))
            self._folders.write(name, "step-*", lambda folder: write_checkpoint(folder, checkpoint))
            self._latest.write(step=step)
        return self.folder / name

    def save_named(
        self, name: str, step: int, *, model: Mapping[str, np.ndarray], state: Mapping[str, Any] | None = None
    ) -> Path:
        """Saves weights for decoding under a name, `averaged` or `averaged-...`; `prune` never removes them.

        Raises:
            UserError: an invalid name, or another process is writing it.
            MachineError: as `save`.
        """
        if not is_extra_name(name):
            raise UserError(
                f"checkpoint name {name!r}: it is not one of an average",
                f"use {AVERAGED} or {AVERAGED}-..., in letters, digits and hyphens",
            )
        with os_errors_as_machine_errors(f"cannot save checkpoint {name} in {self.folder}"):
            self._folders.make_root()
            try:
                with exclusive(lock_beside(self.folder / name)):
                    checkpoint = Checkpoint(step, model, state=dict(state or {}))
                    self._folders.write(name, name, lambda folder: write_checkpoint(folder, checkpoint))
            except LockedError as error:
                raise UserError(
                    f"checkpoint {name} in {self.folder}: process {error} is writing it",
                    "wait for it, or give another name",
                ) from None
        return self.folder / name

    def mark_best(self, step: int, metric: str, value: float, problem: str = "") -> None:
        """Marks a step's checkpoint as the best, of a problem if one is named; only warns if the value is not finite.

        Raises:
            UserError: there is no such checkpoint.
        """
        if not self.has(step):
            raise UserError(self._unknown(str(step)))
        if not math.isfinite(value):
            log.warning("checkpoint %s is not marked as the best: its %s is %s", step_name(step), metric, value)
            return
        with os_errors_as_machine_errors(f"cannot mark the best checkpoint in {self.folder}"):
            self._best_pointer(problem).write(step=step, metric=metric, value=float(value))

    def publish_pointers(self) -> None:
        """Uploads the pointers that interrupted writers left on this machine only, if an object store is mirrored.

        Raises:
            MachineError: the store refuses or does not respond.
        """
        with os_errors_as_machine_errors(f"cannot write the pointers in {self.folder}"):
            self._latest.publish()
            for problem in self._problems_with_best():
                self._best_pointer(problem).publish()
            self._ranking.publish()

    def prune(self, keep_max: int) -> list[int]:
        """Removes old checkpoints except for the newest `keep_max` (0 = all), the latest and every best.

        Also removes what interrupted writers left. Returns the removed steps. If a pointer to a best checkpoint cannot
        be read, no checkpoint is removed, since it may point to any of them.
        """
        if keep_max < 0:
            raise UserError(f"keep {keep_max} checkpoints: it is below 0", "give a number above 0, or 0 to keep all")
        with os_errors_as_machine_errors(f"cannot remove old checkpoints in {self.folder}"):
            self._folders.clean("step-*")
        steps = self.steps()
        if not keep_max or len(steps) <= keep_max:
            return []
        try:
            marked = [best for problem in self._problems_with_best() if (best := self.best(problem))]
            bests = {best.step for best in (*marked, *self.ranking())}
        except DamagedCheckpointError as error:
            log.warning("%s; until then no checkpoint is removed", error)
            return []
        kept = {self.latest(), *bests, *steps[-keep_max:]}
        removed = [step for step in steps if step not in kept]
        with os_errors_as_machine_errors(f"cannot remove old checkpoints in {self.folder}"):
            for step in removed:
                self._folders.remove(step_name(step))
        return removed

    # === Finding ===

    def steps(self) -> list[int]:
        """Returns the steps that have a checkpoint, in order."""
        return sorted(step for step in map(step_of, self._folders.names()) if step is not None)

    def has(self, step: int) -> bool:
        """Returns whether a step has a checkpoint."""
        return self._folders.has(step_name(step))

    def names(self) -> list[str]:
        """Returns the names of the checkpoints that are not named after a step, such as `averaged`."""
        return sorted(filter(is_extra_name, self._folders.names()))

    def latest(self) -> int | None:
        """Returns the step that `load("latest")` tries first; None if nothing was ever saved.

        Raises:
            DamagedCheckpointError: checkpoints were saved, but all are gone.
        """
        tried = self._latest_first()
        return tried[0] if tried else None

    def find(self, which: int | str) -> Path:
        """Returns the folder of a checkpoint.

        Args:
            which: `latest`, `best`, `best.<problem>`, a step, the name of a named checkpoint, or the path of a
                checkpoint or run; of a run, the latest.

        Raises:
            UserError: there is no such checkpoint; the message lists those that exist.
        """
        text = str(which)
        if text == LATEST:
            step = self.latest()
        elif text == BEST or text.startswith(f"{BEST}."):
            best = self.best(text.removeprefix(BEST).removeprefix("."))
            step = best.step if best else None
        else:
            name = step_name(int(text)) if re.fullmatch("[0-9]{1,18}", text) else text
            return self._folders.path(name) if self._folders.has(name) else self._find_path(text)
        if step is None:
            raise UserError(self._unknown(text))
        return self._folders.path(step_name(step))

    def _find_path(self, text: str) -> Path:
        path = local_path(text)
        if is_checkpoint(path) or (path.is_dir() and is_name(path.name)):
            return path
        for folder in (path / "checkpoints", path):
            other = CheckpointStore(folder)
            if other.steps():
                return other.find(LATEST)
        raise UserError(self._unknown(text))

    # === Loading ===

    def load(self, which: int | str = LATEST, parts: Collection[str] = PARTS) -> Checkpoint:
        """Reads and verifies a checkpoint; see `find` for `which`.

        If the latest is damaged, loads the one before it, with a warning; other names load their checkpoint or fail. If
        a trainer removes the checkpoint meanwhile, `which` is looked up again.

        Raises:
            UserError: no such checkpoint, or a newer version of t2t wrote it.
            DamagedCheckpointError: it is damaged; for `latest`, all are.
        """
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(RemovedError):
                return self._load_once(which, parts)
        return self._load_once(which, parts)

    def _load_once(self, which: int | str, parts: Collection[str]) -> Checkpoint:
        if str(which) == LATEST:
            return self._load_latest(parts)
        folder = self.find(which)
        try:
            return read_named(folder, parts)
        except DamagedCheckpointError as error:
            raise type(error)(f"{error}; {self._have()}") from error

    def load_model(self, which: int | str = LATEST) -> Checkpoint:
        """Reads only what decoding needs, the weights and their moving average; see `load`.

        For a checkpoint of adapters, returns the base's weights with the adapters merged into them.
        """
        return merge_base(self.load(which, (MODEL, EMA)))

    def _load_latest(self, parts: Collection[str]) -> Checkpoint:
        tried = self._latest_first()
        if not tried:
            raise UserError(self._unknown(LATEST))
        errors = []
        for step in tried:
            try:
                loaded = read_named(self._folders.path(step_name(step)), parts)
            except RemovedError:
                raise
            except DamagedCheckpointError as error:
                errors.append(error)
                continue
            for damage in errors:
                log.warning("%s; continuing from step %d instead", damage, step)
            return loaded
        raise DamagedCheckpointError(
            f"no checkpoint in {self.folder} can be read: all {len(tried)} are damaged; {errors[0]}",
            "or start again in another --output_dir",
        )

    def _latest_first(self) -> list[int]:
        """Returns the step of the pointer, then all others, newest first."""
        try:
            for _ in range(_ATTEMPTS):
                pointer = self._latest.read()
                steps = self._newest_first(pointer)
                if pointer is None or pointer["step"] in steps or pointer == self._latest.read():
                    break  # else a trainer moved it and removed the checkpoint between the two reads
        except DamagedCheckpointError as error:
            steps = self.steps()[::-1]
            if not steps:
                raise
            log.warning("%s; taking the highest step", error)
            return steps
        if pointer is None:
            return steps
        if pointer["step"] in steps:
            return sorted(steps, key=lambda step: step != pointer["step"])
        gone = f"checkpoint {step_name(pointer['step'])} is missing from {self.folder}, though it was the latest"
        if not steps:
            raise DamagedCheckpointError(f"{gone}, and no other is there", "restore it or use another --output_dir")
        log.warning("%s; the newest of the others is step %d", gone, steps[0])
        return steps

    def _newest_first(self, pointer: dict[str, Any] | None) -> list[int]:
        """Returns the steps, newest first, including the pointer's, which a store's listing may not show yet."""
        pointed = {pointer["step"]} if pointer and self.has(pointer["step"]) else set()
        return sorted(pointed.union(self.steps()), reverse=True)

    # === Messages ===

    def _unknown(self, requested: str) -> str:
        return (
            f"checkpoint {requested!r}: there is none; {self._have()}; give {LATEST}, {BEST}, {AVERAGED}, a step, "
            f"or the path of a checkpoint's folder"
        )

    def _have(self) -> str:
        steps, names = self.steps(), self.names()
        shown = [str(step) for step in steps[-10:]]
        if len(steps) > len(shown):
            shown.insert(0, f"{len(steps) - len(shown)} older ones")
        names += [f"{BEST}.{problem}" for problem in self._problems_with_best() if problem]
        listed = ", ".join(([f"steps {', '.join(shown)}"] if steps else []) + names)
        return f"{self.folder} holds {listed or 'no checkpoints'}"


class RemovedError(DamagedCheckpointError):
    """A checkpoint that another process removed or replaced while it was read."""


def read_named(folder: Path, parts: Collection[str]) -> Checkpoint:
    """Reads a checkpoint, whose step must agree with the name of its folder.

    Raises:
        UserError: a newer version of t2t wrote it.
        DamagedCheckpointError: it is damaged or of another step.
        RemovedError: it was removed or replaced meanwhile.
    """
    before = _identity(folder)
    try:
        loaded = read_checkpoint(folder, parts)
    except DamagedCheckpointError as error:
        if before is None or _identity(folder) != before:
            raise RemovedError(str(error)) from error
        raise
    step = step_of(folder.name.removeprefix(REPLACED))
    if step not in (None, loaded.step):
        raise DamagedCheckpointError(
            f"checkpoint {folder} is damaged: it holds step {loaded.step}",
            f"give the folder its name back, {step_name(loaded.step)}, or ask for another checkpoint",
        )
    return loaded


def _identity(folder: Path) -> str | tuple[int, int, int] | None:
    """Returns what changes when a checkpoint is replaced or loses a file; None if there is none."""
    reading = os_errors_as_machine_errors(f"cannot read checkpoint {folder}")
    with reading, contextlib.suppress(FileNotFoundError):
        if is_mirrored(folder):  # fetching its files changes the folder, but not the checkpoint in the store
            return fingerprint_of(folder)
        found = folder.stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns
    return None
