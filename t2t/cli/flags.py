"""Flags that several commands share, and the runs and requests that they describe."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.common import ALL, define_alias
from t2t.cli.decode_hparams import define_decode_hparams_flag
from t2t.cli.help import DATA, DECODING, FILTERS, MACHINE, NAMES, OUTPUT, RUN, flag_group
from t2t.cli.tensor2tensor import has_flag
from t2t.errors import UserError
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import format_overrides, join_overrides
from t2t.inference.engine_choice import AVERAGES, COMPUTE_TYPES, ENGINES, TENSORFLOW, EngineChoice
from t2t.inference.shortlist.shortlist import read_shortlist
from t2t.problems.filters.options import FilterOptions
from t2t.problems.speech_generation import SpeechGenerationOptions
from t2t.problems.text_files import TextFilesOptions
from t2t.problems.text_problems import TextOptions
from t2t.registry.plugins import load_plugins
from t2t.runs.arguments import RENAMED
from t2t.runs.listing import registry_listing
from t2t.runs.names import Request, canonical, resolve_aliases
from t2t.runs.run_checks import check_loadable, select_problems
from t2t.runs.settings import Settings
from t2t.runs.startup import import_quietly, quietly
from t2t.specs.constants import DEFAULT_DATA_DIR
from t2t.training.cluster import ALONE, find_cluster

_OPTION_FLAGS = {
    "vocab_kind": "Kind of vocabulary: sentencepiece, subword, byte, token or word_list; empty for the problem's own.",
    "vocab_file": "Vocabulary of any kind to use as it is, instead of learning one; or one for each text feature, with "
    "commas between them.",
    "language_tags": "Languages whose tags the vocabulary reserves, such as en,de,fr; inputs then begin with the tag "
    "of the target language, <2de>, and one model translates into several.",
    "train_source": "Training source text, one sentence a line, plain or .gz (problem text2text_files). Several have "
    "commas between them or are a pattern: 'part-*.en'.",
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
_NUMBER_FLAGS: dict[str, type] = {
    "vocab_size": TextOptions, "subword_sampling": TextOptions, "sample_rate": SpeechGenerationOptions,
}  # fmt: skip
"""With the class that has the option."""
_FILE_FILTER_FLAGS = {
    "train_scores": "Score of each training pair, line by line with --train_source (problem text2text_files).",
    "train_weights": "How many times the pairs of each file in --train_source are taken, such as 1,0.5,20 for three "
    "files; a fraction by chance.",
}
_FILTER_FLAGS: dict[str, type] = {
    "filter_min_score": TextFilesOptions, "train_score_column": TextFilesOptions,
    **{field.name: FilterOptions for field in dataclasses.fields(FilterOptions)},
}  # fmt: skip
"""With the class that has the option."""
_OWN = object()


def define_field_flag(
    values: flags.FlagValues, name: str, owner: type, default: Any = _OWN, text: str = "", more: str = ""
) -> None:
    """Defines a flag for a field of a dataclass that `t2t.hparams.field.param` has made, see also `RENAMED`.

    The flag's `default` and help `text` are by default the field's; `more` is added to the field's help.
    """
    field = next(one for one in dataclasses.fields(owner) if one.name == RENAMED.get(name, name))
    rules, kind = field.metadata, type(field.default)
    condition = f" (with {rules['used_when']})" if rules["used_when"] else ""
    text = text or f"{rules['doc'].removesuffix('.')}{condition}{more}."
    default = field.default if default is _OWN else default
    if rules["choices"]:
        flags.DEFINE_enum(name, default, rules["choices"], text, flag_values=values)
    elif kind in (int, float):
        define = flags.DEFINE_integer if kind is int else flags.DEFINE_float
        define(name, default, text, rules["minimum"], rules["maximum"], flag_values=values)
    else:
        (flags.DEFINE_boolean if kind is bool else flags.DEFINE_string)(name, default, text, flag_values=values)


def define_problem_flags(values: flags.FlagValues, goes_on: bool = False) -> None:
    """The problem, its files and options; with `goes_on`, an unset --data_dir is that of an existing run."""
    with flag_group(values, NAMES) as define:
        define.string("problem", "", "Name of the problem; several to learn at once: a-b-c.")
        define_alias("problems", "problem", flag_values=values)
    define_plugin_flags(values)
    with flag_group(values, DATA) as define:
        more = f"; unset for that of the run in --output_dir, {DEFAULT_DATA_DIR} for a new one" if goes_on else ""
        define.string("data_dir", None if goes_on else DEFAULT_DATA_DIR, f"Folder of generated data{more}.")
        define.string("tmp_dir", "", "Folder of raw files and downloads; empty for tmp/ under --data_dir.")
        for name, text in _OPTION_FLAGS.items():
            define.string(name, "", text)
        define.boolean("keep_annotations", False, "Leaves traces, empty elements and function tags in the trees of "
                       "parsing problems.")  # fmt: skip
        for name, owner in _NUMBER_FLAGS.items():
            define_field_flag(values, name, owner)
    with flag_group(values, FILTERS) as define:
        for name, text in _FILE_FILTER_FLAGS.items():
            define.string(name, "", text)
        for name, owner in _FILTER_FLAGS.items():
            define_field_flag(values, name, owner)


def define_plugin_flags(values: flags.FlagValues) -> None:
    """--t2t_usr_dir and --registry_help."""
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("registry_help", None, "Lists all names with one line each, numbered ones together; =TEXT for "
                      "those that contain it, =hparams for the fields of hparams sets.")  # fmt: skip


def define_usr_dir_flag(values: flags.FlagValues) -> None:
    """--t2t_usr_dir."""
    with flag_group(values, NAMES) as define:
        define.string("t2t_usr_dir", "", "Folder of a plug-in: a package that registers names.")


def lists_registry(values: flags.FlagValues) -> bool:
    """Loads the plug-ins; prints the names and returns True if --registry_help asks for them."""
    with quietly():
        load_plugins(values.t2t_usr_dir or None)
    if values.registry_help is None:
        return False
    print(registry_listing(values.registry_help.replace(ALL, "")))
    return True


_SEARCH_FLAGS = ("decode_beam_size", "decode_alpha", "decode_extra_length")
_MACHINE_FLAGS = ("decode_batch_size", "max_input_length")
_ALL_SEARCH_FLAGS = (
    *_SEARCH_FLAGS, "decode_method", "decode_length_penalty", "decode_coverage_penalty", "shortlist", *_MACHINE_FLAGS,
    "min_output_length", "eos_penalty", "no_repeat_ngram_size", "constrain_output",
    "sampling_temperature", "sampling_top_k", "sampling_top_p", "mask_predict_iterations", "length_candidates",
)  # fmt: skip
OUTPUT_FLAGS = tuple(name for name in _ALL_SEARCH_FLAGS if name not in _MACHINE_FLAGS)
"""Search flags without effect where nothing is searched."""
WORD_FLAGS = ("alignments", "replace_unknown", "token_scores", "alignment_layer", "alignment_head")
"""Flags of `define_word_flags` for hparams."""


def define_search_flags(values: flags.FlagValues, decodes_only: bool = False) -> None:
    """How outputs are searched, in full for commands that only decode; unset flags keep the run's hparams."""
    with flag_group(values, DECODING):
        for flag in _ALL_SEARCH_FLAGS if decodes_only else _SEARCH_FLAGS:
            define_field_flag(values, flag, DecodeHParams, default=None)
    define_decode_hparams_flag(values)


