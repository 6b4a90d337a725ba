"""Flags of decoding: search, word alignment, devices, engines, languages, shards; and the hparams that they set."""

import shlex

from absl import flags

from t2t.backends.cluster import ALONE, find_cluster
from t2t.checkpoints.run_dir import RunDir
from t2t.cli.config import check_hparams_of_file, hparams_of_file
from t2t.cli.flags import ACTION, DECODING, MACHINE, OUTPUT, define_field_flag, flag_group, given_values, has_flag
from t2t.cli.tensor2tensor import define_decode_hparams_flag
from t2t.errors import UserError, needs_extra
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import assigned_names, drop_overrides, format_overrides, join_overrides
from t2t.inference.engine import AUTO, AVERAGES, COMPUTE_TYPES, ENGINES, TENSORFLOW, EngineChoice
from t2t.inference.files.shards import check_sharded, parse_shard
from t2t.runs.arguments import RENAMED
from t2t.runs.config import RunConfig
from t2t.runs.names import merge_hparams


def define_device_flags(values: flags.FlagValues) -> None:
    """Defines the flags of the devices to decode on."""
    with flag_group(values, MACHINE):
        define_field_flag(values, "worker_gpu", RunConfig, text="GPUs to decode on; 0 = all visible ones.")
        text = "Copies of the model on the CPU instead of GPUs; 0 = use GPUs, or one copy without any."
        define_field_flag(values, "worker_cpu", RunConfig, text=text)
        define_field_flag(values, "weight_shards", RunConfig)


def decoding_devices(values: flags.FlagValues) -> tuple[int, int, int] | None:
    """Returns the values of the flags of `define_device_flags`, None for one device."""
    several = "worker_hosts" in values and find_cluster(values.worker_hosts, values.worker_index) is not ALONE
    if not has_flag(values, "worker_gpu") or several:  # after training in several processes only the chief decodes
        return None
    return values.worker_gpu, values.worker_cpu, values.weight_shards


def define_engine_flags(values: flags.FlagValues, default: str = TENSORFLOW) -> None:
    """Defines --engine and --compute_type; `default` is an engine."""
    with flag_group(values, DECODING) as define:
        define.enum("engine", default, ENGINES, "Engine for decoding and scoring. tensorflow: the Keras model on its "
                    "backend. auto: without a GPU, CTranslate2 if it is installed, supports the model and the "
                    "search, and gives the same outputs.")  # fmt: skip
        define.enum("compute_type", COMPUTE_TYPES[0], COMPUTE_TYPES, "Number type of CTranslate2's matrix products; "
                    "all but float32 change some outputs.")  # fmt: skip


def engine_choice(values: flags.FlagValues) -> EngineChoice:
    """Returns the values of the flags of `define_engine_flags`; defaults for a command without them."""
    return EngineChoice.requested(values.engine, values.compute_type) if "engine" in values else EngineChoice()


def define_ensemble_flag(values: flags.FlagValues) -> None:
    """Defines --ensemble_average."""
    with flag_group(values, DECODING) as define:
        define.enum("ensemble_average", AVERAGES[0], AVERAGES, "What an ensemble, --output_dir=a,b,c, averages for "
                    "each token.")  # fmt: skip


def define_language_flags(values: flags.FlagValues) -> None:
    """Defines --source_language and --target_language."""
    with flag_group(values, DECODING) as define:
        define.string("source_language", "", "Language code of the inputs, for runs whose vocabulary has language "
                      "codes; empty for the problem's.")  # fmt: skip
        define.string("target_language", "", "Language code of the outputs, for such runs and those with "
                      "--language_tags, also for a direction that was not trained; empty for the problem's."
                      )  # fmt: skip


def languages_of(values: flags.FlagValues) -> tuple[str, str]:
    """Returns the arguments of `LoadedRun.with_languages`."""
    return values.source_language, values.target_language


_SEARCH_FLAGS = ("decode_beam_size", "decode_alpha", "decode_extra_length")
_MACHINE_FLAGS = ("decode_batch_size", "max_input_length")
_ALL_SEARCH_FLAGS = (
    *_SEARCH_FLAGS, "decode_method", "decode_length_penalty", "decode_coverage_penalty", "shortlist", *_MACHINE_FLAGS,
    "min_output_length", "eos_penalty", "no_repeat_ngram_size", "constrain_output",
    "sampling_temperature", "sampling_top_k", "sampling_top_p", "mask_predict_iterations", "length_candidates",
)  # fmt: skip
OUTPUT_FLAGS = tuple(name for name in _ALL_SEARCH_FLAGS if name not in _MACHINE_FLAGS)
"""Search flags without effect in modes that do not search, such as --score_file."""
WORD_FLAGS = ("alignments", "replace_unknown", "token_scores", "alignment_layer", "alignment_head")
"""Flags of `define_word_flags` that set hparams."""


def define_search_flags(values: flags.FlagValues, decodes_only: bool = False) -> None:
    """Defines the main search flags, or all of them if `decodes_only`; unset flags keep the run's hparams."""
    with flag_group(values, DECODING):
        for flag in _ALL_SEARCH_FLAGS if decodes_only else _SEARCH_FLAGS:
            define_field_flag(values, flag, DecodeHParams, default=None)
    define_decode_hparams_flag(values)


