"""`t2t-trainer`: generates data, trains, evaluates and decodes."""

import logging
import sys
from collections.abc import Iterable

from absl import flags

from t2t.cli.common import command
from t2t.cli.config import define_config_flag, format_config, given_flags, hparams_of_file, unset_of_file
from t2t.cli.decoding import (
    check_files,
    check_reference,
    check_scoring,
    decode_file,
    decode_interactively,
)
from t2t.cli.decoding_flags import OUTPUT_FLAGS, define_search_flags, search_overrides
from t2t.cli.flags import (
    DATA,
    DECODING,
    MACHINE,
    NAMES,
    RUN,
    TRAINING,
    WARM_START,
    command_flags,
    define_field_flag,
    flag_group,
    is_given,
    is_of_file,
)
from t2t.cli.problem_flags import config_of, define_problem_flags, lists_registry
from t2t.cli.server import needs_serving
from t2t.cli.tensor2tensor import (
    EVALUATE,
    EVALUATE_TRAIN,
    RUN_FLAGS,
    SCHEDULES,
    check_schedule,
    define_unused_flags,
)
from t2t.errors import UserError
from t2t.files.progress import write_line
from t2t.hparams.groups import TrainHParams
from t2t.hparams.override import assigned_names, join_overrides
from t2t.runs.config import TRAIN_AND_EVALUATE, RunConfig
from t2t.runs.data import find_missing_data, generate_all, nominal_specs
from t2t.runs.experiment import Experiment
from t2t.runs.names import shared_options
from t2t.runs.startup import prepare_framework
from t2t.specs import DEFAULT_TRAIN_DIR, DEV, TRAIN
from t2t.specs.features import split_mixture
from t2t.tracking import build_trackers, check_trackers

USAGE = """
Trains a model on a problem; if --output_dir holds an interrupted run, resumes it exactly, with
its own settings unless others are given.

    %s --generate_data --problem=translate_ende_numbers --model=transformer \\
      --hparams_set=transformer_quickstart --output_dir=run --decode_interactive
    %s --output_dir=run             (resumes the run)
    %s --problems=translate_ende_numbers-algorithmic_reverse_decimal40 ...  (several)
    %s --registry_help              (all problems, models and hparams sets)
    %s --registry_help=transformer  (those whose name contains the text)
"""

log = logging.getLogger("t2t")


def define_trainer_flags(values: flags.FlagValues) -> None:
    """Defines the flags that `t2t-trainer` shares with `t2t-tune`."""
    define_problem_flags(values, goes_on=True)
    with flag_group(values, NAMES) as define:
        define.string("model", "", "Name of the model.")
        define.string("hparams_set", "", "Name of the hparams set.")
        define.multi_string("hparams", [], "Changes to the set: name=value,name=[v1,v2].")
    with flag_group(values, RUN) as define:
        define.string("output_dir", "", f"Folder of the run; empty for "
                      f"{DEFAULT_TRAIN_DIR}/<problem>/<model>-<hparams_set>.")  # fmt: skip
    define_config_flag(values)
    with flag_group(values, RUN) as define:
        define.boolean("print_config", False, "Prints the configuration of the run as a file for --config, with "
                       "comments that say where values are from, and stops.")  # fmt: skip
    with flag_group(values, DATA) as define:
        define.boolean("generate_data", False, "Generates the data first; existing data is kept.")
    with flag_group(values, TRAINING) as define:
        define.string("schedule", TRAIN_AND_EVALUATE, f"Alternate training and evaluation, only train, or only "
                      f"evaluate the latest checkpoint: {', '.join(SCHEDULES)}.")  # fmt: skip
        more = "; unset for the value of the hparams set, or of the run in --output_dir"
        define_field_flag(values, "train_steps", TrainHParams, default=None, more=more)
        more = "; unset for the seed of the run in --output_dir, or 0 for a new run"
        define_field_flag(values, "random_seed", RunConfig, default=None, more=more)
        define.boolean("dry_run", False, "Prints the planned run, its parameters and memory, times two updates, and "
                       "stops; without data it times none. Writes nothing.")  # fmt: skip
    for heading, names in RUN_OPTIONS.items():
        with flag_group(values, heading):
            for name in names:
                more = ", and no limit with --schedule=evaluate" if name == "eval_steps" else ""
                define_field_flag(values, name, RunConfig, more=more)
    define_search_flags(values)
    with flag_group(values, DECODING) as define:
        define.string("decode_from_file", "", "After training, decodes this file, plain or gzip; - for standard input.")
        define.string("decode_to_file", "", "Output file of --decode_from_file; see t2t-decoder.")
        define.boolean("decode_interactive", False, "After training, translates typed text.")
        define.string(
            "decode_reference", "", "File of references for --decode_from_file, several with commas; prints scores."
        )
    define_unused_flags(values, RUN_FLAGS)


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trainer_flags(values)
    with flag_group(values, TRAINING) as define:
        define.boolean("studio", False, "Serves the pages of t2t-insight while the run trains, on a free local port "
                       "whose address is printed.")  # fmt: skip
        define.string("track", "", "Experiment trackers that log hparams, figures and how the run ends, separated by "
                      "commas: mlflow, wandb.")  # fmt: skip


