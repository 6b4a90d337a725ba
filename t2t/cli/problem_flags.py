"""Flags of a problem, its files and options, and of plug-ins, which define more; the `RunConfig` built from them.

`--registry_help` lists the registered names.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

from absl import flags

from t2t.cli.decoding_flags import given_hparams, search_overrides
from t2t.cli.flags import (
    ALL,
    DATA,
    FILTERS,
    NAMES,
    define_alias,
    define_field_flag,
    define_usr_dir_flag,
    flag_group,
    given_values,
)
from t2t.errors import UserError
from t2t.hparams.override import join_overrides
from t2t.problems.filters import FilterOptions
from t2t.problems.language_model import LanguagemodelFilesOptions
from t2t.problems.options import ProblemOptions
from t2t.problems.speech_files import SpeechGenerationOptions
from t2t.problems.text_files import TextFilesOptions
from t2t.problems.text_problems import TextOptions
from t2t.registry import PROBLEMS
from t2t.runs.config import OPTIONS, TRAIN_AND_EVALUATE, TRAIN_ONLY, RunConfig
from t2t.runs.startup import load_plugins_quietly
from t2t.specs import DEFAULT_DATA_DIR

_OPTION_FLAGS = {
    "vocab_kind": "Kind of vocabulary: sentencepiece, subword, byte, token or word_list; empty for the problem's own.",
    "vocab_file": "Existing vocabulary of any kind to use instead of learning one; or one for each text feature, "
    "separated by commas.",
    "language_tags": "Languages to reserve tags for in the vocabulary, such as en,de,fr. Inputs then begin with the "
    "tag of the target language, <2de>, so that one model translates into several.",
    "train_source": "Training source text, one sentence a line, plain or .gz (problem text2text_files). Several files "
    "are separated by commas or, on this machine, given as a pattern: 'part-*.en'.",
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
    "target_language": "Code of the target language, e.g. zh, which selects BLEU's tokenizer; optional.",
}
_NUMBER_FLAGS: dict[str, type[ProblemOptions]] = {
    "vocab_size": TextOptions, "subword_sampling": TextOptions, "preprocessors": TextOptions,
    "cut_length": LanguagemodelFilesOptions, "sample_rate": SpeechGenerationOptions,
}  # fmt: skip
"""With the class that has the option."""
_FILE_FILTER_FLAGS = {
    "train_scores": "Score of each training pair, line by line with --train_source (problem text2text_files).",
    "train_weights": "How many times the pairs of each file in --train_source are used, such as 1,0.5,20 for three "
    "files; a fraction by random sampling.",
}
_FILTER_FLAGS: dict[str, type] = {
    "filter_min_score": TextFilesOptions, "train_score_column": TextFilesOptions,
    **{field.name: FilterOptions for field in dataclasses.fields(FilterOptions)},
}  # fmt: skip
"""With the class that has the option."""


def define_problem_flags(values: flags.FlagValues, goes_on: bool = False) -> None:
    """Defines the flags of a problem; with `goes_on`, an unset --data_dir is that of an existing run."""
    with flag_group(values, NAMES) as define:
        define.string("problem", "", "Name of the problem; several to learn at once: a-b-c.")
        define_alias("problems", "problem", flag_values=values)
    define_plugin_flags(values)
    with flag_group(values, DATA) as define:
        more = f"; unset for the one of the run in --output_dir, {DEFAULT_DATA_DIR} for a new run" if goes_on else ""
        define.string("data_dir", None if goes_on else DEFAULT_DATA_DIR, f"Folder of generated data{more}.")
        define.string("tmp_dir", "", "Folder of raw files and downloads; empty for tmp/ under --data_dir.")
        for name, text in _OPTION_FLAGS.items():
            define.string(name, "", text)
        define.boolean("keep_annotations", False, "Leaves traces, empty elements and function tags in the trees of "
                       "parsing problems.")  # fmt: skip
        for name, owner in _NUMBER_FLAGS.items():
            more = "; only training reads it" if name in owner.training_names() else ""
            define_field_flag(values, name, owner, more=more)
    with flag_group(values, FILTERS) as define:
        for name, text in _FILE_FILTER_FLAGS.items():
            define.string(name, "", text)
        for name, owner in _FILTER_FLAGS.items():
            define_field_flag(values, name, owner)


def problem_options(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the problem options that are given; a default may be meant to replace what data or a run records."""
    names = (*_OPTION_FLAGS, *_NUMBER_FLAGS, "keep_annotations", *_FILE_FILTER_FLAGS, *_FILTER_FLAGS)
    of_plugins = [name for name in values if getattr(values[name], "is_plugin_option", False)]
    return given_values(values, (*names, *of_plugins))


def config_of(values: flags.FlagValues) -> RunConfig:
    """Builds the configuration from the flags that are given.

    Raises:
        UserError: there is no --problem, and the command has no flag for a run that could name it.
    """
    if not values.problem and "model" not in values:
        raise UserError("not given; name one", "list what there is with --registry_help", option="problem")
    given = given_values(values, OPTIONS)
    if given.get("schedule", TRAIN_ONLY) not in (TRAIN_AND_EVALUATE, TRAIN_ONLY):  # it only evaluates, without a seed
        given = {name: value for name, value in given.items() if name not in ("schedule", "random_seed")}
    if "model" in values:
        given["hparams"] = join_overrides((given_hparams(values), search_overrides(values)))
    return RunConfig.given({**given, "problem_options": problem_options(values)})


def define_plugin_flags(values: flags.FlagValues) -> None:
    """Defines --t2t_usr_dir and --registry_help."""
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("registry_help", None, "Lists all registered names, one a line, numbered ones together; =TEXT "
                      "for those that contain TEXT, =hparams for the fields of all hparams sets, =SET for those of "
                      "one set.")  # fmt: skip


def lists_registry(values: flags.FlagValues) -> bool:
    """Loads the plug-ins; prints the names and returns True if --registry_help asks for them."""
    load_plugins_quietly(values.t2t_usr_dir)
    if values.registry_help is None:
        return False
    from t2t.runs.listing import registry_listing  # which most commands do not need

    print(registry_listing(values.registry_help.replace(ALL, "")))
    return True


def define_plugin_options(values: flags.FlagValues, names: Iterable[str], usr_dir: str) -> None:
    """Loads the plug-ins and defines flags for the options of their problems, if one of `names` is no flag yet.

    Args:
        values: of a command.
        names: of flags, on the command line or in a file.
        usr_dir: value of --t2t_usr_dir; may be empty.

    Raises:
        UserError: a plug-in failed to import, or the folder is not a package.
    """
    unknown = {name for name in names if name not in values and name.removeprefix("no") not in values}
    if not unknown or "t2t_usr_dir" not in values:
        return
    registered = [entry for plugin in load_plugins_quietly(usr_dir) for entry in plugin.registered]
    for name in (entry.removeprefix("problem:") for entry in registered if entry.startswith("problem:")):
        options = getattr(PROBLEMS.get(name), "options_class", None)
        for field in dataclasses.fields(options) if dataclasses.is_dataclass(options) else ():
            if field.name not in values:
                _define(values, field, name)


def _define(values: flags.FlagValues, field: dataclasses.Field, problem: str) -> None:
    kinds = {bool: "boolean", int: "integer", float: "float"}
    text = field.metadata.get("doc", "").removesuffix(".") or "An option"
    with flag_group(values, DATA) as define:
        getattr(define, kinds.get(type(field.default), "string"))(field.name, field.default, f"{text} (of {problem}).")
    values[field.name].is_plugin_option = True