def define_word_flags(values: flags.FlagValues) -> None:
    """Defines flags of alignments, unknown words and token scores; unset flags keep the run's hparams."""
    with flag_group(values, OUTPUT) as define:
        for flag in WORD_FLAGS:
            define_field_flag(values, flag, DecodeHParams, default=None)
        define.string("unknown_dictionary", "", "Translations for --replace_unknown: lines of word TAB translation; "
                      "words without a translation are copied.")  # fmt: skip


def search_overrides(values: flags.FlagValues) -> str:
    """Returns the search flags that were given, in the syntax of `--hparams`."""
    given = given_values(values, (*_ALL_SEARCH_FLAGS, *WORD_FLAGS))
    return format_overrides({RENAMED.get(name, name): value for name, value in given.items()})


def given_hparams(values: flags.FlagValues) -> str:
    """Returns `--hparams` on top of the hparams of the --config file.

    Hparams of the file are dropped where `--hparams` or search flags replace them or leave them unread, so plug-ins,
    which may define the set, must be loaded.

    Raises:
        UserError: the set does not take an hparam of the file.
    """
    own, of_file, searched = join_overrides(values.hparams), hparams_of_file(values), search_overrides(values)
    if not of_file:
        return own
    hparams_set, later = _hparams_set(values), join_overrides((own, searched))
    check_hparams_of_file(values, hparams_set, assigned_names(later))
    merged = merge_hparams(hparams_set, of_file, later)
    for name in assigned_names(searched) - assigned_names(own):
        merged = drop_overrides(merged, name)
    return merged


def _hparams_set(values: flags.FlagValues) -> str:
    """Returns the name of the set, given or of the run in --output_dir; empty without any."""
    folder = values.output_dir if "output_dir" in values else ""
    if values.hparams_set or not folder or not RunDir.exists(folder):
        return values.hparams_set
    return RunDir.open(folder).record.hparams_set


def trained_overrides(values: flags.FlagValues) -> str:
    """Returns the overrides of a trained run: `--hparams` and the search flags that were given.

    `train_steps` is left out where --train_steps overrides it.
    """
    own = given_hparams(values) if "hparams" in values else ""
    if has_flag(values, "train_steps") and values.train_steps is not None:
        own = drop_overrides(own, "train_steps")
    return join_overrides((own, search_overrides(values)))


FILE_MODES = ("decode_from_file", "score_file", "align_file")
"""Flags whose file is read by windows, and can be divided into shards."""


def define_shard_flags(values: flags.FlagValues) -> None:
    """Defines --shard and --merge."""
    with flag_group(values, ACTION) as define:
        define.string("shard", "", "K/N, K from 0: decodes only shard K of N, into a part next to "
                      "<decode_to_file>; run the other shards in other processes or machines.")  # fmt: skip
        define.boolean("merge", False, "Joins the parts of all shards into <decode_to_file>, without a model; give "
                       "the same other flags as for the shards.")  # fmt: skip


def check_shard_flags(values: flags.FlagValues) -> None:
    """Raises UserError for wrong uses of --shard, --merge and --beam_options; call after checking the modes.

    All processes must have one engine, and that of --engine=auto depends on what is installed where each of them runs.
    Where none is named, it is TensorFlow.
    """
    requested = [f"--{name}" for name in ("shard", "merge", "beam_options") if values[name].value]
    if not requested:
        return
    if len(requested) > 1:
        raise UserError(
            f"{' and '.join(requested)} are given",
            "--shard does one shard, --merge joins those that are done, and --beam_options does all and joins them: "
            "keep one",
        )
    source = "".join(values[name].value for name in FILE_MODES)
    if not source or values.attention_to_html:
        given = "--attention_to_html makes one page" if values.attention_to_html else "only files are divided"
        raise UserError(
            f"{requested[0]}: {given}",
            f"give {requested[0]} with --decode_from_file, --score_file or --align_file only",
        )
    if not values.decode_to_file:
        raise UserError(f"{requested[0]}: parts go next to the output", "name that with --decode_to_file")
    if values.engine == AUTO and not values.merge:
        if values["engine"].present:
            raise UserError(
                f"{requested[0]}: with --engine=auto each process chooses its engine, and the parts may be of several",
                "name one for all, --engine=tensorflow or --engine=ctranslate2",
            )
        values.engine = TENSORFLOW
    if values.shard:
        parse_shard(values.shard)
    check_sharded(source, values.decode_to_file)


def command_of_shard(values: flags.FlagValues, shard: str) -> str:
    """Returns the command that decodes a shard, such as `3/100`, with the flags that were given with --merge."""
    given = [
        word
        for name in values
        if (flag := values[name]).present and flag.name == name and not hasattr(flag, "alias_of") and name != "merge"
        for word in flag.serialize().split("\n")
    ]
    return shlex.join(["t2t-decoder", *given, f"--shard={shard}"])


def define_beam_flag(values: flags.FlagValues) -> None:
    """Defines --beam_options."""
    with flag_group(values, MACHINE) as define:
        define.string("beam_options", "", "Pipeline options of Apache Beam, in quotes. Its workers then process the "
                      "shards, in local processes or on a cluster.")  # fmt: skip


def checked_beam_options(values: flags.FlagValues) -> str:
    """Returns the value of --beam_options after checking it; empty if unset.

    Raises:
        UserError: Apache Beam is not installed or does not know an option.
    """
    if values.beam_options:
        with needs_extra("beam", "--beam_options"):
            from t2t.pipelines.pipeline import parse_beam_options
        parse_beam_options(values.beam_options)
    return values.beam_options
