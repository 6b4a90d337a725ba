"""The settings of a model's folder, config.json and generation_config.json, as hparams."""

from collections.abc import Collection, Mapping
from typing import Any

from t2t.checkpoints.arrays import Arrays
from t2t.errors import first_few
from t2t.formats.folder import ModelFolder
from t2t.formats.huggingface.mapping import MARIAN_ACTIVATIONS, MARIAN_RATES, MARIAN_SIZES, transformer_parts
from t2t.formats.tensors import Tensors, take_parts
from t2t.hparams.transformer import TransformerHParams

_WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "repetition_penalty": (None, 1), "encoder_repetition_penalty": (None, 1), "diversity_penalty": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0), "suppress_tokens": (None, []), "begin_suppress_tokens": (None, []),
    "exponential_decay_length_penalty": (None,), "do_sample": (None, False), "num_beam_groups": (None, 1),
    "penalty_alpha": (None, 0), "guidance_scale": (None, 1), "sequence_bias": (None, [], {}),
    "forced_bos_token_id": (None,), "forced_decoder_ids": (None, []), "force_words_ids": (None, []),
    "stop_strings": (None, []),
}  # fmt: skip
"""Settings without an hparam -> values with which they change nothing."""
_LIMITS = ("max_length", "max_new_tokens")
_USUAL_LENGTH = 100
"""A limit of so many ids or more seldom cuts an output."""
_LONGEST = 60
"""Characters of a setting in a warning."""


def search_hparams(folder: ModelFolder) -> dict[str, Any]:
    """Returns the hparams of a folder's search settings; raises UserError if one is no number.

    In transformers `min_length` counts the id that the decoder starts with, but neither it nor `min_new_tokens` counts
    the end of sequence. `min_new_tokens` takes precedence.
    """
    search = folder.generation_config
    shortest = search.number("min_new_tokens", search.number("min_length", 0) - 1)
    return {
        "beam_size": int(search.number("num_beams", 1)),
        "length_penalty": "power",  # scores are divided by length^alpha
        "alpha": search.number("length_penalty", 1.0),
        "no_repeat_ngram_size": int(search.number("no_repeat_ngram_size", 0)),
        "min_output_length": max(int(shortest), 0),
    }


def search_warnings(folder: ModelFolder, known: Collection[str] = ()) -> tuple[str, ...]:
    """Returns a warning that names the search settings that have no hparam; empty without such settings.

    `known` are settings that the caller has imported in another way. `early_stopping` is not named: it decides which
    of several finished outputs are compared, as the search here does by a rule of its own.
    """
    search = folder.generation_config
    only_padding = [[folder.config.get("pad_token_id")]]  # padding is never in outputs
    without_effect = {**_WITHOUT_EFFECT, "bad_words_ids": (None, [], only_padding)}
    lost = [
        f"{name}={search[name]!r}"[:_LONGEST]
        for name, values in without_effect.items()
        if name not in known and name in search and search[name] not in values
    ]
    lost += [f"{name}={search[name]!r}" for name in _LIMITS if 0 < search.number(name, 0) < _USUAL_LENGTH]
    if not lost:
        return ()
    return (f"search settings that have no hparam here were left out: {first_few(lost, ', ')}",)


COPIES = ("lm_head.weight", "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight")
"""Other names of a shared embedding table; without one, the first is another name of the decoder's."""


def with_sizes(folder: ModelFolder, hparams: TransformerHParams) -> TransformerHParams:
    """Returns hparams with the sizes, dropout and search settings of a folder.

    Raises:
        UserError: a setting is missing or has the wrong type.
    """
    sizes = {ours: folder.config.size(theirs) for theirs, ours in MARIAN_SIZES.items()}
    of_decoder = sizes.pop("num_decoder_heads"), sizes.pop("decoder_filter_size")
    rates = {ours: folder.config.number(theirs, usual) for theirs, (ours, usual) in MARIAN_RATES.items()}
    return hparams.replace(
        **sizes,
        **rates,
        activation=MARIAN_ACTIVATIONS[folder.config.need("activation_function", str)],
        **search_hparams(folder),
    ).with_decoder(*of_decoder)


def stacks(tensors: Tensors, hparams: TransformerHParams, target_table: str = "model.shared.weight") -> Arrays:
    """Returns the weights of all encoder and decoder layers by our paths, with the norm at the end of each stack.

    Copies of the embedding tables are marked as not needed; `target_table` is the name of the target table.
    """
    weights = take_parts(tensors, transformer_parts(hparams.encoder_layers, hparams.decoder_layers))
    for side in ("encoder", "decoder"):
        if hparams.norm_position == "pre":
            weights |= tensors.norm(f"model.{side}.layer_norm", f"{side}/final_norm")
        if hparams.shared_embedding:
            tensors.drop_copy(f"model.{side}.embed_tokens.weight", "model.shared.weight")
    tensors.drop_copy("lm_head.weight", target_table)
    return weights
