"""`t2t-tune`: searches for hparams by many trials, each an ordinary run."""

import dataclasses

from absl import flags

from t2t.cli.common import command, command_flags, define_alias
from t2t.cli.flags import define_field_flag, lists_registry, request_of, search_overrides
from t2t.cli.help import NAMES, RUN, flag_group
from t2t.cli.tensor2tensor import RUN_FLAGS, UnusedFlag, define_unused_flags
from t2t.cli.trainer import SETTINGS_FLAGS, define_trainer_flags
from t2t.errors import UserError, needs_extra
from t2t.files.paths import local_path
from t2t.hparams.override import join_overrides
from t2t.runs.arguments import RENAMED
from t2t.runs.settings import Settings
from t2t.runs.startup import import_quietly
from t2t.tuning.settings import TuneSettings

USAGE = """
Searches for hparams: trials with other values of a range are trained, those that fall behind are stopped, and the best
are shown. Each trial is a run in the folder of the study, which all other commands take.

    %s --study=study --hparams_range=transformer_quickstart_range --problem=translate_ende_numbers \\
      --model=transformer --hparams_set=transformer_quickstart --data_dir=data --train_steps=300 \\
      --local_eval_frequency=50 --trials=20 --parallel=2
    %s --study=study                (goes on with the study that is there, and shows its results)
    %s --study=study --trials=40 --repeats=3 --best=2
    %s --registry_help=range        (all ranges)

All flags of the trainer are those of the trials. The first trial has the values of --hparams_set itself. After a crash
of this command, of a trial or of the machine, the same command goes on with the same trials. Results are also written
to the folder: results.tsv, results.json, and best_set.py, which registers the best values as a set.
"""

_TUNE = "Search"
_TUNE_FLAGS = (
    "objective", "trials", "parallel", "sampler", "pruner", "startup_trials", "repeats", "best", "storage",
    "study_name", "trial_gpus",
)  # fmt: skip
_NOT_FOR_TRIALS = (
    "output_dir", "schedule", "dry_run", "decode_from_file", "decode_to_file", "decode_interactive", "decode_reference",
    "worker_hosts", "worker_index", "hparams_range",
)  # fmt: skip
_AUTOTUNE = {"objective": "autotune_objective", "trials": "autotune_max_trials", "parallel": "autotune_parallel_trials"}
"""Flags by their names in Tensor2Tensor."""
_UNUSED = {
    "autotune": UnusedFlag("this command always searches", "false"),
    "autotune_maximize": UnusedFlag("a figure tells itself whether more of it is better", "true"),
}


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trainer_flags(values)
    for name in (*_NOT_FOR_TRIALS, *_UNUSED, *_AUTOTUNE.values()):
        delattr(values, name)
    with flag_group(values, RUN) as define:
        define.string("study", "", "Folder of the study, in which its runs are.")
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
    define_unused_flags(values, {**_UNUSED, **RUN_FLAGS})


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if lists_registry(values):
        return 0
    if not values.study:
        raise UserError("--study: not given; name the folder of the study, new or begun")
    with needs_extra("tune", "t2t-tune"):
        searching = import_quietly("t2t.tuning.searching")
    folder = local_path(values.study)
    _fill_from_study(values, import_quietly("t2t.tuning.study").recorded_arguments(folder))
    request = dataclasses.replace(request_of(values), train_steps=values.train_steps)
    names = [name for group in SETTINGS_FLAGS.values() for name in group if name in values]
    found = searching.search(
        searching.StudyRequest(
            folder=folder,
            hparams_range=values.hparams_range,
            request=request,
            settings=Settings(
                seed=values.random_seed or 0, **{RENAMED.get(name, name): values[name].value for name in names}
            ),
            tune=TuneSettings(**{name: values[name].value for name in _TUNE_FLAGS}),
            arguments=tuple(_given(values, besides=("study", "hparams_range", "hparams", "random_seed", *_TUNE_FLAGS))),
            hparams=join_overrides(values.hparams),
            decode=search_overrides(values),
            command=tuple(_given(values, besides=("study",))),
            generates=values.generate_data,
        )
    )
    print(found.table())
    return 0


def _given(values: flags.FlagValues, besides: tuple[str, ...]) -> list[str]:
    """Returns flags of the command line as `--name=value`, without those that are not for trials."""
    found = [f"--keep_checkpoint_max={values.keep_checkpoint_max}"]
    for name in values:
        flag = values[name]
        is_other = flag.name != name or hasattr(flag, "unused") or hasattr(flag, "alias_of")
        hidden = ("help", "keep_checkpoint_max", "generate_data", "registry_help", "decode_hparams", *besides)
        if is_other or name in hidden or flag.value == flag.default:
            continue
        found += [f"--{name}={value}" for value in (flag.value if isinstance(flag.value, list) else [flag.value])]
    return found


def _fill_from_study(values: flags.FlagValues, recorded: list[str]) -> None:
    """Gives flags that are not given the values with which the study was begun."""
    given = {name for name in values if values[name].value != values[name].default or values[name].present}
    for argument in recorded:
        name, _, value = argument.removeprefix("--").partition("=")
        if name in values and name not in given:
            values[name].parse(value)