RUN_OPTIONS = {
    TRAINING: (
        "eval_steps",
        "local_eval_frequency",
        "keep_checkpoint_max",
        "keep_best_checkpoints",
        "log_step_count_steps",
    ),
    MACHINE: ("worker_gpu", "worker_cpu", "weight_shards", "worker_hosts", "worker_index"),
    WARM_START: ("warm_start_from", "warm_start_other_vocabulary", "warm_start_optimizer"),
}
"""Flags of how a run is carried out, by heading."""
_OF_TRAINING = (
    "studio", "track", "dry_run", "decode_from_file", "decode_interactive", "warm_start_from", "keep_best_checkpoints",
)  # fmt: skip
"""Flags of training, and of decoding after it."""
_ONLY_WITH_SOME = ("decode_to_file", "decode_reference", "warm_start_other_vocabulary", "warm_start_optimizer")
"""Flags that only go with some of these."""


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if lists_registry(values):
        return 0
    check_schedule(values)
    evaluates_only = values.schedule in (EVALUATE, EVALUATE_TRAIN)
    experiment = Experiment.resolve(config_of(values), generates=values.generate_data)
    config = experiment.config
    if values.print_config:
        print(_config_file(values, experiment), end="")
        return 0
    if evaluates_only:
        unset_of_file(values, (*_OF_TRAINING, *_ONLY_WITH_SOME))
    _check_flags(values, experiment, evaluates_only)
    is_dry, is_chief = values.dry_run, config.cluster.is_chief
    generates = values.generate_data and not is_dry
    if not evaluates_only:
        experiment.check(needs_data=not generates and not is_dry, generates=generates and is_chief)
    if generates and is_chief:  # before TensorFlow starts, so that worker processes can be forked
        generate_all(config, once_forked=lambda: _check_model(experiment, trains=not evaluates_only))
    if evaluates_only:
        split = DEV if values.schedule == EVALUATE else TRAIN
        for found in experiment.evaluate(split, values.eval_steps) if is_chief else ():
            print(found)
        return 0
    if is_dry:
        return _dry_run(experiment)
    if not _only_decodes(values, experiment) and (stopped_by := _train(values, experiment)):
        return 128 + stopped_by
    if is_chief and _decodes(values):
        _decode(values, experiment)
    return 0


def _config_file(values: flags.FlagValues, experiment: Experiment) -> str:
    """Returns the given flags, completed from the run in --output_dir, as the text of a --config file.

    A comment says of each value that is not from the command line where it is from.
    """
    config, default = experiment.config, RunConfig()
    names = ("problem", "model", "hparams_set", "data_dir", "output_dir", "train_steps")
    found = {name: value for name in names if (value := getattr(config, name)) not in (None, "")}
    shown = ("random_seed", *(name for names in RUN_OPTIONS.values() for name in names), "schedule")
    for name in shown:
        if is_given(values[name]):
            found[name] = values[name].value
        elif name in config.origins and (value := getattr(config, name)) != getattr(default, name):
            found[name] = value
    changed = {name: value for name, value in experiment.hparams.items() if name in assigned_names(config.hparams)}
    searched = (flag for flag in OUTPUT_FLAGS if flag in values)  # already included in `changed`
    found |= {**shared_options(config), **given_flags(values, (*found, *searched))}
    return format_config(found, changed, _origins(values, experiment, found, changed))


