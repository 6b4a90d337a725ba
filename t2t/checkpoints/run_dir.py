"""The output directory of a run: all that decoding, resuming and reporting need, and nothing that is executed.

    run.json        see `t2t.checkpoints.run_record`; written last
    vocab/          the vocabularies
    checkpoints/    see `t2t.checkpoints`
    metrics.jsonl   one line of figures per report or evaluation
    dev_outputs.jsonl   see `t2t.checkpoints.dev_outputs`
    tracking.json   what experiment trackers have already received, see `t2t.tracking`
    shortlist/      see `t2t.inference.shortlist`
    lock            held by the process that trains here

A run directory may come from a stranger: opening one imports nothing that it names, and reads no path outside it except
the base of adapters. Only `t2t-trainer`, when it resumes the run, reads the data that the record names.
"""

import contextlib
import dataclasses
import datetime
import functools
import json
import logging
import math
import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from t2t.checkpoints.layout import LATEST_FILE
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError, ask_for, asked_and_found, did_you_mean, first_few
from t2t.files.atomic import (
    LockedError,
    append_line,
    is_locked,
    made_folder,
    os_errors_as_machine_errors,
)
from t2t.files.paths import check_outside_zoo, local_path
from t2t.files.remote.mirror import exclusive, exists, fetch, publish, remove_file, remove_folder
from t2t.files.trust import check_inside
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import read_encoders, save_encoders

RECORD_FILE, METRICS_FILE, _VOCAB_FOLDER, _LOCK_FILE = "run.json", "metrics.jsonl", "vocab", "lock"
TRACKING_FILE = "tracking.json"
_CHECKPOINTS, _EVENTS, _DEV_OUTPUTS = "checkpoints", "events", "dev_outputs.jsonl"
_OWN = (
    RECORD_FILE, _VOCAB_FOLDER, _CHECKPOINTS, METRICS_FILE, _DEV_OUTPUTS, _EVENTS, "shortlist", TRACKING_FILE,
    _LOCK_FILE,
)  # fmt: skip
"""Files and folders of a run directory; none of them may be a link that leads out of it."""

_LARGEST = 1e11
"""Largest number that `plausible_number` accepts; as a time it is in the year 5138."""

log = logging.getLogger("t2t")


