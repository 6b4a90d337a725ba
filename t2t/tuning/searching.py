"""Runs a study as the user requests it, and returns its results: a table, TSV, JSON, and the best set as code."""

import dataclasses
import json
import logging
import statistics
from pathlib import Path
from typing import Any

from t2t.checkpoints.checkpoint import fingerprint_of
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.paths import check_outside_zoo
from t2t.files.tables import aligned, to_tsv
from t2t.hparams.base import HParams
from t2t.hparams.override import assigned_names, join_overrides
from t2t.hparams.ranges import RangedHParams
from t2t.registry import HPARAMS_RANGES
from t2t.registry.overrides import plugin_errors
from t2t.runs.config import RunConfig
from t2t.runs.data import find_missing_data, generate_all
from t2t.runs.experiment import Experiment
from t2t.runs.names import resolve_aliases
from t2t.runs.run_checks import find_source
from t2t.tuning.settings import RECORD_FILE, Objective, TuneSettings, resolve_objective
from t2t.tuning.space import own_values
from t2t.tuning.study import Study, TrialReport
from t2t.tuning.tuner import TrialCommand, Tuner, repeat_folders

_SHOWN = 12
"""Digits of a fingerprint, as in messages."""
TSV_FILE, JSON_FILE, SET_FILE = "results.tsv", "results.json", "best_set.py"
log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class TrialRow:
    """A trial and its repeats with other seeds."""

    report: TrialReport
    repeats: tuple[float, ...] = ()
    """Best value of each."""

    @property
    def mean(self) -> float | None:
        """Mean over the other seeds, without the trial's own value, by which it was chosen; None without repeats."""
        return statistics.fmean(self.repeats) if self.repeats else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over the other seeds; None for fewer than two."""
        return statistics.stdev(self.repeats) if len(self.repeats) > 1 else None


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """The results of a study."""

    study: Path
    """Folder of its runs and of the files with these results."""
    objective: Objective
    rows: tuple[TrialRow, ...]
    """Best first; trials with repeats come before others, ordered by the mean of the repeats."""
    hparams_set: str
    """The set that trials start from."""
    overrides: str
    """Overrides of the set that all trials share."""

    @property
    def best(self) -> TrialRow | None:
        """The best trial; None if no trial has a value."""
        return next((row for row in self.rows if row.report.value is not None and row.report.state != "failed"), None)

    def records(self) -> list[dict[str, Any]]:
        """Returns a dict for each trial, all with the same keys; an hparam that a trial does not read is None."""
        names = dict.fromkeys(name for row in self.rows for name in row.report.hparams)
        return [
            {
                "trial": row.report.number,
                "state": row.report.state,
                self.objective.figure: row.report.value,
                "at_update": row.report.update,
                "updates": row.report.updates,
                "repeats": list(row.repeats),
                "mean": row.mean,
                "deviation": row.deviation,
                **{name: row.report.hparams.get(name) for name in names},
                "run": row.report.folder,
                "error": row.report.error,
            }
            for row in self.rows
        ]

    def table(self) -> str:
        """Returns the table for a terminal, without empty columns and the paths."""
        records = [{**one, "repeats": " ".join(f"{value:.4g}" for value in one["repeats"])} for one in self.records()]
        hidden = {"run", *(name for name in records[0] if all(one[name] in (None, "") for one in records))}
        return aligned([{name: value for name, value in one.items() if name not in hidden} for one in records])

    def best_set(self, named_set: HParams, hparams: HParams) -> str:
        """Returns a Python module that registers the best hparams as a set.

        Args:
            named_set: the set that trials start from.
            hparams: of the best trial.
        """
        assert self.best is not None, "there is a best trial"
        report, name = self.best.report, f"{self.hparams_set}_tuned"
        changes = {field: value for field, (_, value) in hparams.difference(named_set).items()}
        lines = "".join(f"        {field}={value!r},\n" for field, value in changes.items())
        replaced = f".replace(\n{lines}    )" if lines else ""
        return (
            "from t2t.registry import HPARAMS, register_hparams\n\n\n"
            "@register_hparams\n"
            f"def {name}():\n"
            f'    """{self.hparams_set} with the best of {len(self.rows)} trials: {self.objective.key} '
            f'{report.value:.4g} at update {report.update}."""\n'
            f'    return HPARAMS.get("{self.hparams_set}")(){replaced}\n'
        )

    def write(self, named_set: HParams, hparams: HParams | None) -> None:
        """Writes `results.tsv`, `results.json` and, if there is a best trial, `best_set.py` into the folder."""
        found = {
            "objective": self.objective.key,
            "higher_is_better": self.objective.higher_is_better,
            "hparams_set": self.hparams_set,
            "hparams": self.overrides,
            "trials": self.records(),
        }
        files = {TSV_FILE: to_tsv(self.records()), JSON_FILE: json.dumps(found, indent=2) + "\n"}
        if hparams is not None:
            files[SET_FILE] = self.best_set(named_set, hparams)
        with os_errors_as_machine_errors(f"cannot write {self.study}"):
            for name, text in files.items():
                write_atomically(self.study / name, text.encode())