def define_word_flags(values: flags.FlagValues) -> None:
    """What is done with the words of outputs by the attention of the model; unset flags keep the run's hparams."""
    with flag_group(values, OUTPUT) as define:
        for flag in WORD_FLAGS:
            define_field_flag(values, flag, DecodeHParams, default=None)
        define.string("unknown_dictionary", "", "Translations for --replace_unknown: lines of word TAB translation; a "
                      "word without one is copied.")  # fmt: skip


def define_device_flags(values: flags.FlagValues) -> None:
    """The devices that decode."""
    with flag_group(values, MACHINE):
        define_field_flag(values, "worker_gpu", Settings, text="GPUs to decode on; 0 = all that are visible.")
        text = "Copies of the model on the processor instead of GPUs; 0 = use GPUs, or one copy."
        define_field_flag(values, "worker_cpu", Settings, text=text)


def decoding_devices(values: flags.FlagValues) -> tuple[int, int] | None:
    """Returns the values of the flags of `define_device_flags`, None for one device."""
    several = "worker_hosts" in values and find_cluster(values.worker_hosts, values.worker_index) is not ALONE
    if not has_flag(values, "worker_gpu") or several:  # of several processes that trained, the chief decodes
        return None
    return values.worker_gpu, values.worker_cpu


def search_overrides(values: flags.FlagValues) -> str:
    """Returns the search flags that were given, as `--hparams` would have them."""
    names = (*_ALL_SEARCH_FLAGS, *WORD_FLAGS)
    given = {RENAMED.get(name, name): values[name].value for name in names if has_flag(values, name)}
    return format_overrides({field: value for field, value in given.items() if value is not None})


