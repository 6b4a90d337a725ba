"""The output directory of a run: everything that decoding, resuming and reporting need, and nothing that is executed.

    run.json        the record: names, every hparam, features, vocabularies, data, plug-ins, versions; written last,
                    and sealed (`t2t.files.trust`)
    vocab/          the vocabularies
    checkpoints/    see `t2t.checkpoints`
    metrics.jsonl   one line of figures a log step
    tracking.json   what experiment trackers have of it, see `t2t.tracking`
    shortlist/      see `t2t.inference.shortlist`
    lock            held by the process that trains here

A run directory may come from a stranger: opening one imports nothing it names, and reads no path outside it but the
checkpoint that adapters change. Only `t2t-trainer`, resuming it, reads the data that the record names.
"""

import contextlib
import dataclasses
import datetime
import json
import logging
import math
import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from t2t.checkpoints.pointer import LATEST_FILE
from t2t.errors import UserError, asked_and_found, first_few, one_line
from t2t.files.atomic import (
    LockedError,
    append_line,
    is_locked,
    made_folder,
    os_errors_as_machine_errors,
    write_atomically,
)
from t2t.files.paths import local_path
from t2t.files.remote.mirror import exclusive, exists, fetch, names_in, publish, remove_file
from t2t.files.trust import check_inside, read_record, read_sealed, sealed
from t2t.specs.features import ProblemSpec
from t2t.specs.mixture import merge_problem_entries, select_problem_entries, split_mixture
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import VocabularyFile, read_encoders, save_encoders

FORMAT = 1
"""Format of the records that this version writes; it reads all formats up to it."""

RECORD_FILE, METRICS_FILE, _VOCAB_FOLDER, _LOCK_FILE = "run.json", "metrics.jsonl", "vocab", "lock"
TRACKING_FILE = "tracking.json"
_CHECKPOINTS, _EVENTS = "checkpoints", "events"
_OWN = (RECORD_FILE, _VOCAB_FOLDER, _CHECKPOINTS, METRICS_FILE, _EVENTS, "shortlist", TRACKING_FILE, _LOCK_FILE)
"""What is read and written in a run directory; none of it may be a link that leads out."""

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What a run is: what was asked for and what it came to."""

    problem: str
    """Of several problems, their mixture, see `t2t.specs.mixture`, which also tells how what each has is named."""
    model: str
    hparams_set: str
    overrides: str = ""
    """What `--hparams` was given."""
    hparams: dict[str, dict[str, Any]]
    """Every effective value: section -> field -> value."""
    problem_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Options of the problem that differ from their defaults."""
    spec: ProblemSpec
    data_fingerprint: str = ""
    """sha256 of the manifest of the generated data; of several problems, one each with + between them."""
    distilled: dict[str, Any] = dataclasses.field(default_factory=dict)
    """How the training targets were made, by problem, where its data is distilled; see `t2t.data.manifest`."""
    data_dir: str = ""
    """Folder of generated data that it was trained from last, read by `t2t-trainer` only; empty for imported runs."""
    plugins: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """What `t2t.registry.plugins.Plugin.to_dict` gives, one a plug-in."""
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    """Of t2t, python, tensorflow, keras."""
    vocabularies: dict[str, VocabularyFile] = dataclasses.field(default_factory=dict)
    """By feature name, from `t2t.text.vocabulary_files.describe_encoders`."""
    warm_start: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Checkpoint whose weights the run began with, empty for none: its path (`from`), `step` and `fingerprint`; `anew`,
    features whose vocabularies it did not share; `optimizer_updates` of the state that was taken, 0 for none; `report`,
    lines on what was taken."""
    created: str = ""
    """When the run began, ISO 8601 in UTC; set by `RunDir.create`."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the record as plain JSON."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["spec"] = self.spec.to_dict()
        fields["vocabularies"] = {name: dataclasses.asdict(entry) for name, entry in self.vocabularies.items()}
        return json.loads(json.dumps({"format": FORMAT, **fields}))

    @property
    def problems(self) -> tuple[str, ...]:
        """Names of the problems, one or several."""
        return split_mixture(self.problem)

    def for_problem(self, problem: str) -> Self:
        """Returns the record as if the run were of one of its problems alone."""
        if problem == self.problem:
            return self
        fingerprints = dict(zip(self.problems, self.data_fingerprint.split("+"), strict=False))
        return dataclasses.replace(
            self,
            problem=problem,
            problem_options=select_problem_entries(self.problem_options, problem),
            spec=self.spec.member(problem),
            data_fingerprint=fingerprints.get(problem, ""),
            vocabularies=select_problem_entries(self.vocabularies, problem),
        )

    def identity(self) -> dict[tuple[str, str], Any]:
        """Returns (kind, name) -> value of everything that tells one run from another."""
        data = self.to_dict()
        found = {(kind, ""): data[kind] for kind in ("problem", "model", "hparams_set")}
        found |= {("problem option", name): value for name, value in data["problem_options"].items()}
        found |= {("hparam", name): value for section in data["hparams"].values() for name, value in section.items()}
        found |= {("vocabulary of", name): entry.fingerprint[:12] for name, entry in self.vocabularies.items()}
        members = data["spec"].get("members") or [data["spec"]]
        for feature, spec in merge_problem_entries({member["name"]: member["features"] for member in members}).items():
            found |= {("feature", f"{feature}.{name}"): value for name, value in spec.items()}
        fingerprints = (part[:12] for part in self.data_fingerprint.split("+"))
        return found | {("data_fingerprint", ""): "+".join(fingerprints)}


