"""Mapping between transformers' models and the Transformer here: names of settings and tensors.

Imports read the tables from left to right, exports from right to left.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from t2t.checkpoints.arrays import Arrays
from t2t.formats.tensors import Kind, MappedModule
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


def complaints(hparams: TransformerHParams, wanted: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """Returns a text for each setting whose value is not among the `wanted` ones."""
    return [
        f"{name}={getattr(hparams, name)} (known: {', '.join(map(str, values))})"
        for name, values in wanted.items()
        if getattr(hparams, name) not in values
    ]


def backwards(names: Mapping[str, Any]) -> dict[Any, str]:
    """Inverts a table; of keys with the same value the first is kept."""
    return {value: name for name, value in reversed(list(names.items()))}