def trained_overrides(values: flags.FlagValues) -> str:
    """Returns `--hparams` and the search flags that were given, for a run that is trained already."""
    own = values.hparams if "hparams" in values else ()
    return join_overrides((*own, search_overrides(values)))


def define_engine_flags(values: flags.FlagValues) -> None:
    """What decodes, and how it computes."""
    with flag_group(values, DECODING) as define:
        define.enum("engine", TENSORFLOW, ENGINES, "What decodes and scores; auto: CTranslate2, faster on "
                    "processors, where it is installed, holds the model and answers as TensorFlow.")  # fmt: skip
        define.enum("compute_type", COMPUTE_TYPES[0], COMPUTE_TYPES, "In which numbers CTranslate2 multiplies; "
                    "all but float32 change some outputs.")  # fmt: skip


def engine_choice(values: flags.FlagValues) -> EngineChoice:
    """Returns the values of the flags of `define_engine_flags`, where a command has them."""
    return EngineChoice(values.engine, values.compute_type) if "engine" in values else EngineChoice()


def define_trained_flags(values: flags.FlagValues, one_checkpoint: bool = True) -> None:
    """The run, and its checkpoint where a command reads one; names and hparams of the run are optional, and checked."""
    with flag_group(values, RUN) as define:
        define.string("output_dir", "", "Folder of the run, as t2t-trainer was given it.")
        if one_checkpoint:
            define.string("checkpoint", "latest", "latest, best (of a run of several problems also best.PROBLEM), "
                          "best:5 for the mean of the best 5, averaged, a step, or the path of a checkpoint or "
                          "run.")  # fmt: skip
            define_alias("checkpoint_path", "checkpoint", flag_values=values)
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("problem", "", "Problem of the run; optional, and checked; which one, of a run of several.")
        define_alias("problems", "problem", flag_values=values)
        define.string("model", "", "Model of the run; optional, as --problem.")
        define.string("hparams_set", "", "Hparams set of the run; optional, as --problem.")
        define.multi_string("hparams", [], "Changes to the hparams of decoding; others are only checked against "
                            "the run's.")  # fmt: skip


