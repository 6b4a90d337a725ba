"""Generates and opens the data of problems."""

import dataclasses
import hashlib
import logging
import random
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t.checkpoints.run_dir import RunDir
from t2t.data.generation.data_folder import data_folder, fetch_data, fetch_raw_files, refresh
from t2t.data.generation.generate import generate
from t2t.data.generation.problem_settings import check_matches
from t2t.data.manifest import MANIFEST_NAME, Manifest, load_encoders, read_manifest
from t2t.data.reading.reader import SplitReader, TaggedReader
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.paths import local_path
from t2t.files.remote.mirror import exists, publish
from t2t.problems.base import Problem, Source, nominal_spec
from t2t.problems.options import ProblemOptions
from t2t.problems.vocabularies import TextOptions, free_texts, learn_vocabulary, sampled_text
from t2t.runs.config import RUN, RunConfig
from t2t.runs.names import check_declared, get_problem, problems_of, split_config
from t2t.specs import DATA_SEED, INPUTS, TARGETS
from t2t.specs.features import ProblemSpec, merge_problem_entries, mixture_of
from t2t.text.encoder import TextEncoder

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class OpenData:
    """A problem with its vocabularies, and the readers of its splits."""

    problem: Problem
    manifest: Manifest
    readers: dict[str, SplitReader]
    """By split."""
    fingerprint: str
    """sha256 of the manifest without its version and the paths of raw files."""
    former_fingerprint: str
    """The same including the paths of raw files, as the first versions recorded it."""

    def verify(self) -> None:
        """Compares the files of the splits with their checksums; raises UserError for a damaged one."""
        for reader in self.readers.values():
            reader.verify()


def check_data_options(config: RunConfig) -> None:
    """Raises UserError for a problem option that only training reads; also raises as `problems_of`."""
    for problem in problems_of(config):
        check_declared(problem)
        changed = problem.options.changed()
        for name in problem.options.training_names():
            if name in changed:
                raise UserError(
                    "only training reads it",
                    "give it to t2t-trainer, as with --generate_data",
                    option=name,
                    value=changed[name],
                )


def generate_all(
    config: RunConfig,
    seed: int = DATA_SEED,
    once_forked: Callable[[], object] | None = None,
    workers: int | None = None,
) -> list[Manifest]:
    """Generates the data of each problem of a run; returns the manifests.

    `once_forked` is called once the workers of the last problem exist: it may load libraries that prevent forking.
    `workers` is the number of processes, None for one per core.
    """
    parts = split_config(config)
    return [
        generate(
            _stored_problem(part),
            part.data_folder,
            part.tmp_folder,
            seed=seed,
            workers=workers,
            once_forked=once_forked if part is parts[-1] else None,
        )
        for part in parts
    ]