def _origins(
    values: flags.FlagValues, experiment: Experiment, found: Iterable[str], changed: Iterable[str]
) -> dict[str, str]:
    """Returns where values that are not from the command line are from: of flags, and as `hparams.NAME` of hparams."""
    origins, file = experiment.config.origins, "the --config file"
    of_command = assigned_names(join_overrides((*values.hparams, search_overrides(values))))
    of_file = assigned_names(hparams_of_file(values)) - of_command
    result = {}
    for name in found:
        if is_of_file(values[name]):
            result[name] = file
        elif not is_given(values[name]):
            result[name] = origins.get(name, origins.get("problem_options", ""))
    for name in changed:
        if name in of_file:
            result[f"hparams.{name}"] = file
        elif name not in of_command:
            result[f"hparams.{name}"] = origins["hparams"]
    return result


def _check_flags(values: flags.FlagValues, experiment: Experiment, evaluates_only: bool) -> None:
    """Raises UserError for wrong flags and missing packages before generating and training, which can take hours."""
    config = experiment.config
    if config.output_folder.exists() and not config.output_folder.is_dir():
        raise UserError("that is a file", "name a folder", option="output_dir", value=config.output_folder)
    if values.decode_to_file and not values.decode_from_file:
        raise UserError("it names where --decode_from_file writes", "give that too", option="decode_to_file")
    if values.decode_reference:
        check_reference(values)
        check_scoring(values.decode_reference, experiment.hparams, experiment.problems)
    if values.decode_from_file:
        check_files(values.decode_from_file, values.decode_to_file)
    decodes = _decodes(values)
    if decodes and len(split_mixture(config.problem)) > 1:
        raise UserError(
            f"{' and '.join(decodes)}: --problems={config.problem} names several",
            f"train first, then decode one with t2t-decoder --output_dir={config.output_folder} --problem=...",
        )
    for name in ("warm_start_other_vocabulary", "warm_start_optimizer"):
        if values[name].value and not values.warm_start_from:
            raise UserError("it tells how --warm_start_from is taken", "give that too", option=name)
    for name in _OF_TRAINING:
        if evaluates_only and values[name].value != values[name].default:
            raise UserError(f"nothing trains with --schedule={values.schedule}", "leave one of them out", option=name)
    if values.track:
        check_trackers(values.track)
    if values.studio:
        with needs_serving():
            from t2t.serving import connections  # noqa: F401
            from t2t.studio.page import plotly_file
        plotly_file()


def _check_model(experiment: Experiment, trains: bool) -> None:
    """Imports the model; raises UserError before generating data, which can take hours, if it does not fit.

    If it `trains`, the warm start is checked, too.
    """
    prepare_framework()
    experiment.model_class  # noqa: B018 - errors in it are raised now
    if trains:
        from t2t.runs.starting import check_start

        check_start(experiment)


def _train(values: flags.FlagValues, experiment: Experiment) -> int:
    """Trains; returns the signal that ended it early, or 0."""
    prepare_framework()
    config = experiment.config
    is_chief = config.cluster.is_chief
    callbacks = build_trackers(values.track, config.output_folder) if is_chief else []
    if values.studio and is_chief:
        from t2t.cli.studio import ShowStudio

        callbacks.append(ShowStudio(config.output_folder, config.data_folder))
    return experiment.train(callbacks, report=lambda line: write_line(line, sys.stderr))


def _decodes(values: flags.FlagValues) -> list[str]:
    """Returns the given flags that decode after training."""
    return [f"--{name}" for name in ("decode_interactive", "decode_from_file") if values[name].value]


def _only_decodes(values: flags.FlagValues, experiment: Experiment) -> bool:
    """Returns whether an existing run only decodes, because of --train_steps=0; training would record that end."""
    if values.train_steps != 0 or not _decodes(values) or experiment.run is None or not experiment.run.has_checkpoints:
        return False
    log.info("--train_steps=0: decodes with the checkpoint in %s; the run stays as it is", experiment.run.path)
    return True


def _dry_run(experiment: Experiment) -> int:
    if find_missing_data(experiment.config):
        nominal_specs(experiment.config)  # raises where it needs the data, before TensorFlow loads
    prepare_framework()
    from t2t.runs.describing import dry_run_lines

    for line in dry_run_lines(experiment):
        write_line(line, sys.stderr)
    return 0


def _decode(values: flags.FlagValues, experiment: Experiment) -> None:
    """Decodes with the latest checkpoint, as `t2t-decoder` does."""
    loaded = experiment.load()
    if values.decode_from_file:
        decode_file(loaded, values.decode_from_file, values.decode_to_file, reference=values.decode_reference)
    if values.decode_interactive:
        decode_interactively(loaded.translator())
