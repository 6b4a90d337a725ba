"""A run as it was requested, with its names looked up and all checked that is known before it trains.

TensorFlow is loaded when `model_class` is first read, which imports the model. The record of the run in the output
directory is read once, and the data is opened once.
"""

import dataclasses
import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from t2t.checkpoints.run_dir import RunDir, check_same_seed, near_run
from t2t.checkpoints.run_record import RunRecord, versions
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.features.image import ImageCodes
from t2t.files.paths import check_outside_zoo, local_path, to_record
from t2t.files.remote.mirror import exists
from t2t.hparams.base import HParams
from t2t.hparams.override import assigned_names, drop_overrides, format_overrides
from t2t.problems.base import Problem, declared_spec, feature_of
from t2t.registry import MODALITIES, MODELS, REGISTRIES
from t2t.registry.plugins import Plugin
from t2t.runs.config import NAMES, REMEMBERED, RUN, START, TRAIN_ONLY, RunConfig
from t2t.runs.data import OpenData, encoders_of, find_missing_data, joined_spec, open_all
from t2t.runs.decisions import check_adapters, long_warmup, with_recorded_decisions
from t2t.runs.names import (
    build_hparams,
    check_declared,
    check_family,
    check_mixture,
    get_hparams,
    merge_hparams,
    problems_of,
    resolve_aliases,
    unfit_set,
)
from t2t.runs.run_checks import find_source
from t2t.runs.startup import load_plugins_quietly
from t2t.specs import DEV, TARGETS, TRAIN
from t2t.specs.features import ProblemSpec, merge_problem_entries, split_mixture
from t2t.text.vocabulary_files import describe_encoders

log = logging.getLogger("t2t")

MAY_CHANGE_ON_RESUME = (
    "train_steps", "xla", "best_metric", "early_stopping_steps", "decode_method", "beam_size", "alpha",
    "length_penalty", "coverage_penalty", "shortlist", "min_output_length", "eos_penalty", "no_repeat_ngram_size",
    "constrain_output", "mask_predict_iterations", "length_candidates", "extra_length", "max_input_length",
    "decode_batch_size", "sampling_temperature", "sampling_top_k", "sampling_top_p", "alignments", "replace_unknown",
    "token_scores", "alignment_layer", "alignment_head",
)  # fmt: skip
"""Hparams that a resumed run may change; `train_steps` also shapes the schedules `linear` and `cosine`."""


def changeable_fields(record: RunRecord, data: Sequence[OpenData]) -> tuple[str, ...]:
    """Returns the fields of a run's record that may change when it is resumed, paths of raw files included."""
    # The first runs had paths in the fingerprint of their data.
    same_data = ("data_fingerprint",) if record.data_fingerprint == data[0].former_fingerprint else ()
    files = merge_problem_entries({one.problem.name: dict.fromkeys(one.problem.options.file_names()) for one in data})
    return (*MAY_CHANGE_ON_RESUME, *files, *same_data)