def collect(
    study: Path,
    objective: Objective,
    reports: list[TrialReport],
    settings: TuneSettings,
    hparams_set: str,
    overrides: str,
) -> StudyResult:
    """Returns the results so far, with the repeats that have been evaluated."""
    rows = []
    for report in reports:
        found = [objective.best(objective.values(folder)) for folder in repeat_folders(study, report, settings)]
        rows.append(TrialRow(report, tuple(best[1] for best in found if best)))
    repeated = [row for row in rows if row.mean is not None]
    repeated.sort(key=lambda row: objective.cost(row.mean or 0.0))
    rest = [row for row in rows if row.mean is None]
    return StudyResult(study, objective, (*repeated, *rest), hparams_set, overrides)


def search(
    folder: Path,
    hparams_range: str,
    config: RunConfig,
    tune: TuneSettings,
    arguments: tuple[str, ...],
    decode: str = "",
    record: str = "",
    generates: bool = False,
) -> StudyResult:
    """Runs or resumes a study; returns its results, which are also written to its folder.

    Args:
        folder: of the study and its runs.
        hparams_range: its name.
        config: of the trials, without the searched hparams; its `output_dir` is not read.
        tune: how the study is carried out.
        arguments: `config` as flags of `t2t-trainer`, without --output_dir, --hparams and --random_seed.
        decode: overrides of hparams that `arguments` has as separate flags.
        record: content of the file from which `t2t-tune --study` alone resumes; empty if no command runs the study.
        generates: whether to generate the data first.

    Raises:
        UserError: a wrong name, range or objective, no data, another study in the folder, or all first trials failed.
        MachineError: the folder cannot be written.
    """
    check_outside_zoo(folder, "study")
    given = resolve_aliases(config)

    def experiment_of(overrides: str) -> Experiment:
        """Returns the run with these overrides and the search flags."""
        return Experiment.of(dataclasses.replace(given, hparams=join_overrides((overrides, decode))))

    experiment = experiment_of(given.hparams)
    config, hparams = experiment.config, experiment.hparams
    ranged = get_range(hparams_range, config.hparams)
    ranged.check(hparams)
    _check_evaluations(config, hparams, ranged)
    objective = resolve_objective(tune.objective, experiment.problems, hparams, config.hparams)
    common = join_overrides((given.hparams, objective.change))
    experiment.check(needs_data=not generates, generates=generates)
    study = Study(
        folder, tune, objective, ranged, _identity(experiment, ranged, objective),
        own_values(ranged, hparams), config.random_seed, hparams.train_steps,
    )  # fmt: skip
    if record:
        with os_errors_as_machine_errors(f"cannot write {folder}"):
            write_atomically(folder / RECORD_FILE, record.encode())
    if generates:
        generate_all(config)
        study.check_identity(_identity(experiment, ranged, objective))
    command = TrialCommand(arguments, common, config.hparams_set, config.random_seed, experiment_of)

    def results() -> StudyResult:
        found = collect(folder, objective, study.reports(), tune, config.hparams_set, common)
        best = found.best
        tuned = None
        if best is not None:
            tuned = experiment_of(command.overrides_of(best.report.hparams)).hparams
        found.write(experiment.named_set, tuned)
        return found

    Tuner(study, command, tune).run(results)
    found = results()
    reports = [row.report for row in found.rows if row.report.state != "failed"]
    values = [one.value for one in reports if one.value is not None]
    if found.best and len(values) > 1 and len(set(values)) == 1:
        log.warning(
            "all trials have the same %s, %.4g, so that none is better than the others; train them longer, search a "
            "wider range or choose another --objective",
            objective.figure, found.best.report.value,
        )  # fmt: skip
    return found


