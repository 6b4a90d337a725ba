"""Flags of search and word alignment, and the hparams that they override."""

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.config import check_hparams_of_file, hparams_of_file
from t2t.cli.decode_hparams import define_decode_hparams_flag
from t2t.cli.field_flag import define_field_flag
from t2t.cli.help import DECODING, OUTPUT, flag_group
from t2t.cli.tensor2tensor import has_flag
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import assigned_names, drop_overrides, format_overrides, join_overrides
from t2t.runs.arguments import RENAMED
from t2t.runs.names import merge_hparams

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
    names = (*_ALL_SEARCH_FLAGS, *WORD_FLAGS)
    given = {RENAMED.get(name, name): values[name].value for name in names if has_flag(values, name)}
    return format_overrides({field: value for field, value in given.items() if value is not None})


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
