"""Mapping between transformers' models and the Transformer here: settings, with those of a folder, and tensors.

Imports read the tables from left to right, exports from right to left.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from t2t.checkpoints.arrays import Arrays
from t2t.errors import first_few
from t2t.formats.folder import ModelFolder
from t2t.formats.tensors import Kind, MappedModule, Tensors, take_parts
from t2t.hparams.transformer import TransformerHParams

MARIAN_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
MARIAN_FIXED = {
    "scale_embedding": True,
    "tie_word_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""Settings with the values that the network here supports."""
MARIAN_SIZES = {
    "d_model": "hidden_size",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_heads",
    "encoder_ffn_dim": "filter_size",
    "decoder_attention_heads": "num_decoder_heads",
    "decoder_ffn_dim": "decoder_filter_size",
    "max_position_embeddings": "max_length",
}
MARIAN_RATES = {
    "dropout": ("layer_prepostprocess_dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "activation_dropout": ("relu_dropout", 0.0),
}
"""Hparam, and its default in configurations without the setting."""
MARIAN_NORM_EPSILON = 1e-5
"""Fixed in transformers."""
NEVER = -1e9
"""Logit bias of an id that must not be generated."""

T5_SIZES = {
    "d_model": "hidden_size",
    "d_ff": "filter_size",
    "num_layers": "num_encoder_layers",
    "num_decoder_layers": "num_decoder_layers",
    "num_heads": "num_heads",
    "relative_attention_num_buckets": "relative_bias_buckets",
    "relative_attention_max_distance": "relative_bias_max_distance",
}
T5_FEED_FORWARD = {
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gelu_new": ("gelu_tanh", False),
    "silu": ("silu", False),
    "gated-relu": ("relu", True),
    "gated-gelu": ("gelu_tanh", True),
    "gated-gelu_new": ("gelu_tanh", True),
    "gated-silu": ("silu", True),
}
"""`feed_forward_proj` -> activation, and whether the feed-forward sub-layer is gated."""
T5_BIAS = "SelfAttention.relative_attention_bias"
QUERY = "project/query_"
"""End of the path of query projections, which T5 does not scale."""

_LETTERS = {"q": "query", "k": "key", "v": "value"}


def transformer_parts(encoder_layers: int, decoder_layers: int, prefix: str = "model.") -> Iterator[MappedModule]:
    """Yields the modules of a Transformer's layers by their names in fairseq, which transformers also uses.

    Names start with `prefix`, `model.` in `MarianMTModel` and similar models.
    """
    attentions = {"self_attn": "self_attention", "encoder_attn": "encdec_attention"}
    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        for number in range(layers):
            name, path = f"{prefix}{side}.layers.{number}", f"{side}/layer_{number}"
            yield MappedModule(f"{name}.fc1", f"{path}/ffn/inner/", Kind.READS)
            yield MappedModule(f"{name}.fc2", f"{path}/ffn/outer/", Kind.WRITES)
            yield MappedModule(f"{name}.final_layer_norm", f"{path}/ffn_residual/norm", Kind.NORM)
            for theirs in list(attentions)[: 1 + (side == "decoder")]:
                attention, ours = f"{name}.{theirs}", f"{path}/{attentions[theirs]}"
                for letter, part in _LETTERS.items():
                    yield MappedModule(f"{attention}.{letter}_proj", f"{ours}/project/{part}_", Kind.READS)
                yield MappedModule(f"{attention}.out_proj", f"{ours}/output/", Kind.WRITES)
                yield MappedModule(f"{attention}_layer_norm", f"{ours}_residual/norm", Kind.NORM)


def t5_parts(encoder_layers: int, decoder_layers: int, is_gated: bool) -> Iterator[MappedModule]:
    """Yields the modules of the stacks of a `T5ForConditionalGeneration`."""
    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        yield MappedModule(f"{side}.block.0.layer.0.{T5_BIAS}", f"{side}/relative_bias/table", Kind.TABLE)
        yield MappedModule(f"{side}.final_layer_norm", f"{side}/final_norm", Kind.NORM)
        attentions = [("SelfAttention", "self_attention"), ("EncDecAttention", "encdec_attention")]
        attentions = attentions[: 1 + (side == "decoder")]
        for layer in range(layers):
            name, path = f"{side}.block.{layer}.layer", f"{side}/layer_{layer}"
            for number, (theirs, ours) in enumerate(attentions):
                for letter, part in _LETTERS.items():
                    yield MappedModule(
                        f"{name}.{number}.{theirs}.{letter}", f"{path}/{ours}/project/{part}_", Kind.READS
                    )
                yield MappedModule(f"{name}.{number}.{theirs}.o", f"{path}/{ours}/output/", Kind.WRITES)
                yield MappedModule(f"{name}.{number}.layer_norm", f"{path}/{ours}_residual/norm", Kind.NORM)
            inner, last = f"{name}.{len(attentions)}.DenseReluDense", f"{name}.{len(attentions)}"
            for theirs, ours in (("wi_0", "inner"), ("wi_1", "linear")) if is_gated else (("wi", "inner"),):
                yield MappedModule(f"{inner}.{theirs}", f"{path}/ffn/{ours}/", Kind.READS)
            yield MappedModule(f"{inner}.wo", f"{path}/ffn/outer/", Kind.WRITES)
            yield MappedModule(f"{last}.layer_norm", f"{path}/ffn_residual/norm", Kind.NORM)


@dataclasses.dataclass(frozen=True)
class Network:
    """A model in transformers' terms."""

    config: Mapping[str, Any]
    """Content of `config.json`."""
    tensors: Arrays
    """Tensors by their names in transformers."""
    start: int
    """Id that the decoder starts with; an added one if padding cannot be used."""
    longest: int | None
    """Number of positions of inputs and outputs; None for no limit."""


def backwards(names: Mapping[str, Any]) -> dict[Any, str]:
    """Inverts a table; of keys with the same value the first is kept."""
    return {value: name for name, value in reversed(list(names.items()))}


# === The settings of a folder: config.json and generation_config.json ===


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
