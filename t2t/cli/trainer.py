"""`t2t-trainer`: generates data, trains, evaluates and decodes."""

import dataclasses
import logging
import sys
from typing import Any

from absl import flags

from t2t.cli.common import command, command_flags, is_given
from t2t.cli.config import define_config_flag, format_config, given_flags, unset_of_file
from t2t.cli.decoding import (
    check_files,
    check_reference,
    check_scoring,
    decode_file,
    decode_interactively,
)
from t2t.cli.eval import evaluate
from t2t.cli.field_flag import define_field_flag
from t2t.cli.help import DATA, DECODING, MACHINE, NAMES, RUN, TRAINING, WARM_START, flag_group
from t2t.cli.plugin_flags import lists_registry
from t2t.cli.problem_flags import define_problem_flags, request_of
from t2t.cli.run_flags import load_run
from t2t.cli.schedules import (
    EVALUATE,
    EVALUATE_TRAIN,
    SCHEDULES,
    TRAIN_AND_EVALUATE,
    TRAIN_ONLY,
    check_schedule,
)
from t2t.cli.search_flags import OUTPUT_FLAGS, define_search_flags
from t2t.cli.server import import_serving
from t2t.cli.tensor2tensor import RUN_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.progress import write_line
from t2t.hparams.groups import TrainHParams
from t2t.hparams.override import assigned_names
from t2t.runs.arguments import FLAGS, RENAMED
from t2t.runs.data import find_missing_data, generate_all, nominal_specs
from t2t.runs.decisions import begun_run
from t2t.runs.names import Request, build_hparams, check_names, flag_options, problems_of, resolve
from t2t.runs.resuming import check_same_run, fill_from_run, fill_from_start, recorded_seed, recorded_settings
from t2t.runs.run_checks import check_training
from t2t.runs.settings import Settings
from t2t.runs.startup import import_quietly
from t2t.specs.constants import DEFAULT_TRAIN_DIR, DEV, TRAIN
from t2t.specs.mixture import split_mixture
from t2t.tracking.choice import build_trackers, check_trackers, split_names
from t2t.training.cluster import find_cluster

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
        define.boolean("print_config", False, "Prints the configuration of the run as a file for --config, and stops.")
    _define_training_flags(values)
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


