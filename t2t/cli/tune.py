"""`t2t-tune`: hparams search by many trials, each an ordinary run."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.common import command
from t2t.cli.config import fill_from_file, format_config, given_flags
from t2t.cli.decoding_flags import given_hparams, search_overrides
from t2t.cli.flags import NAMES, RUN, command_flags, define_alias, define_field_flag, flag_group
from t2t.cli.problem_flags import config_of, lists_registry
from t2t.cli.tensor2tensor import RUN_FLAGS, UnusedFlag, define_unused_flags
from t2t.cli.trainer import define_trainer_flags
from t2t.errors import UserError, needs_extra
from t2t.files.paths import local_path, to_record
from t2t.runs.config import RunConfig
from t2t.runs.names import problems_of
from t2t.runs.resolving import fill_from_start
from t2t.tuning.settings import RECORD_FILE, TuneSettings, absolute_storage

USAGE = """
Searches for hparams: trains trials with different values from a range, stops those that fall behind, and shows the
best. Each trial is a run in the folder of the study, which all other commands accept.

    %s --study=study --hparams_range=transformer_quickstart_range --data_dir=data \\
      --problem=translate_ende_numbers --model=transformer --hparams_set=transformer_quickstart \\
      --train_steps=300 --local_eval_frequency=50 --trials=20 --parallel=2
    %s --study=study                (resumes the study)
    %s --study=study --trials=40 --repeats=3 --best=2
    %s --registry_help=range        (all ranges)

Flags of the trainer apply to all trials. The first trial has the unchanged values of --hparams_set. After a crash of
this command, of a trial or of the machine, the same command resumes the same trials. Results are also written to the
folder: results.tsv, results.json, and best_set.py, which registers the best values as an hparams set.
"""

_TUNE = "Search"
_TUNE_FLAGS = (
    "objective", "trials", "parallel", "sampler", "pruner", "startup_trials", "repeats", "best", "storage",
    "study_name", "trial_gpus",
)  # fmt: skip
_NOT_FOR_TRIALS = (
    "output_dir", "schedule", "dry_run", "decode_from_file", "decode_to_file", "decode_interactive", "decode_reference",
    "worker_hosts", "worker_index", "hparams_range", "print_config",
)  # fmt: skip
_NOT_OF_TRIALS = ("study", "hparams_range", "random_seed", "generate_data", *_TUNE_FLAGS)
"""Flags that are not passed on to the trials."""
_AUTOTUNE = {"objective": "autotune_objective", "trials": "autotune_max_trials", "parallel": "autotune_parallel_trials"}
"""Flag -> its name in Tensor2Tensor."""
_UNUSED = {
    "autotune": UnusedFlag("this command always searches", "false"),
    "autotune_maximize": UnusedFlag("each metric says whether higher is better", "true"),
}


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trainer_flags(values)
    for name in (*_NOT_FOR_TRIALS, *_UNUSED, *_AUTOTUNE.values()):
        delattr(values, name)
    with flag_group(values, RUN) as define:
        define.string("study", "", "Folder of the study, which contains its runs.")
        define_alias("output_dir", "study", flag_values=values)
    with flag_group(values, NAMES) as define:
        define.string("hparams_range", "", "Name of the range of hparams to search.")
    with flag_group(values, _TUNE):
        for name in _TUNE_FLAGS:
            define_field_flag(values, name, TuneSettings)
        for name, theirs in _AUTOTUNE.items():
            define_alias(theirs, name, flag_values=values)
    values["keep_checkpoint_max"].default = 1
    values["keep_checkpoint_max"].value = 1
    define_unused_flags(values, {**RUN_FLAGS, **_UNUSED})


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    folder = local_path(values.study)
    if values.study and (folder / RECORD_FILE).is_file():
        fill_from_file(values, folder / RECORD_FILE)
    if lists_registry(values):
        return 0
    if not values.study:
        raise UserError("not given", "name the folder of the study, new or begun", option="study")
    if RunDir.exists(folder):
        raise UserError(
            "it holds a training run, not a study", "name another folder", option="study", value=values.study
        )
    with needs_extra("tune", "t2t-tune"):
        from t2t.tuning import searching
    hparams = given_hparams(values)
    config = dataclasses.replace(config_of(values), hparams=hparams, keep_checkpoint_max=values.keep_checkpoint_max)
    config = _with_absolute_paths(values, fill_from_start(config))  # as each trial does
    of_trials = {**given_flags(values, _NOT_OF_TRIALS), "keep_checkpoint_max": values.keep_checkpoint_max}
    record = given_flags(values, ("study", "generate_data")) | ({"hparams": hparams} if hparams else {})
    found = searching.search(
        folder,
        values.hparams_range,
        config,
        TuneSettings(**{name: values[name].value for name in _TUNE_FLAGS}),
        _arguments(of_trials),
        decode=search_overrides(values),
        record=format_config(record, {}),
        generates=values.generate_data,
    )
    print(found.table())
    return 0


def _with_absolute_paths(values: flags.FlagValues, config: RunConfig) -> RunConfig:
    """Makes the paths of flags and of the run absolute: a study may be resumed in another working directory."""
    paths = ("data_dir", "tmp_dir", "t2t_usr_dir", "warm_start_from")
    for name in paths:
        if values[name].value:
            values[name].value = to_record(local_path(values[name].value))
    values.storage = absolute_storage(values.storage)
    options = dict(config.problem_options)
    for problem in problems_of(config) if config.problem else ():
        changed = problem.options.changed()
        for name in problem.options.file_names():
            if name in options and name in changed:
                options[name] = values[name].value = changed[name]
    absolute: dict[str, Any] = {name: values[name].value or "" for name in paths}
    return dataclasses.replace(config, problem_options=options, **absolute)


def _arguments(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Formats flags as command-line arguments."""
    values = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
    return tuple(f"--{name}={one}" for name, several in values.items() for one in several)