class RunDir:
    """One run's directory. `create` makes it, `open` reads it; hold `lock_run` while training in it."""

    def __init__(self, path: Path, record: RunRecord):
        self.path = Path(path)
        self.record = record
        self.checkpoints_folder = self.path / _CHECKPOINTS
        """Where the checkpoints are, for `CheckpointStore`."""
        self.vocab_folder = self.path / _VOCAB_FOLDER
        """Where the vocabularies are, in files that the record names."""
        self.shortlist_folder = self.path / "shortlist"
        """Where the shortlists are, a folder for each problem."""
        self.metrics_file = self.path / METRICS_FILE
        """The figures of the run as JSON lines."""
        self.dev_outputs_file = self.path / _DEV_OUTPUTS
        """The run's outputs for some sentences of the dev split, see `t2t.checkpoints.dev_outputs`."""

    @property
    def has_checkpoints(self) -> bool:
        """Whether a checkpoint was ever saved; False if the folder of checkpoints is gone."""
        store = CheckpointStore(self.checkpoints_folder)
        # A store's listing may lag behind; looking up a single object does not.
        return bool(store.steps() or store.names()) or exists(store.folder / LATEST_FILE)

    @functools.cached_property
    def first_seed(self) -> int | None:
        """The seed with which the run began, as its checkpoints say; None without any."""
        store = CheckpointStore(self.checkpoints_folder)
        return None if store.latest() is None else store.load(parts=()).state.get("seed", 0)

    @property
    def seed(self) -> int:
        """The seed of the run: that of its checkpoints, else of its record."""
        return (self.record.random_seed or 0) if self.first_seed is None else self.first_seed

    @property
    def is_training(self) -> bool:
        """Whether a process is training in the directory now."""
        return is_locked(self.path / _LOCK_FILE)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Returns whether a directory holds the record of a run."""
        record = local_path(path) / RECORD_FILE
        with os_errors_as_machine_errors(f"cannot read {record}"):
            fetch(record)
        return record.is_file()

    @property
    def can_resume(self) -> bool:
        """Whether the run can be resumed; one without checkpoints is replaced.

        Raises:
            UserError: the run has evaluations after an update, so it had checkpoints, which are gone.
        """
        if self.has_checkpoints:
            return True
        # checkpoints are saved before they are evaluated, but none of a model that was evaluated untrained
        saved = [line["step"] for line in self.metrics() if line["step"] and any(n.startswith("dev/") for n in line)]
        if saved:
            raise UserError(
                f"the run there got to update {max(saved)}, and its checkpoints are gone",
                f"restore {self.checkpoints_folder} from a copy, or begin again in another --output_dir",
                option="output_dir",
                value=self.path,
            )
        return False

    @classmethod
    def create(cls, path: str | Path, record: RunRecord, encoders: Mapping[str, TextEncoder]) -> Self:
        """Starts a run in a directory, which is created if needed: saves the vocabularies, then the record.

        A run that ended before its first checkpoint is replaced: its record last, so that a crash meanwhile leaves it
        or the new one.

        Raises:
            UserError: the directory holds a run with checkpoints, or the remains of one.
            MachineError: the directory cannot be written.
        """
        path = local_path(path)
        check_outside_zoo(path, "output_dir")
        existing = cls.open(path) if cls.exists(path) else None
        if existing and existing.can_resume:
            raise UserError(
                "a run has begun there", "resume it or use another --output_dir", option="output_dir", value=path
            )
        if CheckpointStore(path / _CHECKPOINTS).steps():
            raise UserError(
                f"it holds checkpoints and no {RECORD_FILE} that says of what",
                "restore that file or use another --output_dir",
                option="output_dir",
                value=path,
            )
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        run = cls(path, dataclasses.replace(record, created=created))
        with os_errors_as_machine_errors(f"cannot begin a run in {path}"):
            if existing:
                existing._forget_figures()
            (path / _VOCAB_FOLDER).mkdir(parents=True, exist_ok=True)
            saved = save_encoders(path / _VOCAB_FOLDER, encoders)
            publish(*(path / _VOCAB_FOLDER / vocabulary.file for vocabulary in saved.values()))
            run.record.write(path / RECORD_FILE)
        return run

    def _forget_figures(self) -> None:
        """Removes the figures and outputs so far, and what experiment trackers call the run."""
        if reached := [line["step"] for line in self.metrics()]:
            log.warning(
                "the run in %s got to update %d and has no checkpoint; it starts again", self.path, max(reached)
            )
        for name in (METRICS_FILE, _DEV_OUTPUTS, TRACKING_FILE):
            remove_file(self.path / name)
        remove_folder(self.path / _EVENTS)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Reads the record of a run.

        Raises:
            UserError: no run, a damaged record, or one that a newer version of t2t wrote.
        """
        path = local_path(path)
        if not cls.exists(path):
            raise UserError(f"no run in {path}", f"{near_run(path)}train one with t2t-trainer --output_dir={path}")
        for name in _OWN:
            check_inside(path, path / name)
        return cls(path, RunRecord.read(path / RECORD_FILE))

    def encoders(self) -> dict[str, TextEncoder]:
        """Returns the vocabulary of each text feature; features that share a file share the object.

        Raises:
            UserError: a vocabulary is missing, damaged, or not the one that the run was trained with.
        """
        with os_errors_as_machine_errors(f"cannot read {self.vocab_folder}"):
            fetch(*(self.vocab_folder / vocabulary.file for vocabulary in self.record.vocabularies.values()))
        return read_encoders(self.vocab_folder, self.record.vocabularies, "restore it from a copy")

    def check_same(self, record: RunRecord, may_change: Collection[str] = ()) -> None:
        """Checks that a record describes the run in this directory.

        Not compared: hparams and properties of features that did not exist when the run began, and those hparams,
        problem options and `data_fingerprint` whose names are in `may_change`.

        Raises:
            UserError: it is another run; the message names what differs.
        """
        found, requested = self.record.identity(), record.identity()
        wrong = []
        for kind, name in [*found, *(key for key in requested if key not in found)]:
            old, new = found.get((kind, name), "none"), requested.get((kind, name), "none")
            is_later = kind in ("hparam", "feature") and (kind, name) not in found
            # an imported run has no data yet
            is_unknown = not self.record.data_fingerprint and kind in ("data_fingerprint", "problem option")
            if old != new and not is_later and not is_unknown and (name or kind) not in may_change:
                wrong.append(f"{kind} {name}".strip() + f": {asked_and_found(_shown(new), _shown(old))}")
        if wrong:
            raise UserError(
                f"--output_dir={self.path} belongs to another run: {first_few(wrong)}",
                f"use another --output_dir, with --warm_start_from={self.path} to begin with its weights, or give the "
                "settings of the run that is there",
            )

    def resume(self, record: RunRecord, may_change: Collection[str] = ()) -> None:
        """Checks like `check_same`, then records the changes: allowed values, versions and plug-ins.

        Raises:
            UserError: it is another run.
            MachineError: the record cannot be rewritten; the old one is untouched.
        """
        self.check_same(record, may_change)
        kept = {name: getattr(self.record, name) for name in ("created", "vocabularies", "warm_start")}
        kept["settings"] = {**self.record.settings, **record.settings}
        updated = dataclasses.replace(record, **kept)
        if updated.to_dict() == self.record.to_dict():
            return
        for name in ("plugins", "versions"):
            if updated.to_dict()[name] != self.record.to_dict()[name]:
                log.warning("%s of the run in %s have changed since it began", name, self.path)
        with os_errors_as_machine_errors(f"cannot rewrite {self.path / RECORD_FILE}"):
            updated.write(self.path / RECORD_FILE)
        self.record = updated

    def append_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Adds one line of figures; NaN and infinities, which JSON lacks, become null.

        A resumed run repeats the steps after its checkpoint; the later of two lines for one step counts.
        """
        finite = {name: float(value) if math.isfinite(value) else None for name, value in values.items()}
        line = json.dumps({"step": step, "time": round(time.time(), 3), **finite})
        with os_errors_as_machine_errors(f"cannot write {self.metrics_file}"):
            append_line(self.metrics_file, line)

    def publish_figures(self) -> None:
        """Uploads the figures, outputs and TensorBoard events so far, if the directory mirrors an object store.

        Raises:
            MachineError: the store refuses or does not answer, or another process has taken over the run.
        """
        files = [self.metrics_file, self.dev_outputs_file, self.path / TRACKING_FILE, *(self.path / _EVENTS).rglob("*")]
        with os_errors_as_machine_errors(f"cannot write {self.path}"):
            publish(*(path for path in files if path.is_file()))

    def metrics(self, last_bytes: int | None = None) -> Iterator[dict[str, Any]]:
        """Yields the intact lines of figures, oldest first; with `last_bytes`, only those at the end of the file."""
        with os_errors_as_machine_errors(f"cannot read {self.metrics_file}"):
            fetch(self.metrics_file)
        if not self.metrics_file.is_file():
            return
        with self.metrics_file.open("rb") as lines:
            if last_bytes is not None and lines.seek(0, os.SEEK_END) > last_bytes:
                lines.seek(-last_bytes, os.SEEK_END)
                lines.readline()  # probably incomplete
            else:
                lines.seek(0)
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError):
                    values = json.loads(line)
                    if isinstance(values, dict) and type(values.get("step")) is int:
                        yield values


def check_same_seed(run: Path, begun_with: int | None, seed: int) -> None:
    """Raises UserError if a run was begun with another seed."""
    if begun_with != seed:
        raise UserError(
            f"the run in {run} was begun with {begun_with}",
            "resume with that seed or use another --output_dir",
            option="random_seed",
            value=seed,
        )


def near_run(path: Path) -> str:
    """Returns "did you mean a, b or c? ", of runs in the folder without one, or next to it; see `did_you_mean`."""
    with contextlib.suppress(OSError):
        if within := sorted(str(found.parent) for found in path.glob(f"*/{RECORD_FILE}"))[:3]:
            return ask_for(within)
        return did_you_mean(path.name, [found.parent.name for found in path.parent.glob(f"*/{RECORD_FILE}")])
    return ""


def plausible_number(value: Any) -> float | None:
    """Returns an update, time or speed in a line of figures; None for what is none, such as NaN or a text."""
    return value if type(value) in (int, float) and 0 <= value <= _LARGEST else None


@contextlib.contextmanager
def lock_run(path: str | Path) -> Iterator[None]:
    """Context manager that keeps other processes from training in an output directory.

    Raises:
        UserError: another process trains there.
        MachineError: the directory cannot be written.
    """
    path = local_path(path)
    with contextlib.ExitStack() as stack:
        with os_errors_as_machine_errors(f"cannot lock --output_dir={path}"):
            stack.enter_context(made_folder(path))
            check_inside(path, path / _LOCK_FILE)
            try:
                stack.enter_context(exclusive(path / _LOCK_FILE))
            except LockedError as error:
                raise UserError(
                    f"process {error} is training there",
                    "wait for it, stop it or use another --output_dir",
                    option="output_dir",
                    value=path,
                ) from None
            fetch(path / RECORD_FILE, path / METRICS_FILE, path / _DEV_OUTPUTS)
        yield


def _shown(value: Any) -> str:
    return str(value) if value != "" else "none"


def run_and_checkpoint(folder: str) -> tuple[str, str]:
    """Splits the folder of a run or of one of its checkpoints into (run, checkpoint); the latter is "" for a run."""
    path = local_path(folder).resolve()
    if path.parent.name == _CHECKPOINTS and RunDir.exists(path.parent.parent):
        return str(path.parent.parent), str(path)
    return folder, ""
