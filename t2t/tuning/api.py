"""`t2t.tune`: a study as a Python function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from t2t.errors import needs_extra
from t2t.files.paths import check_local, local_path
from t2t.runs.api import StrPath
from t2t.runs.arguments import (
    FLAGS,
    as_integer,
    as_options,
    as_overrides,
    as_path,
    as_text,
    checks_arguments,
)
from t2t.runs.settings import Settings
from t2t.tuning.settings import TuneSettings

if TYPE_CHECKING:
    from t2t.runs.names import Request
    from t2t.tuning.results import StudyResult


@checks_arguments(settings=Settings)
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
    usr_dir: StrPath | None = None,
    problem_options: Mapping[str, Any] | None = None,
    **settings: Any,
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
        usr_dir: folder of the plug-in that defines the named problem, model, set or range.
        problem_options: options of the problem, if its data was generated with any.
        settings: fields of `t2t.runs.settings.Settings`, e.g. `eval_every=100`.

    Returns:
        the results: `best.report.hparams`, `table()`, `records()`.

    Raises:
        ArgumentError: an argument of the wrong type.
        UserError: an unknown name or value, no data, another study in the folder, or all first trials failed.
        MachineError: the folder cannot be written.
        KeyboardInterrupt: on Ctrl-C; the trials have saved, and the same call resumes the study.
    """
    from t2t.runs.names import Request, resolve_aliases
    from t2t.runs.startup import load_plugins_quietly

    folder = as_path("study", study, "the folder of the study")
    check_local(folder, "--study")
    chosen = TuneSettings(
        objective=objective, trials=trials, parallel=parallel, sampler=sampler, pruner=pruner,
        startup_trials=startup_trials, repeats=repeats, best=best, storage=storage, study_name=study_name,
        trial_gpus=trial_gpus,
    )  # fmt: skip
    settings.setdefault("keep_checkpoint_max", 1)
    request = Request(
        problem=as_text("problem", problem),
        model=as_text("model", model),
        hparams_set=as_text("hparams_set", hparams_set),
        train_steps=None if train_steps is None else as_integer("train_steps", train_steps),
        problem_options=as_options("problem_options", problem_options),
        data_dir=as_path("data_dir", data_dir),
        usr_dir=as_path("usr_dir", usr_dir),
    )
    load_plugins_quietly(request.usr_dir)
    with needs_extra("tune", "t2t.tune"):
        from t2t.tuning.searching import StudyRequest, search

    return search(
        StudyRequest(
            folder=local_path(folder),
            hparams_range=as_text("hparams_range", hparams_range),
            request=resolve_aliases(request),
            settings=Settings(**settings),
            tune=chosen,
            arguments=_arguments(request, settings),
            hparams=as_overrides(hparams),
        )
    )


def _arguments(request: Request, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the flags of `t2t-trainer` for a request and settings; raises as `flag_options`."""
    from t2t.runs.names import flag_options

    given = {
        "problem": request.problem, "model": request.model, "hparams_set": request.hparams_set,
        "data_dir": request.data_dir, "t2t_usr_dir": request.usr_dir, "train_steps": request.train_steps,
        **flag_options(request),
        **{FLAGS.get(name, name): value for name, value in settings.items() if name not in ("seed", "evaluates")},
    }  # fmt: skip
    return tuple(f"--{name}={value}" for name, value in given.items() if value not in (None, ""))
