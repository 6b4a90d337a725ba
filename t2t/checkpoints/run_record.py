"""The record of a run, `run.json`: names, every hparam, features, vocabularies, data, plug-ins and versions.

It is sealed, see `t2t.files.trust`.
"""

import dataclasses
import importlib
import json
import platform
from pathlib import Path
from typing import Any, Self

import t2t
from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.remote.mirror import publish
from t2t.files.trust import read_record, read_sealed, sealed
from t2t.specs.features import ProblemSpec, merge_problem_entries, select_problem_entries, split_mixture
from t2t.text.vocabulary_files import VocabularyFile

FORMAT = 2
"""Format of the records that this version writes; it reads all formats up to it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Description of a run: what was requested, and the effective values."""

    problem: str
    """With several problems, their mixture; see `t2t.specs.features`, also for the names of entries of each problem."""
    model: str
    hparams_set: str
    overrides: str = ""
    """Value of `--hparams`."""
    hparams: dict[str, dict[str, Any]]
    """Every effective value: section -> field -> value."""
    problem_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Options of the problem that differ from their defaults."""
    spec: ProblemSpec
    data_fingerprint: str = ""
    """sha256 of the manifest of the generated data; with several problems, one for each, joined by +."""
    distilled: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Problem -> how its training targets were made, if its data is distilled; see `t2t.data.manifest`."""
    data_dir: str = ""
    """Folder of generated data that it was last trained on, read by `t2t-trainer` only; empty for imported runs."""
    plugins: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Result of `t2t.registry.plugins.Plugin.to_dict` for each plug-in."""
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    """Versions of t2t, python, keras, and tensorflow or jax."""
    vocabularies: dict[str, VocabularyFile] = dataclasses.field(default_factory=dict)
    """By feature name, from `t2t.text.vocabulary_files.describe_encoders`."""
    warm_start: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The checkpoint whose weights the run started with, empty for none: its path (`from`), `step` and `fingerprint`;
    `anew`: features with new random weights, because of another vocabulary; `optimizer_updates`: updates counted by the
    optimizer state that was loaded, 0 if none was; `report`: lines that say what was loaded."""
    random_seed: int | None = None
    """Seed of the run, which its checkpoints repeat; None in imported runs and records of earlier versions."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """How it was last trained, see `t2t.runs.config.REMEMBERED`; empty in imported runs and earlier records."""
    created: str = ""
    """When the run began, ISO 8601 in UTC; set by `RunDir.create`."""

    @classmethod
    def read(cls, file: Path) -> Self:
        """Reads a record.

        Raises:
            UserError: it is damaged, or a newer version of t2t wrote it.
            MachineError: it cannot be read.
        """
        try:
            with os_errors_as_machine_errors(f"cannot read {file}"):
                data = read_sealed(file)
            if data["format"] <= FORMAT:
                return read_record(cls, _migrated(data))
        except (KeyError, TypeError, ValueError) as error:  # the first two of the format
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise UserError(
                f"{file} is damaged ({reason})", "restore it from a copy or train again in another --output_dir"
            ) from error
        raise UserError(
            f"{file} has format {data['format']}, this version of t2t reads formats up to {FORMAT}",
            "use the version of t2t that wrote it, or a later one",
        )

    def write(self, file: Path) -> None:
        """Writes the record atomically; raises OSError if that fails."""
        write_atomically(file, json.dumps(sealed(file.name, self.to_dict()), indent=2).encode())
        publish(file)

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
        """Returns the record as if the run had only one of its problems."""
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
        """Returns (kind, name) -> value of everything that identifies a run."""
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


def _migrated(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries of a record in the form of this version; the first format had other names for some."""
    entries = {name: value for name, value in data.items() if name != "format"}
    if data["format"] > 1:
        return entries
    if "seed" in entries:
        entries["random_seed"] = entries.pop("seed")
    settings = dict(entries.get("settings", {}))
    for before, now in (("eval_every", "local_eval_frequency"), ("log_every", "log_step_count_steps")):
        if before in settings:
            settings[now] = settings.pop(before)
    if "evaluates" in settings:
        settings["schedule"] = "continuous_train_and_eval" if settings.pop("evaluates") else "train"
    return {**entries, "settings": settings}


def versions() -> dict[str, str]:
    """Returns the versions of the software of a run, Keras's backend among it."""
    import keras

    backend = keras.backend.backend()
    return {
        "t2t": t2t.__version__,
        "python": platform.python_version(),
        backend: importlib.import_module(backend).__version__,
        "keras": keras.__version__,
    }