@dataclasses.dataclass(eq=False)
class ResolvedRun:
    """A run: its configuration, and the objects that it names."""

    config: RunConfig
    """Complete."""
    hparams: HParams
    """Of the run, frozen."""
    named_set: HParams
    """The set as named, before changes."""
    plugins: Sequence[Plugin] = ()
    """Those that are loaded."""
    run: RunDir | None = None
    """In the output directory; None for a new run."""
    given_hparams: str = ""
    """Those that the user gave, before records added to them."""

    @classmethod
    def resolve(cls, config: RunConfig, *, generates: bool = False) -> Self:
        """Completes a configuration from the records that it names, and looks its names up.

        Args:
            config: what the user gave.
            generates: whether data is to be generated.

        Raises:
            UserError: a missing or unknown name, a wrong value, or a run that was begun with another seed.
        """
        plugins, given = load_plugins_quietly(config.t2t_usr_dir or None), config
        run = _run_in(config.output_folder) if config.output_dir else None
        config = resolve_aliases(fill_from_start(fill_from_run(config, run, generates=generates)))
        run = run if config.output_dir else _run_in(config.output_folder)
        resolved = cls.of(fill_remembered(config, run), plugins, run)
        resolved.given_hparams = given.hparams
        if given.train_steps is not None:  # it takes precedence
            resolved.given_hparams = drop_overrides(given.hparams, "train_steps")
        return resolved

    @classmethod
    def of(cls, config: RunConfig, plugins: Sequence[Plugin] = (), run: RunDir | None = None) -> Self:
        """Looks up the names of a complete configuration; imports no model.

        Raises:
            UserError: an unknown name, a wrong value, or hparams that do not fit the problems or the model.
        """
        _check_complete(config)
        problems = problems_of(config)
        for problem in problems:
            check_declared(problem)
        hparams, named_set = build_hparams(config)
        resolved = cls(config, hparams.freeze(), named_set, plugins, run)
        resolved.problems = problems
        resolved._check_names()
        return resolved

    @functools.cached_property
    def model_class(self) -> type[Any]:
        """The class of the model, imported at the first use, which closes the registries.

        Raises:
            UserError: it does not accept the set or the problems.
        """
        found = MODELS.get(self.config.model)
        self._check_model(found)
        for registry in REGISTRIES:
            registry.freeze()
        return found

    @functools.cached_property
    def problems(self) -> list[Problem]:
        """The problems, without vocabularies; raises as `problems_of`."""
        return problems_of(self.config)

    @functools.cached_property
    def data(self) -> list[OpenData]:
        """The data of each problem with the splits of training, not yet compared with its checksums.

        Raises:
            UserError: no data, or different data; see `open_data`.
        """
        known = self.run.record.data_fingerprint if self.run else ""
        return open_all(self.config, known=known, splits=(TRAIN, DEV), verify=False)

    @property
    def resumed(self) -> RunDir | None:
        """The run in the output directory, if it can be resumed: one without checkpoints is replaced.

        Raises:
            UserError: its checkpoints are gone.
        """
        return self.run if self.run and self.run.can_resume else None

    def check(self, *, needs_data: bool, generates: bool) -> None:
        """Checks that the run can train, without loading TensorFlow.

        Args:
            needs_data: opens the data.
            generates: looks for the files that missing data is generated from.

        Raises:
            UserError: another run in the output directory, no data or different data, no file to generate it from, no
                checkpoint for the warm start, hparams that only decoding reads, or an output directory in a zoo.
        """
        config, hparams = self.config, self.hparams
        steps = CheckpointStore(self.run.checkpoints_folder).steps() if self.run else []
        check_outside_zoo(config.output_folder, "output_dir")
        if self.run and steps:  # a run without any may be replaced
            self._check_same_run(self.run)
        if hparams.shortlist:
            raise UserError(
                "a shortlist is learned for a trained run, and evaluations while it trains search all pieces",
                "leave it out, and decode the run with --shortlist",
                hparam="shortlist",
                value="True",
            )
        check_same_beginning(self.run, config.warm_start_from)
        if needs_data:
            self.data  # noqa: B018 - errors in it are raised now
        if generates:
            _check_raw_files(config)
        if config.warm_start_from and not self.resumed:
            find_source(config.warm_start_from)
        if hparams.lora_rank and not steps:
            check_adapters(hparams, config)
        goes_on = max(steps, default=0) < hparams.train_steps
        if goes_on and config.cluster.is_chief and (warning := long_warmup(hparams)):
            log.warning(warning)

    def record(self, hparams: HParams, data: Sequence[OpenData]) -> RunRecord:
        """Returns the record of the run with its final hparams, before a warm start."""
        config = self.config
        return RunRecord(
            problem=config.problem,
            model=config.model,
            hparams_set=config.hparams_set,
            overrides=config.hparams,
            hparams=hparams.to_dict(),
            problem_options=merge_problem_entries({one.problem.name: one.problem.options.changed() for one in data}),
            spec=joined_spec([one.problem.spec() for one in data]),
            data_fingerprint="+".join(one.fingerprint for one in data),
            distilled={
                one.problem.name: dataclasses.asdict(one.manifest.distilled) for one in data if one.manifest.distilled
            },
            data_dir=to_record(config.data_folder),
            vocabularies=describe_encoders(encoders_of(data)),
            plugins=[dataclasses.asdict(plugin) for plugin in self.plugins],
            random_seed=config.random_seed,
            settings=config.remembered(),
            versions=versions(),
        )

    def _check_same_run(self, run: RunDir) -> None:
        """Raises UserError if names or hparams differ from those of the run.

        Data and options of the problem are compared when training begins, see `RunDir.check_same`.
        """
        hparams = with_recorded_decisions(self.hparams, run.record.hparams, self.config.hparams)
        requested: dict[str, Any] = {name: getattr(self.config, name) for name in NAMES}
        run.check_same(dataclasses.replace(run.record, **requested, hparams=hparams.to_dict()), MAY_CHANGE_ON_RESUME)

    def _check_names(self) -> None:
        config, hparams = self.config, self.hparams
        check_mixture(hparams, split_mixture(config.problem))
        for problem in self.problems:
            image = feature_of(problem, TARGETS)
            if isinstance(image, ImageCodes) and (complaint := hparams.image_complaint(problem.name, image.shape)):
                raise UserError(complaint)
        modalities = [(MODALITIES, name) for name in (hparams.input_modality, hparams.target_modality) if name]
        for registry, name in [(MODELS, config.model), *modalities]:
            if name not in registry:
                registry.get(name)  # raises, with the nearest names
        if (loaded := MODELS.loaded(config.model)) is not None:
            self._check_model(loaded)
            return
        needed = MODELS.declared(config.model, "hparams_class")  # as its source says
        if needed and needed not in [held.__name__ for held in type(hparams).__mro__]:
            raise unfit_set(config.model, config.hparams_set, needed, hparams)

    def _check_model(self, model_class: type[Any]) -> None:
        """Raises UserError if a model does not accept the set or, where they are known, the features of the problems.

        A new run must not have hparams that nothing reads, either; see `SequenceModel.check_new`.
        """
        config = self.config
        check_family(config.model, config.hparams_set, model_class, self.hparams)
        declared = [spec for problem in self.problems if (spec := declared_spec(problem)) is not None]
        all_features = declared[0] if len(declared) == 1 else ProblemSpec(name=config.problem, members=tuple(declared))
        for spec in declared if len(declared) < 2 else [*declared, all_features]:
            model_class.check_accepts(spec)
        if len(declared) == len(self.problems) and self.run is None:
            model_class.check_new(self.hparams, self.named_set, all_features)