def open_run(
    output_dir: str | Path, problem: str = "", model: str = "", hparams_set: str = "", usr_dir: str = ""
) -> RunDir:
    """Opens a run and checks the names that are given; loads plug-ins if a name may be one of their aliases.

    Raises:
        UserError: no --output_dir, no run, a run of another problem, model or set, or a broken plug-in.
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
    """Opens the run that the flags of `define_trained_flags` name, and checks it without loading TensorFlow.

    Raises:
        UserError: see `open_run` and `check_run_loadable`.
    """
    return _open_trained_runs(values, [values.output_dir])[0]


def check_run_loadable(run: RunDir, values: flags.FlagValues, checkpoint: str = "") -> None:
    """Raises UserError for a missing plug-in or checkpoint and wrong search flags; `checkpoint` overrides the flag."""
    with quietly():
        plugins = load_plugins(values.t2t_usr_dir or None)
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
    return import_quietly("t2t.runs.loading").load(
        output_dir,
        checkpoint or values.checkpoint,
        engine=engine_choice(values),
        **loading_arguments(values, problem, many_rows),
    )


def loading_arguments(values: flags.FlagValues, problem: str, many_rows: bool) -> dict[str, Any]:
    """Returns the arguments of `t2t.runs.loading.load` that are the same for all runs of an ensemble."""
    return {
        "usr_dir": values.t2t_usr_dir or None,
        "decode_overrides": trained_overrides(values),
        "problem": problem,
        "devices": decoding_devices(values),
        "many_rows": many_rows,
    }


def split_folders(output_dir: str) -> list[str]:
    """Returns the folders that --output_dir names, separated by commas; a run whose name has commas is one."""
    folders = [folder for part in output_dir.split(",") if (folder := part.strip())]
    one = len(folders) < 2 or ("://" not in output_dir and RunDir.exists(output_dir))
    return [output_dir] if one else folders


def define_ensemble_flag(values: flags.FlagValues) -> None:
    """How several runs decode as one."""
    with flag_group(values, DECODING) as define:
        define.enum("ensemble_average", AVERAGES[0], AVERAGES, "What is averaged of several runs in --output_dir, "
                    "a,b,c, for each token.")  # fmt: skip


def define_language_flags(values: flags.FlagValues) -> None:
    """Which languages a run reads and writes."""
    with flag_group(values, DECODING) as define:
        define.string("source_language", "", "Code of the language of inputs, for runs whose vocabulary has codes of "
                      "languages; empty for that of the problem.")  # fmt: skip
        define.string("target_language", "", "Code of the language to write, for these runs and those with "
                      "--language_tags: also for a direction that was not trained; empty for that of the problem."
                      )  # fmt: skip


def languages_of(values: flags.FlagValues) -> tuple[str, str]:
    """Returns the arguments of `LoadedRun.with_languages`."""
    return values.source_language, values.target_language


def open_trained_runs(values: flags.FlagValues) -> list[RunDir]:
    """Does as `open_trained_run` with each of the runs that --output_dir names, separated by commas."""
    return _open_trained_runs(values, split_folders(values.output_dir))


def _open_trained_runs(values: flags.FlagValues, folders: Sequence[str]) -> list[RunDir]:
    names = (values.problem, values.model, values.hparams_set, values.t2t_usr_dir)
    runs = [open_run(folder, *names) for folder in folders]
    for run in runs:
        check_run_loadable(run, values)
    if "shortlist" in values and values.shortlist:  # an ensemble has that of the first
        for problem in select_problems(runs[0], values.problem):
            read_shortlist(runs[0], problem)
    return runs


def load_runs(values: flags.FlagValues, runs: Sequence[RunDir], problem: str, many_rows: bool = False) -> Any:
    """Does as `load_run` with one run, or makes an ensemble of several."""
    return import_quietly("t2t.runs.ensembles").load_runs(
        [(run.path, values.checkpoint) for run in runs],
        values.ensemble_average,
        engine_choice(values),
        **loading_arguments(values, problem, many_rows),
    )


def _differing_names(asked: dict[str, str], run: RunDir) -> list[str]:
    """Returns the kinds of the names that are not the run's, given the aliases registered so far."""
    own = {kind: {canonical(kind, getattr(run.record, kind))} for kind in asked}
    if "problem" in own:
        own["problem"] |= {canonical("problem", name) for name in run.record.problems}
    return [kind for kind, name in asked.items() if canonical(kind, name) not in own[kind]]


def problem_options(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the options of the problem that were given."""
    names = (*_OPTION_FLAGS, *_NUMBER_FLAGS, "keep_annotations", *_FILE_FILTER_FLAGS, *_FILTER_FLAGS)
    return {name: values[name].value for name in names if values[name].value != values[name].default}


def request_of(values: flags.FlagValues) -> Request:
    """Returns what was asked for; raises UserError without --problem unless --output_dir holds a run."""
    of_run = {}
    if "model" in values:
        of_run = {name: values[name].value for name in ("model", "hparams_set", "output_dir")}
        of_run["overrides"] = join_overrides((*values.hparams, search_overrides(values)))
    folder = of_run.get("output_dir")
    if not values.problem and not (folder and RunDir.exists(folder)):
        raise UserError("--problem: not given; name one; list what there is with --registry_help")
    request = Request(
        problem=values.problem,
        problem_options=problem_options(values),
        data_dir=values.data_dir or "",
        tmp_dir=values.tmp_dir,
        usr_dir=values.t2t_usr_dir,
        **of_run,
    )
    return resolve_aliases(request)
