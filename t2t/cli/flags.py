"""Groups of flags that several commands have, and what they make of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.common import ALL, define_alias
from t2t.cli.field_flags import define_field_flag
from t2t.cli.help import DATA, DECODING, NAMES, RUN, flag_group
from t2t.errors import UserError
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import format_overrides, join_overrides
from t2t.problems.text_problems import TextOptions
from t2t.registry.plugins import load_plugins
from t2t.runs.listing import registry_listing
from t2t.runs.names import Request, canonical, resolve_aliases
from t2t.runs.run_checks import check_loadable
from t2t.runs.startup import quietly
from t2t.specs.constants import DEFAULT_DATA_DIR, DEFAULT_TRAIN_DIR

_OPTION_FLAGS = {
    "vocab_kind": "Kind of vocabulary: sentencepiece, subword, byte, token or word_list; empty for the problem's own.",
    "vocab_file": "Vocabulary of any kind to use as it is, instead of learning one.",
    "train_source": "Training source text, one sentence a line, plain or .gz (problem text2text_files).",
    "train_target": "Training target text, line by line with --train_source.",
    "dev_source": "Source text to evaluate on while training.",
    "dev_target": "Target text to evaluate on while training.",
    "test_source": "Source text of the test split; optional.",
    "test_target": "Target text of the test split; optional.",
    "train_file": "Training examples, one a line, plain or .gz (problems classify_files, languagemodel_files, ...).",
    "dev_file": "Examples to evaluate on while training, as --train_file.",
    "test_file": "Examples of the test split; optional.",
    "train_trees": "Trees to learn from, in Penn brackets, plain or .gz (problem parsing_trees).",
    "dev_trees": "Trees to evaluate on while training.",
    "test_trees": "Trees of the test split; optional.",
    "source_language": "Code of the source language, e.g. en; optional.",
    "target_language": "Code of the target language, e.g. zh, which decides how BLEU splits words; optional.",
}
_NUMBER_FLAGS = ("vocab_size", "subword_sampling")


def define_problem_flags(values: flags.FlagValues, goes_on: bool = False) -> None:
    """Which problem, where its files are, and what a user may set of it; a run that goes on knows where its data is."""
    with flag_group(values, NAMES):
        flags.DEFINE_string("problem", "", "Name of the problem; several to learn at once: a-b-c.", flag_values=values)
        define_alias("problems", "problem", flag_values=values)
    define_plugin_flags(values)
    with flag_group(values, DATA):
        default: str | None = DEFAULT_DATA_DIR
        more = ""
        if goes_on:
            default, more = None, f"; unset for that of the run in --output_dir, {DEFAULT_DATA_DIR} for a new one"
        flags.DEFINE_string("data_dir", default, f"Folder of generated data{more}.", flag_values=values)
        flags.DEFINE_string(
            "tmp_dir", "", "Folder of raw files and downloads; empty for tmp/ under --data_dir.", flag_values=values
        )
        for name, text in _OPTION_FLAGS.items():
            flags.DEFINE_string(name, "", text, flag_values=values)
        flags.DEFINE_boolean(
            "keep_annotations", False, "Leaves traces, empty elements and function tags in the trees of parsing "
            "problems.", flag_values=values,
        )  # fmt: skip
        for name in _NUMBER_FLAGS:
            define_field_flag(values, name, TextOptions, name)


def define_plugin_flags(values: flags.FlagValues) -> None:
    """Other people's code, and what is registered."""
    define_usr_dir_flag(values)
    with flag_group(values, NAMES):
        flags.DEFINE_string(
            "registry_help", None, "Lists all names with one line each, numbered ones together; =TEXT for those that "
            "contain it, =hparams for the fields of hparams sets.", flag_values=values,
        )  # fmt: skip


def define_usr_dir_flag(values: flags.FlagValues) -> None:
    """Where a plug-in lies."""
    with flag_group(values, NAMES):
        flags.DEFINE_string(
            "t2t_usr_dir", "", "Folder of a plug-in: a package that registers names.", flag_values=values
        )


def lists_registry(values: flags.FlagValues) -> bool:
    """Loads the plug-ins; where --registry_help asks for the names, prints them and returns True."""
    with quietly():
        load_plugins(values["t2t_usr_dir"].value or None)
    if values["registry_help"].value is None:
        return False
    print(registry_listing(values["registry_help"].value.replace(ALL, "")))
    return True


def define_run_flags(values: flags.FlagValues) -> None:
    """Which model, with which hparams, where the run lies."""
    with flag_group(values, NAMES):
        flags.DEFINE_string("model", "", "Name of the model.", flag_values=values)
        flags.DEFINE_string("hparams_set", "", "Name of the hparams set.", flag_values=values)
        flags.DEFINE_multi_string("hparams", [], "Changes to the set: name=value,name=[v1,v2].", flag_values=values)
    with flag_group(values, RUN):
        flags.DEFINE_string(
            "output_dir", "", f"Folder of the run; empty for {DEFAULT_TRAIN_DIR}/<problem>/<model>-<hparams_set>.",
            flag_values=values,
        )  # fmt: skip


_SEARCH_FLAGS = {
    "decode_beam_size": "beam_size",
    "decode_alpha": "alpha",
    "decode_extra_length": "extra_length",
}
_MORE_SEARCH_FLAGS = {
    "decode_method": "decode_method",
    "decode_length_penalty": "length_penalty",
    "decode_batch_size": "decode_batch_size",
    "max_input_length": "max_input_length",
    "sampling_temperature": "sampling_temperature",
    "sampling_top_k": "sampling_top_k",
    "sampling_top_p": "sampling_top_p",
}
"""Flag to hparam."""