# === What records add to a configuration ===
def fill_from_run(config: RunConfig, run: RunDir | None, *, generates: bool = False) -> RunConfig:
    """Completes the names, hparams, options of the problem and folder of data from the run in `output_dir`.

    A set from the run comes with its overrides and `train_steps`, a problem with its options; those given take
    precedence. `data_dir` is filled in only if data is just read: a run never decides what is written.

    Raises:
        UserError: data would be generated in the default folder while the run reads it from another.
    """
    if run is None:
        return config
    record = run.record
    found: dict[str, Any] = {name: getattr(record, name) for name in NAMES if not getattr(config, name)}
    if "hparams_set" in found:
        found["hparams"] = merge_hparams(record.hparams_set, record.overrides, config.hparams)
        if config.train_steps is None and "train_steps" not in assigned_names(config.hparams):
            found["train_steps"] = record.hparams["train"]["train_steps"]
    if "problem" in found:
        found["problem_options"] = {**record.problem_options, **config.problem_options}
    if not config.data_dir and record.data_dir and not generates:
        found["data_dir"] = record.data_dir
    elif not config.data_dir and record.data_dir and record.data_dir != to_record(config.data_folder):
        raise UserError(
            f"the run in {run.path} reads its data from {record.data_dir}",
            "name the folder to generate into with --data_dir, or leave out --generate_data to resume the run",
            option="generate_data",
        )
    return config.filled(RUN, **found)