def _check_evaluations(config: RunConfig, hparams: HParams, ranged: RangedHParams) -> None:
    """Raises UserError if trials are not evaluated; warns if their evaluations compare them poorly."""
    if not config.evaluates:
        raise UserError("trials are compared by their evaluations", "leave it out", option="eval_steps", value="0")
    if config.local_eval_frequency > hparams.train_steps:
        log.warning(
            "--local_eval_frequency=%d: trials of %d updates are evaluated only at their end, so that none is "
            "stopped early",
            config.local_eval_frequency,
            hparams.train_steps,
        )
    if "batch_size" in ranged.ranges:
        log.warning(
            "--eval_steps=%d counts batches, and trials have batches of other sizes: where it is not all of the dev "
            "split, they are compared on other numbers of examples",
            config.eval_steps,
        )


def _identity(experiment: Experiment, ranged: RangedHParams, objective: Objective) -> dict[str, Any]:
    """Returns the values that identify a study, by their names in messages; of data only once it is there."""
    config, fingerprint = experiment.config, ""
    if config.warm_start_from:
        store, which = find_source(config.warm_start_from)
        fingerprint = fingerprint_of(store.find(which))[:_SHOWN]
    options = [field for problem in experiment.problems for field in dataclasses.fields(problem.options)]
    defaults, given = {field.name: field.default for field in options}, config.problem_options.items()
    changed = {name: value for name, value in given if value != defaults.get(name.rpartition(".")[2])}
    found = {
        "problem": config.problem, "model": config.model, "hparams_set": config.hparams_set,
        "hparams": config.hparams, "train_steps": experiment.hparams.train_steps, "problem options": changed,
        "range": ranged.to_dict(), "objective": objective.key, "random_seed": config.random_seed,
        "local_eval_frequency": config.local_eval_frequency, "eval_steps": config.eval_steps,
        "fingerprint of warm_start_from": fingerprint,
        "warm_start_other_vocabulary": config.warm_start_other_vocabulary,
        "warm_start_optimizer": config.warm_start_optimizer,
    }  # fmt: skip
    if not find_missing_data(config):
        found["fingerprint of the data"] = "+".join(one.fingerprint[:_SHOWN] for one in experiment.data)
    return found


def get_range(name: str, overrides: str) -> RangedHParams:
    """Returns the range with a name, without the hparams that `--hparams` sets.

    Raises:
        UserError: no such range, one whose function takes other arguments, or one that contains `train_steps`.
    """
    if not name:
        raise UserError("not given; name one", "list what there is with --registry_help", option="hparams_range")
    ranged = RangedHParams()
    function = HPARAMS_RANGES.get(name)
    with plugin_errors(function, "failed"):
        function(ranged)
    for field in sorted(assigned_names(overrides) & ranged.ranges.keys()):
        log.info("%s is not searched: --hparams sets it", field)
        del ranged.ranges[field]
    if "train_steps" in ranged.ranges:
        raise UserError(
            "it has train_steps, and a trial is better just because it trains longer",
            "leave it out",
            option="hparams_range",
            value=name,
        )
    return ranged