def learn_shared_vocabulary(config: RunConfig, file: str, seed: int = DATA_SEED) -> RunConfig:
    """Returns a configuration in which all problems use the vocabulary in a file; learns it if the file does not exist.

    It is learned from the training text of all problems, as much of each as for a separate vocabulary, and has the
    kind, size and language tags of the first.

    Raises:
        UserError: a problem that is not of text, or the option `vocab_file`, which names another vocabulary.
        MachineError: the file cannot be written, or an object store does not respond.
    """
    if config.problem_options.get("vocab_file"):
        raise UserError(
            f"--shared_vocab_file={file} and --vocab_file: each names the vocabulary", "leave one of them out"
        )
    path = local_path(file)
    if not exists(path):
        stored: dict[str, Problem] = {}  # by name, since variants share their text
        for _, problem in stored_problems(config):
            if not free_texts(problem) or not isinstance(problem.options, TextOptions):
                raise UserError(
                    f"problem {problem.name} is not a problem of text",
                    "leave it out",
                    option="shared_vocab_file",
                    value=file,
                )
            stored[problem.name] = problem
        first = next(iter(stored.values()))
        encoder = learn_vocabulary(
            first, free_texts(first), _text_of_all(list(stored.values()), config.tmp_folder, seed)
        )
        with os_errors_as_machine_errors(f"cannot write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, encoder.to_bytes())
            publish(path)
        log.info("one vocabulary of %s: %d ids in %s", ", ".join(stored), encoder.vocab_size, path)
    kept = {name: value for name, value in config.problem_options.items() if name not in ("vocab_kind", "vocab_size")}
    return dataclasses.replace(config, problem_options={**kept, "vocab_file": str(path)})


def _text_of_all(problems: Sequence[Problem], tmp_dir: Path, seed: int) -> Iterator[str]:
    for problem in problems:
        fetch_raw_files(problem, tmp_dir)
        with tempfile.TemporaryDirectory() as work_dir:  # so that files are cut into shards only once
            source = Source(tmp_dir, random.Random(f"{seed} {problem.name}"), work_dir=Path(work_dir))
            yield from sampled_text(problem, free_texts(problem), source, lambda size: None)


def stored_problems(config: RunConfig) -> Iterator[tuple[RunConfig, Problem]]:
    """Yields the configuration of each problem and the problem whose data is generated; raises as `split_config`."""
    for part in split_config(config):
        yield part, _stored_problem(part)


def _stored_problem(config: RunConfig) -> Problem:
    """Returns the problem whose data is generated, with the options of data that exists, overridden by those given."""
    problem = get_problem(config.problem, config.problem_options)
    folder = data_folder(config.data_folder, problem)
    refresh(folder)
    if (folder / MANIFEST_NAME).is_file() and (remembered := read_manifest(folder).options):
        problem = get_problem(config.problem, {**remembered, **config.problem_options})
    return problem.stored


def open_data(
    config: RunConfig, problem: Problem, verify: bool = True, known: str = "", splits: Collection[str] | None = None
) -> OpenData:
    """Opens the generated data of a problem, and gives the problem its vocabularies.

    Args:
        config: has the folder of the data.
        problem: whose data.
        verify: compare the files of these splits with their checksums, see `verify_files`.
        known: fingerprints of a run's data, joined by +; the raw files of such data may have moved or be gone.
        splits: which to open, if the data has them; None for all.

    Raises:
        UserError: no data, another problem's or vocabulary's, or a damaged file.
    """
    folder = data_folder(config.data_folder, problem)
    refresh(folder)
    if not folder.is_dir() and config.origins.get("data_dir") == RUN:
        raise UserError(
            f"no data of {problem.stored.name} in {config.data_folder}, where it was when the run in "
            f"{config.output_folder} was trained",
            "name its new place with --data_dir",
        )
    if not folder.is_dir():
        raise UserError(
            f"no data of {problem.stored.name} in {config.data_folder}",
            f"make it with t2t-datagen --problem={problem.stored.name} --data_dir={config.data_folder}, or by "
            "t2t-trainer --generate_data",
        )
    manifest = read_manifest(folder)
    fingerprints = _fingerprints(manifest, problem.options.file_names())
    if manifest.options:
        problem = get_problem(config.problem, {**manifest.options, **config.problem_options})
    check_matches(manifest, folder, problem.stored, is_known=any(one in fingerprints for one in known.split("+")))
    # with the files that the data was made from, which may have moved
    changed = problem.options.changed()
    made_from = {name: manifest.options[name] for name in problem.options.file_names() if name in manifest.options}
    if changed != changed | made_from:
        problem = get_problem(config.problem, changed | made_from)
    opened = [split for split in manifest.splits if splits is None or split in splits]
    fetch_data(folder, manifest, opened)
    problem.with_encoders(load_encoders(folder, manifest))
    readers: dict[str, SplitReader] = {split: SplitReader(folder, manifest, split) for split in opened}
    for reader in readers.values() if verify else ():
        reader.verify()
    marks, columns = problem.languages.marks(), problem.columns or {}
    if marks.input_start or marks.input_end:
        inputs = columns.get(INPUTS, INPUTS)
        around = marks.input_start, marks.input_end
        readers = {split: TaggedReader(reader, inputs, *around) for split, reader in readers.items()}
    if marks.output_start:
        targets = columns.get(TARGETS, TARGETS)
        readers = {split: TaggedReader(reader, targets, marks.output_start) for split, reader in readers.items()}
    return OpenData(problem, manifest, readers, *fingerprints)


def find_missing_data(config: RunConfig) -> list[str]:
    """Returns the names of the problems of a run without generated data."""
    folders = {problem.name: data_folder(config.data_folder, problem) for problem in problems_of(config)}
    for folder in folders.values():
        refresh(folder)
    return [name for name, folder in folders.items() if not (folder / MANIFEST_NAME).is_file()]


def nominal_specs(config: RunConfig) -> list[ProblemSpec]:
    """Returns the features of each problem, assuming nominal vocabulary sizes; raises UserError if they need data."""
    specs = []
    for problem in problems_of(config):
        spec = nominal_spec(problem)
        if spec is None:
            raise UserError(
                f"no data of {problem.stored.name} in {config.data_folder}, and its features are known only from them",
                f"make them with t2t-datagen --problem={problem.stored.name} --data_dir={config.data_folder}",
            )
        specs.append(spec)
    return specs


def open_all(
    config: RunConfig, known: str = "", splits: Collection[str] | None = None, verify: bool = True
) -> list[OpenData]:
    """Opens the data of each problem of a run, see `open_data`."""
    return [
        open_data(part, get_problem(part.problem, part.problem_options), verify, known, splits)
        for part in split_config(config)
    ]


def open_run_data(run: RunDir, data_dir: str, problem: str, split: str, verify: bool = True) -> OpenData:
    """Opens a split of data for one of a run's problems: what the run was trained on, or others with its vocabularies.

    Raises:
        UserError: as `open_data`; other vocabularies, or options that say how examples are read.
    """
    record = run.record.for_problem(problem)
    options = get_problem(record.problem, record.problem_options).options
    config = RunConfig(problem=record.problem, problem_options=_reading_options(options), data_dir=data_dir)
    declared = get_problem(record.problem, config.problem_options)
    _check_there(run, record.data_dir, data_folder(config.data_folder, declared))
    data = open_data(config, declared, verify, known=record.data_fingerprint, splits=(split,))
    for feature, vocabulary in record.vocabularies.items():
        stored = data.manifest.vocabularies.get((declared.columns or {}).get(feature, feature))
        if stored is None or stored.fingerprint != vocabulary.fingerprint:
            found = f"{stored.kind}, fingerprint {stored.fingerprint[:12]}" if stored else "none"
            raise UserError(
                f"the data in {data_folder(config.data_folder, declared)} is of another vocabulary of {feature} than "
                f"the run in {run.path}: the run has {vocabulary.kind}, fingerprint {vocabulary.fingerprint[:12]}, "
                f"the data {found}",
                "give the --data_dir that the run was trained from",
            )
    if record.data_fingerprint and record.data_fingerprint not in (data.fingerprint, data.former_fingerprint):
        log.info("%s is not the data that the run was trained on", data_folder(config.data_folder, declared))
    return data


def _check_there(run: RunDir, trained_from: str, folder: Path) -> None:
    """Raises UserError if there is no data in a folder, but in that from which the run was trained."""
    if not trained_from or folder.is_dir() or not (local_path(trained_from) / folder.name).is_dir():
        return
    refresh(folder)
    if not folder.is_dir():
        raise UserError(
            f"no data in {folder}; the run in {run.path} was trained from {trained_from}",
            f"give --data_dir={trained_from}",
        )


def _reading_options(options: ProblemOptions) -> dict[str, Any]:
    """Returns the options of a run that say how examples are read, which other data must share.

    Others choose the examples, or a vocabulary, which is compared itself. Data may add a language.
    """
    chosen = (*options.file_names(), *options.training_names(), "train_score_column")
    found = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {
        name: value
        for name, value in found.items()
        if name not in chosen
        and not name.startswith(("filter_", "vocab_"))
        and (value or name not in ("source_language", "target_language"))
    }


def check_split(data: OpenData, split: str) -> None:
    """Raises UserError if the problem or its data has no such split."""
    data.problem.check_split(split)
    data.manifest.split(split)


def _fingerprints(manifest: Manifest, file_names: tuple[str, ...]) -> tuple[str, str]:
    """Returns the sha256 of the manifest, without and with the paths of raw files.

    Fields that the first versions did not record are left out, so that their runs recognise their data.
    """
    splits = {name: dataclasses.replace(split, unknown={}, normalized={}) for name, split in manifest.splits.items()}
    former = dataclasses.replace(manifest, written_by="", raw_files={}, declared={}, splits=splits)
    without: dict[str, Any] = {
        part: {name: value for name, value in getattr(former, part).items() if name not in file_names}
        for part in ("settings", "options")
    }
    same = dataclasses.replace(former, **without)
    bare, whole = (hashlib.sha256(one.to_json().encode()).hexdigest() for one in (same, former))
    return bare, whole


def encoders_of(data: Sequence[OpenData]) -> dict[str, TextEncoder]:
    """Returns the vocabulary of each text feature by its name in a run."""
    return merge_problem_entries({one.problem.name: one.problem.encoders for one in data})


def joined_spec(specs: Sequence[ProblemSpec]) -> ProblemSpec:
    """Returns the features of one problem, or of the mixture of several, that a model is built for."""
    if len(specs) == 1:
        return specs[0]
    return ProblemSpec(name=mixture_of(spec.name for spec in specs), members=tuple(specs))