def fill_from_start(config: RunConfig) -> RunConfig:
    """Completes missing names from the run whose weights a warm start takes, if it is one.

    A set from that run comes with its hparams of the network, and of mixtures if the problem is that run's, too;
    those given take precedence. All else is of the new run: how it trains, its data and options of the problem.

    Raises:
        UserError: names are missing and `warm_start_from` is in no run.
    """
    names = [name for name in NAMES if not getattr(config, name)]
    if not config.warm_start_from or not names:
        return config
    path = local_path(config.warm_start_from)
    if not RunDir.exists(path):
        path = path.resolve().parent.parent  # of a checkpoint
        if not RunDir.exists(path):
            raise UserError(
                f"{', '.join(f'--{name}' for name in names)}: not given, and "
                f"--warm_start_from={config.warm_start_from} has no run to take them from",
                "name one each, or a run",
            )
    record = RunDir.open(path).record
    found: dict[str, Any] = {name: getattr(record, name) for name in names}
    if "hparams_set" in found:
        sections = ("model", "mixture") if "problem" in found else ("model",)
        theirs = {name: value for section in sections for name, value in record.hparams.get(section, {}).items()}
        named_set = get_hparams(record.hparams_set)
        changed = {name: value for name, (_, value) in named_set.replace(**theirs).difference(named_set).items()}
        found["hparams"] = merge_hparams(record.hparams_set, format_overrides(changed), config.hparams)
    return config.filled(START, **found)


def fill_remembered(config: RunConfig, run: RunDir | None) -> RunConfig:
    """Completes the options of `REMEMBERED` and the seed from the run that is resumed.

    The number of best checkpoints is left as it is recorded if it is not given, and the run does not evaluate now.

    Raises:
        UserError: the run has checkpoints and was begun with another seed than the one that is given.
    """
    if run is None:
        return config
    recorded = run.record.settings.items()
    found = {name: value for name, value in recorded if name in REMEMBERED and name not in config.origins}
    schedule, steps = (found.get(name, getattr(config, name)) for name in ("schedule", "eval_steps"))
    if schedule == TRAIN_ONLY or steps == 0:
        found.pop("keep_best_checkpoints", None)
    if "random_seed" not in config.origins:
        found["random_seed"] = run.seed
    elif run.first_seed is not None:
        check_same_seed(run.path, run.first_seed, config.random_seed)
    return config.filled(RUN, **found)


# === Checks ===
def _run_in(folder: Path) -> RunDir | None:
    return RunDir.open(folder) if RunDir.exists(folder) else None


def _check_complete(config: RunConfig) -> None:
    """Raises UserError for names that are missing."""
    missing = [f"--{name}" for name in NAMES if not getattr(config, name)]
    if missing and config.output_dir and not RunDir.exists(config.output_folder):
        folder = config.output_folder
        raise UserError(
            f"{', '.join(missing)}: not given, and {folder} has no run or study to take them from; "
            f"{near_run(folder)}for a new one, name one each",
            "list what there is with --registry_help",
        )
    if missing:
        raise UserError(f"{', '.join(missing)}: not given; name one each", "list what there is with --registry_help")


def _check_raw_files(config: RunConfig) -> None:
    """Raises UserError if a file is missing from which the data of a problem is to be generated."""
    missing = find_missing_data(config)
    for options in (problem.options for problem in problems_of(config) if problem.name in missing):
        for name in options.file_names():
            for path in options.paths(name):
                if not exists(path):
                    raise UserError("there is no such file", "check the path", option=name, value=path)


def check_same_beginning(run: RunDir | None, warm_start_from: str) -> None:
    """Raises UserError if a run without checkpoints began with a warm start and would begin again without one."""
    if warm_start_from or run is None:
        return
    start = run.record.warm_start
    if start and not run.has_checkpoints:
        raise UserError(
            f"the run there began with --warm_start_from={start.get('from')} and has no checkpoint",
            "give that flag again, with the others of its command, or use another --output_dir",
            option="output_dir",
            value=run.path,
        )