class RunDir:
    """One run's directory. `create` makes it, `open` reads it; hold `lock_run` while training in it."""

    def __init__(self, path: Path, record: RunRecord):
        self.path = Path(path)
        self.record = record

    @property
    def checkpoints_folder(self) -> Path:
        """Where the checkpoints are, for `CheckpointStore`."""
        return self.path / _CHECKPOINTS

    @property
    def shortlist_folder(self) -> Path:
        """Where the shortlists are, a folder for each problem."""
        return self.path / "shortlist"

    @property
    def metrics_file(self) -> Path:
        """The figures of the run as JSON lines."""
        return self.path / METRICS_FILE

    @property
    def has_checkpoints(self) -> bool:
        """Whether a checkpoint was ever saved, and some are left."""
        return _has_checkpoints(self.path)

    @property
    def is_training(self) -> bool:
        """Whether a process trains here now."""
        return is_locked(self.path / _LOCK_FILE)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Returns whether a run has begun in a directory."""
        record = local_path(path) / RECORD_FILE
        with os_errors_as_machine_errors(f"cannot read {record}"):
            fetch(record)
        return record.is_file()

    @classmethod
    def create(cls, path: str | Path, record: RunRecord, encoders: Mapping[str, TextEncoder]) -> Self:
        """Begins a run in a directory, made where there is none: saves the vocabularies, then the record.

        Raises:
            UserError: the directory holds a run, or what is left of one.
            MachineError: the directory cannot be written.
        """
        path = local_path(path)
        if cls.exists(path):
            raise UserError(f"--output_dir={path}: a run has begun there; resume it or use another --output_dir")
        if any(name.startswith("step-") for name in names_in(path / _CHECKPOINTS)):
            raise UserError(
                f"--output_dir={path}: it holds checkpoints and no {RECORD_FILE} that says of what; "
                f"restore that file or use another --output_dir"
            )
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        run = cls(path, dataclasses.replace(record, created=created))
        with os_errors_as_machine_errors(f"cannot begin a run in {path}"):
            (path / _VOCAB_FOLDER).mkdir(parents=True, exist_ok=True)
            saved = save_encoders(path / _VOCAB_FOLDER, encoders)
            publish(*(path / _VOCAB_FOLDER / vocabulary.file for vocabulary in saved.values()))
            run._write_record()
        return run

    @classmethod
    def abandon_unstarted(cls, path: str | Path) -> None:
        """Removes the record of a run that ended before its first checkpoint, so that another can begin there.

        Raises:
            UserError: it was evaluated, so that it had checkpoints, and they are gone.
        """
        path = local_path(path)
        if cls.exists(path) and not _has_checkpoints(path):
            # what is evaluated has been saved before
            lines = list(cls.open(path).metrics())
            saved = [line["step"] for line in lines if any(name.startswith("dev/") for name in line)]
            if saved:
                raise UserError(
                    f"--output_dir={path}: the run there got to update {max(saved)}, and its checkpoints are gone; "
                    f"restore {path / 'checkpoints'} from a copy, or begin again in another --output_dir"
                )
            if lines:
                reached = max(line["step"] for line in lines)
                log.warning("the run in %s got to update %d and has no checkpoint; it starts again", path, reached)
            with os_errors_as_machine_errors(f"cannot begin a run in {path}"):
                remove_file(path / METRICS_FILE)
                remove_file(path / RECORD_FILE)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Reads the record of a run.

        Raises:
            UserError: no run there, a damaged record, or one that a newer version of t2t wrote.
        """
        path = local_path(path)
        if not cls.exists(path):
            raise UserError(f"no run in {path}; train one with t2t-trainer --output_dir={path}")
        for name in _OWN:
            check_inside(path, path / name)
        file = path / RECORD_FILE
        try:
            with os_errors_as_machine_errors(f"cannot read {file}"):
                data = read_sealed(file)
            if data["format"] <= FORMAT:
                return cls(path, read_record(RunRecord, {k: v for k, v in data.items() if k != "format"}))
        except (KeyError, TypeError, ValueError) as error:  # the first two of the format
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise UserError(
                f"{file} is damaged ({reason}); restore it from a copy or train again in another --output_dir"
            ) from error
        raise UserError(
            f"{file} has format {data['format']}, this version of t2t reads formats up to {FORMAT}; use the version of "
            f"t2t that wrote it, or a later one"
        )

    @property
    def vocab_folder(self) -> Path:
        """Where the vocabularies are, in files that the record names."""
        return self.path / _VOCAB_FOLDER

    def encoders(self) -> dict[str, TextEncoder]:
        """Returns the vocabulary of each text feature; features that share a file share the object.

        Raises:
            UserError: a vocabulary is missing, damaged, or another than the run was trained with.
        """
        with os_errors_as_machine_errors(f"cannot read {self.vocab_folder}"):
            fetch(*(self.vocab_folder / vocabulary.file for vocabulary in self.record.vocabularies.values()))
        return read_encoders(self.vocab_folder, self.record.vocabularies, "restore it from a copy")

    def check_same(self, record: RunRecord, may_change: Collection[str] = ()) -> None:
        """Checks that the run here is the one that a record asks for.

        Not compared are hparams that did not exist when the run began, and the names of hparams, options of the
        problem and `data_fingerprint` that a resumed run `may_change`.

        Raises:
            UserError: it is another run; the message names what differs.
        """
        found, asked = self.record.identity(), record.identity()
        wrong = []
        for kind, name in [*found, *(key for key in asked if key not in found)]:
            old, new = found.get((kind, name), "none"), asked.get((kind, name), "none")
            is_new_hparam = kind == "hparam" and (kind, name) not in found
            # an imported run has seen no data yet
            is_unknown = not self.record.data_fingerprint and kind in ("data_fingerprint", "problem option")
            if old != new and not is_new_hparam and not is_unknown and (name or kind) not in may_change:
                wrong.append(f"{kind} {name}".strip() + f": {asked_and_found(_shown(new), _shown(old))}")
        if wrong:
            raise UserError(
                f"--output_dir={self.path} belongs to another run: {first_few(wrong)}; use another --output_dir, or "
                f"ask for the run that is there"
            )

    def resume(self, record: RunRecord, may_change: Collection[str] = ()) -> None:
        """Checks as `check_same`, then records what has changed: the allowed values, versions and plug-ins.

        Raises:
            UserError: it is another run.
            MachineError: the record cannot be rewritten; the old one is untouched.
        """
        self.check_same(record, may_change)
        kept = {name: getattr(self.record, name) for name in ("created", "vocabularies", "warm_start")}
        updated = dataclasses.replace(record, **kept)
        if updated.to_dict() == self.record.to_dict():
            return
        for name in ("plugins", "versions"):
            if updated.to_dict()[name] != self.record.to_dict()[name]:
                log.warning("%s of the run in %s have changed since it began", name, self.path)
        with os_errors_as_machine_errors(f"cannot rewrite {self.path / RECORD_FILE}"):
            type(self)(self.path, updated)._write_record()
        self.record = updated

    def append_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Adds one line of figures; NaN and infinities, which JSON does not have, become null.

        A resumed run repeats the steps after its checkpoint; of two lines of one step the later counts.
        """
        finite = {name: float(value) if math.isfinite(value) else None for name, value in values.items()}
        line = json.dumps({"step": step, "time": round(time.time(), 3), **finite})
        with os_errors_as_machine_errors(f"cannot write {self.metrics_file}"):
            append_line(self.metrics_file, line)

    def publish_figures(self) -> None:
        """Writes the figures so far, and the events for TensorBoard, to the object store that the directory mirrors.

        Raises:
            MachineError: the store refuses or does not answer, or another process has taken over the run.
        """
        files = [self.metrics_file, self.path / TRACKING_FILE, *(self.path / _EVENTS).rglob("*")]
        with os_errors_as_machine_errors(f"cannot write {self.path}"):
            publish(*(path for path in files if path.is_file()))

    def metrics(self, last_bytes: int | None = None) -> Iterator[dict[str, Any]]:
        """Yields the lines of figures, oldest first, without what a crash has torn; all, or those in the last bytes."""
        with os_errors_as_machine_errors(f"cannot read {self.metrics_file}"):
            fetch(self.metrics_file)
        if not self.metrics_file.is_file():
            return
        with self.metrics_file.open("rb") as lines:
            if last_bytes is not None and lines.seek(0, os.SEEK_END) > last_bytes:
                lines.seek(-last_bytes, os.SEEK_END)
                lines.readline()  # most likely a part of one
            else:
                lines.seek(0)
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError):
                    values = json.loads(line)
                    if isinstance(values, dict) and type(values.get("step")) is int:
                        yield values

    def _write_record(self) -> None:
        content = json.dumps(sealed(RECORD_FILE, self.record.to_dict()), indent=2)
        write_atomically(self.path / RECORD_FILE, content.encode())
        publish(self.path / RECORD_FILE)


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
                    f"--output_dir={path}: process {error} is training there; "
                    f"wait for it, stop it or use another --output_dir"
                ) from None
            fetch(path / RECORD_FILE, path / METRICS_FILE)
        yield


def _has_checkpoints(path: Path) -> bool:
    folder = path / _CHECKPOINTS
    # A list of a store may lag behind it, which single objects do not.
    return bool(names_in(folder)) or exists(folder / LATEST_FILE)


def _shown(value: Any) -> str:
    return str(value) if value != "" else "none"
