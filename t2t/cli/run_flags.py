"""Flags of a trained run, and opening and loading the runs that they name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.decoding_flags import decoding_devices, engine_choice, trained_overrides
from t2t.cli.flags import NAMES, RUN, define_alias, define_usr_dir_flag, flag_group
from t2t.files.paths import names_zoo
from t2t.inference.shortlist import read_shortlist
from t2t.runs.run_checks import check_loadable, check_own_checkpoints, open_run, select_problems
from t2t.runs.startup import load_plugins_quietly


def define_trained_flags(values: flags.FlagValues, one_checkpoint: bool = True) -> None:
    """Defines the flags of a run and, with `one_checkpoint`, its checkpoint; names and hparams are optional checks."""
    with flag_group(values, RUN) as define:
        define.string("output_dir", "", "Folder of the run, the --output_dir of t2t-trainer.")
        if one_checkpoint:
            define.string("checkpoint", "latest", "latest, best (also best.PROBLEM in a run of several problems), "
                          "best:5 for the mean of the best 5, averaged, a step, or the path of a checkpoint or run."
                          )  # fmt: skip
            define_alias("checkpoint_path", "checkpoint", flag_values=values)
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("problem", "", "Problem of the run, checked if given; selects one in a run of several.")
        define_alias("problems", "problem", flag_values=values)
        define.string("model", "", "Model of the run, checked if given.")
        define.string("hparams_set", "", "Hparams set of the run, checked if given.")
        define.multi_string("hparams", [], "Changes to decoding hparams; other hparams are only checked against those "
                            "of the run.")  # fmt: skip


def open_trained_run(values: flags.FlagValues) -> RunDir:
    """Opens the run that the flags of `define_trained_flags` name, and checks it without loading TensorFlow.

    Raises:
        UserError: see `open_run` and `check_run_loadable`.
    """
    return open_trained_runs(values, [values.output_dir])[0]


def open_trained_runs(values: flags.FlagValues, folders: Sequence[str] = ()) -> list[RunDir]:
    """Does as `open_trained_run` for each run in `folders`, by default those in --output_dir, separated by commas."""
    names = (values.problem, values.model, values.hparams_set, values.t2t_usr_dir)
    runs = [open_run(folder, *names) for folder in folders or split_folders(values.output_dir)]
    for run in runs:
        check_run_loadable(run, values)
    if len(runs) > 1:
        check_own_checkpoints(runs, values.checkpoint)
    if "shortlist" in values and values.shortlist:  # an ensemble uses the shortlist of its first run
        for problem in select_problems(runs[0], values.problem):
            read_shortlist(runs[0], problem)
    return runs


def check_run_loadable(run: RunDir, values: flags.FlagValues, checkpoint: str = "") -> None:
    """Raises UserError for a missing plug-in or checkpoint and wrong search flags; `checkpoint` overrides the flag."""
    plugins = load_plugins_quietly(values.t2t_usr_dir)
    check_loadable(run, plugins, checkpoint or values.checkpoint, trained_overrides(values))
    engine_choice(values).check()


def load_run(
    values: flags.FlagValues,
    output_dir: str | Path,
    problem: str,
    checkpoint: str = "",
    many_rows: bool = False,
) -> Any:
    """Returns the `t2t.runs.loading.LoadedRun` that the flags describe; see `t2t.runs.loading.load`."""
    from t2t.runs.loading import load

    return load(
        output_dir,
        checkpoint or values.checkpoint,
        engine=engine_choice(values),
        **loading_arguments(values, problem, many_rows),
    )


def load_runs(values: flags.FlagValues, runs: Sequence[RunDir], problem: str, many_rows: bool = False) -> Any:
    """Loads one run as `load_run` does, or an ensemble of several."""
    from t2t.runs import loading

    return loading.load_runs(
        [(run.path, values.checkpoint) for run in runs],
        values.ensemble_average,
        engine_choice(values),
        **loading_arguments(values, problem, many_rows),
    )


def loading_arguments(values: flags.FlagValues, problem: str, many_rows: bool) -> dict[str, Any]:
    """Returns the arguments of `t2t.runs.loading.load` that are the same for all runs of an ensemble."""
    return {
        "t2t_usr_dir": values.t2t_usr_dir or None,
        "decode_overrides": trained_overrides(values),
        "problem": problem,
        "devices": decoding_devices(values),
        "many_rows": many_rows,
    }


def split_folders(output_dir: str) -> list[str]:
    """Splits --output_dir at commas, unless the whole is the name of an existing run; returns the folders."""
    folders = [folder for part in output_dir.split(",") if (folder := part.strip())]
    is_address = "://" in output_dir or names_zoo(output_dir)
    one = len(folders) < 2 or (not is_address and RunDir.exists(output_dir))
    return [output_dir] if one else folders