SETTINGS_FLAGS = {
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
"""Flags of `Settings` by heading."""
_OF_TRAINING = (
    "studio", "track", "dry_run", "decode_from_file", "decode_interactive", "warm_start_from", "keep_best_checkpoints",
)  # fmt: skip
"""Flags of training, and of decoding after it."""
_ONLY_WITH_SOME = ("decode_to_file", "decode_reference", "warm_start_other_vocabulary", "warm_start_optimizer")
"""Flags that only go with some of these."""


def _define_training_flags(values: flags.FlagValues) -> None:
    with flag_group(values, DATA) as define:
        define.boolean("generate_data", False, "Generates the data first; existing data is kept.")
    with flag_group(values, TRAINING) as define:
        define.string("schedule", TRAIN_AND_EVALUATE, f"Alternate training and evaluation, only train, or only "
                      f"evaluate the latest checkpoint: {', '.join(SCHEDULES)}.")  # fmt: skip
        more = "; unset for the value of the hparams set, or of the run in --output_dir"
        define_field_flag(values, "train_steps", TrainHParams, default=None, more=more)
        more = "; unset for the seed of the run in --output_dir, or 0 for a new run"
        define_field_flag(values, "random_seed", Settings, default=None, more=more)
        define.boolean("dry_run", False, "Prints the planned run, its parameters and memory, times two updates, and "
                       "stops; without data it times none. Writes nothing.")  # fmt: skip
    for heading, names in SETTINGS_FLAGS.items():
        with flag_group(values, heading):
            for name in names:
                more = ", and no limit with --schedule=evaluate" if name == "eval_steps" else ""
                define_field_flag(values, name, Settings, more=more)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if lists_registry(values):
        return 0
    check_schedule(values)
    asked = dataclasses.replace(request_of(values), train_steps=values.train_steps)
    request = fill_from_start(fill_from_run(asked, reads_data=not values.generate_data), values.warm_start_from)
    check_names(request)
    if values.print_config:
        print(_config_of(values, request), end="")
        return 0
    evaluates_only = values.schedule in (EVALUATE, EVALUATE_TRAIN)
    if evaluates_only:
        unset_of_file(values, (*_OF_TRAINING, *_ONLY_WITH_SOME))
    _check_files(values, request)
    is_dry, is_chief = values.dry_run, find_cluster(values.worker_hosts, values.worker_index).is_chief
    generates = values.generate_data and not is_dry
    _check_training_flags(values, evaluates_only)
    if not evaluates_only:
        check_same_run(request)
        settings = _settings(values, request)
        check_training(request, settings, needs_data=not generates and not is_dry, generates=generates and is_chief)
    if generates and is_chief:  # before TensorFlow starts, so that worker processes can be forked
        generate_all(request, once_forked=lambda: _check_model(request, None if evaluates_only else settings))
    if evaluates_only:
        split = DEV if values.schedule == EVALUATE else TRAIN
        return evaluate(request, "latest", split, values.eval_steps, values) if is_chief else 0
    if is_dry:
        return _dry_run(request, settings)
    if not _only_decodes(values, request) and (stopped_by := _train(values, request, settings)):
        return 128 + stopped_by
    if is_chief and _decodes(values):
        _decode(values, request)
    return 0


def _config_of(values: flags.FlagValues, request: Request) -> str:
    """Returns the given flags, completed from the run in --output_dir, as the text of a --config file."""
    names = ("problem", "model", "hparams_set", "data_dir", "output_dir", "train_steps")
    found = {name: value for name in names if (value := getattr(request, name)) not in (None, "")}
    if seed := recorded_seed(request.output_folder, values.random_seed):
        found["random_seed"] = seed
    found |= _settings_flags(values, request)
    hparams = build_hparams(request)[0]
    changed = {name: value for name, value in hparams.items() if name in assigned_names(request.overrides)}
    searched = (flag for flag in OUTPUT_FLAGS if flag in values)  # already included in `changed`
    return format_config({**found, **flag_options(request), **given_flags(values, (*found, *searched))}, changed)


def _settings_flags(values: flags.FlagValues, request: Request) -> dict[str, Any]:
    """Returns the flags of settings that are given, or that the run in --output_dir has changed from their defaults."""
    given, defaults = _given_settings(values), Settings()
    settings = {
        name: value
        for name, value in recorded_settings(request.output_folder, given).items()
        if name in given or value != getattr(defaults, name)
    }
    found = {FLAGS.get(name, name): value for name, value in settings.items() if name != "evaluates"}
    if "evaluates" in settings:
        found["schedule"] = values.schedule if "evaluates" in given else TRAIN_ONLY
    return found


def _check_files(values: flags.FlagValues, request: Request) -> None:
    """Raises UserError for wrong flags before generating and training, which can take hours."""
    if request.output_folder.exists() and not request.output_folder.is_dir():
        raise UserError(f"--output_dir={request.output_folder}: that is a file; name a folder")
    if values.decode_to_file and not values.decode_from_file:
        raise UserError("--decode_to_file: it names where --decode_from_file writes; give that too")
    check_reference(values)
    if values.decode_reference:
        check_scoring(values.decode_reference, build_hparams(request)[0], problems_of(request))
    if values.decode_from_file:
        check_files(values.decode_from_file, values.decode_to_file)
    decodes = _decodes(values)
    if decodes and len(split_mixture(request.problem)) > 1:
        raise UserError(
            f"{' and '.join(decodes)}: --problems={request.problem} names several; train first, then decode one with "
            f"t2t-decoder --output_dir={request.output_folder} --problem=..."
        )
    for name in ("warm_start_other_vocabulary", "warm_start_optimizer"):
        if values[name].value and not values.warm_start_from:
            raise UserError(f"--{name}: it tells how --warm_start_from is taken; give that too")


def _check_training_flags(values: flags.FlagValues, evaluates_only: bool) -> None:
    """Raises UserError for flags that evaluating ignores, wrong values of --track, and missing packages."""
    for name in _OF_TRAINING:
        if evaluates_only and values[name].value != values[name].default:
            raise UserError(f"--{name}: nothing trains with --schedule={values.schedule}; leave one of them out")
    check_trackers(split_names(values.track))
    if values.studio:
        import_serving("t2t.serving.server")
        import_serving("t2t.serving.insight.page").plotly_file()


def _check_model(request: Request, settings: Settings | None) -> None:
    """Raises UserError before generating data, which can take hours, if model, hparams set and problem do not match.

    With `settings`, those of training, it also checks the warm start.
    """
    import_quietly("t2t.runs.training")
    resolved = resolve(request)
    if settings is not None:
        import_quietly("t2t.runs.warm_start").check_start(resolved, settings)


def _settings(values: flags.FlagValues, request: Request) -> Settings:
    folder = request.output_folder
    found = recorded_settings(folder, _given_settings(values))
    return Settings(seed=recorded_seed(folder, values.random_seed), **found)


def _given_settings(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the settings that are given, by name, without the seed."""
    names = [name for group in SETTINGS_FLAGS.values() for name in group if is_given(values[name])]
    evaluates = {"evaluates": values.schedule == TRAIN_AND_EVALUATE} if is_given(values["schedule"]) else {}
    return evaluates | {RENAMED.get(name, name): values[name].value for name in names}


def _train(values: flags.FlagValues, request: Request, settings: Settings) -> int:
    """Trains; returns the signal that ended it early, or 0."""
    run = import_quietly("t2t.runs.training").TrainingRun.from_request(request, settings, settings.cluster)
    if not settings.cluster.is_chief:
        return run.fit()
    with run.workers.guard():
        for line in import_quietly("t2t.runs.describing").describe(run):
            write_line(line, sys.stderr)
        beside = build_trackers(split_names(values.track), request.output_folder)
        if values.studio:
            beside.append(import_quietly("t2t.cli.studio").ShowStudio(request.output_folder, request.data_folder))
        return run.fit(beside)


def _decodes(values: flags.FlagValues) -> list[str]:
    """Returns the given flags that decode after training."""
    return [f"--{name}" for name in ("decode_interactive", "decode_from_file") if values[name].value]


def _only_decodes(values: flags.FlagValues, request: Request) -> bool:
    """Returns whether a begun run only decodes, because of --train_steps=0; training would record that as its end."""
    folder = request.output_folder
    if values.train_steps != 0 or not _decodes(values) or begun_run(folder) is None:
        return False
    log.info("--train_steps=0: decodes with the checkpoint in %s; the run stays as it is", folder)
    return True


def _dry_run(request: Request, settings: Settings) -> int:
    if find_missing_data(request):
        nominal_specs(request)  # raises where it needs the data, before TensorFlow loads
    for line in import_quietly("t2t.runs.describing").dry_run_lines(request, settings):
        write_line(line, sys.stderr)
    return 0


def _decode(values: flags.FlagValues, request: Request) -> None:
    """Decodes with the latest checkpoint, as `t2t-decoder` does."""
    loaded = load_run(values, request.output_folder, "", "latest")
    if values.decode_from_file:
        decode_file(loaded, values.decode_from_file, values.decode_to_file, reference=values.decode_reference)
    if values.decode_interactive:
        decode_interactively(loaded.translator())
