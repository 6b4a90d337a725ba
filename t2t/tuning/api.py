"""`t2t.tune`: a study as a Python function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from t2t.errors import needs_extra
from t2t.files.paths import StrPath, check_local, local_path
from t2t.runs.arguments import checks_arguments
from t2t.runs.config import TRAIN_OPTIONS, RunConfig
from t2t.tuning.settings import TuneSettings

if TYPE_CHECKING:
    from t2t.tuning.searching import StudyResult


@checks_arguments([name for name in TRAIN_OPTIONS if name != "output_dir"])
def tune(
    problem: str,
    model: str,
    hparams_set: str,
    study: StrPath,
    hparams_range: str,
    *,
    objective: str = "",
    trials: int = 20,
    parallel: int = 1,
    sampler: str = "tpe",
    pruner: str = "median",
    startup_trials: int = 5,
    repeats: int = 0,
    best: int = 1,
    storage: str = "",
    study_name: str = "",
    trial_gpus: int = 0,
    data_dir: StrPath = "",
    hparams: str | Mapping[str, Any] = "",
    train_steps: int | None = None,
    t2t_usr_dir: StrPath | None = None,
    problem_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> StudyResult:
    """Searches for hparams on data that has been generated, as `t2t-tune` does; resumes the study in the folder.

    Each trial is a separate process, so its problem, model and set must be built in or registered by a plug-in.

    Args:
        problem: its name, or the names of several joined by `-`.
        model: name of the model.
        hparams_set: name of the set with the values that are not searched.
        study: folder of the study, with a run for each of its trials.
        hparams_range: name of the range that is searched.
        objective: figure to optimize, such as `dev/bleu`; empty for the one that selects the best checkpoint.
        trials: number of trials, including those already done.
        parallel: trials that train at the same time.
        sampler: algorithm that chooses hparams: `tpe`, `random` or `grid`.
        pruner: algorithm that stops trials early: `median`, `hyperband` or `none`.
        startup_trials: number of trials before sampler and pruner use results; the first has the set's own values.
        repeats: number of other seeds with which the best trials are trained again.
        best: number of best trials to train again.
        storage: URL of a database shared by several machines; empty for a file in the folder.
        study_name: name of the study in the database.
        trial_gpus: GPUs of each trial; 0 = all for every trial.
        data_dir: folder of generated data; empty for `~/t2t_data`.
        hparams: overrides of the set for all trials.
        train_steps: number of the last update; None for the value in the set.
        t2t_usr_dir: folder of the plug-in that defines the named problem, model, set or range.
        problem_options: options of the problem, if its data was generated with any.
        options: others of `t2t.runs.config.RunConfig`, e.g. `local_eval_frequency=100`.

    Returns:
        the results: `best.report.hparams`, `table()`, `records()`.

    Raises:
        ArgumentError: an argument of the wrong type.
        UserError: an unknown name or value, no data, another study in the folder, or all first trials failed.
        MachineError: the folder cannot be written.
        KeyboardInterrupt: on Ctrl-C; the trials have saved, and the same call resumes the study.
    """
    from t2t.runs.startup import load_plugins_quietly

    check_local(study, "--study")
    chosen = TuneSettings(
        objective=objective, trials=trials, parallel=parallel, sampler=sampler, pruner=pruner,
        startup_trials=startup_trials, repeats=repeats, best=best, storage=storage, study_name=study_name,
        trial_gpus=trial_gpus,
    )  # fmt: skip
    options.setdefault("keep_checkpoint_max", 1)
    given = {
        "problem": problem, "model": model, "hparams_set": hparams_set, "hparams": hparams, "train_steps": train_steps,
        "problem_options": problem_options, "data_dir": data_dir, "t2t_usr_dir": t2t_usr_dir,
    }  # fmt: skip
    config = RunConfig.given({**given, **options})
    load_plugins_quietly(config.t2t_usr_dir)
    with needs_extra("tune", "t2t.tune"):
        from t2t.tuning.searching import search

    return search(local_path(study), hparams_range, config, chosen, arguments=_arguments(config))


def _arguments(config: RunConfig) -> tuple[str, ...]:
    """Returns the given options as flags of `t2t-trainer`; raises as `shared_options`."""
    from t2t.runs.names import shared_options

    passed = [name for name in config.origins if name not in ("problem_options", "hparams", "random_seed", "schedule")]
    given = {**{name: getattr(config, name) for name in passed}, **shared_options(config)}
    return tuple(f"--{name}={value}" for name, value in given.items())