def define_search_flags(values: flags.FlagValues) -> None:
    """How outputs are searched; unset ones keep what the run's hparams say."""
    _define_decode_flags(values, _SEARCH_FLAGS)


def define_more_search_flags(values: flags.FlagValues) -> None:
    """The search flags of commands that do nothing but decode; unset ones keep what the run's hparams say."""
    _define_decode_flags(values, _SEARCH_FLAGS | _MORE_SEARCH_FLAGS)


def _define_decode_flags(values: flags.FlagValues, fields: Mapping[str, str]) -> None:
    with flag_group(values, DECODING):
        for flag, field in fields.items():
            define_field_flag(values, flag, DecodeHParams, field, default=None)


def search_overrides(values: flags.FlagValues) -> str:
    """Returns the search flags that were given, as `--hparams` would have them."""
    fields = _SEARCH_FLAGS | _MORE_SEARCH_FLAGS
    given = {field: values[flag].value for flag, field in fields.items() if flag in values}
    return format_overrides({field: value for field, value in given.items() if value is not None})


def define_trained_flags(values: flags.FlagValues) -> None:
    """Which run, and which of its checkpoints. Names of what it was trained as are optional, and checked."""
    with flag_group(values, RUN):
        flags.DEFINE_string("output_dir", "", "Folder of the run, as t2t-trainer was given it.", flag_values=values)
        flags.DEFINE_string(
            "checkpoint", "latest", "latest, best (of a run of several problems also best.PROBLEM), averaged, a step, "
            "or the path of a checkpoint or run.", flag_values=values,
        )  # fmt: skip
        define_alias("checkpoint_path", "checkpoint", flag_values=values)
    define_usr_dir_flag(values)
    with flag_group(values, NAMES):
        flags.DEFINE_string(
            "problem", "", "Problem of the run; optional, and checked; which one, of a run of several.",
            flag_values=values,
        )  # fmt: skip
        define_alias("problems", "problem", flag_values=values)
        flags.DEFINE_string("model", "", "Model of the run; optional, as --problem.", flag_values=values)
        flags.DEFINE_string("hparams_set", "", "Hparams set of the run; optional, as --problem.", flag_values=values)


def open_run(
    output_dir: str | Path, problem: str = "", model: str = "", hparams_set: str = "", usr_dir: str = ""
) -> RunDir:
    """Opens a run; of the names that are given, none may be another than the run's.

    Plug-ins, whose aliases may be meant, are loaded where a name is no other name of the run's without them.

    Raises:
        UserError: no output directory was named, there is no run, or it is of another problem, model or set; or a
            plug-in is broken.
    """
    if not output_dir:
        raise UserError("--output_dir: not given; name the folder of a run, as t2t-trainer was given it")
    run = RunDir.open(output_dir)
    names = {"problem": problem, "model": model, "hparams_set": hparams_set}
    asked = {kind: name for kind, name in names.items() if name}
    if _differing_names(asked, run):
        with quietly():
            load_plugins(usr_dir or None)
    if wrong := _differing_names(asked, run):
        found = "; ".join(f"--{name}={asked[name]} asked, {getattr(run.record, name)} found" for name in wrong)
        raise UserError(f"the run in {run.path} is another: {found}; leave these flags out, they are optional")
    return run


def open_trained_run(values: flags.FlagValues) -> RunDir:
    """Opens the run that the flags of `define_trained_flags` name.

    What shows without its weights is found before TensorFlow loads.

    Raises:
        UserError: no run, or another than named; no such problem or checkpoint of it; a plug-in that is missing; a
            search flag that makes no sense.
    """
    names = [values[name].value for name in ("output_dir", "problem", "model", "hparams_set", "t2t_usr_dir")]
    run = open_run(*names)
    check_run_loadable(run, values)
    return run


def check_run_loadable(run: RunDir, values: flags.FlagValues, checkpoint: str = "") -> None:
    """Raises UserError where a run cannot be loaded as the flags say, or its checkpoint where one is named here."""
    with quietly():
        plugins = load_plugins(values["t2t_usr_dir"].value or None)
    check_loadable(run, plugins, checkpoint or values["checkpoint"].value, search_overrides(values))


def _differing_names(asked: dict[str, str], run: RunDir) -> list[str]:
    """Returns the kinds of the names that are not the run's, as far as aliases are registered by now."""
    own = {kind: {canonical(kind, getattr(run.record, kind))} for kind in asked}
    if "problem" in own:
        own["problem"] |= {canonical("problem", name) for name in run.record.problems}
    return [kind for kind, name in asked.items() if canonical(kind, name) not in own[kind]]


def problem_options(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the options of the problem that were given."""
    names = (*_OPTION_FLAGS, *_NUMBER_FLAGS, "keep_annotations")
    return {name: values[name].value for name in names if values[name].value}


def _names_a_run(values: flags.FlagValues) -> bool:
    folder = values["output_dir"].value if "output_dir" in values else ""
    return bool(folder) and RunDir.exists(folder)


def request_of(values: flags.FlagValues) -> Request:
    """Returns what was asked for; without a problem where the output directory that is named can tell it.

    Raises:
        UserError: no --problem.
    """
    if not values["problem"].value and not _names_a_run(values):
        raise UserError("--problem: not given; name one; list what there is with --registry_help")
    optional = {}
    if "model" in values:
        overrides = join_overrides((*values["hparams"].value, search_overrides(values)))
        optional = {name: values[name].value for name in ("model", "hparams_set", "output_dir")}
        optional |= {"overrides": overrides}
    request = Request(
        problem=values["problem"].value,
        problem_options=problem_options(values),
        data_dir=values["data_dir"].value or "",
        tmp_dir=values["tmp_dir"].value,
        usr_dir=values["t2t_usr_dir"].value,
        **optional,
    )
    return resolve_aliases(request)
