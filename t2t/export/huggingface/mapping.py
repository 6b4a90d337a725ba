"""What corresponds in transformers' models and the Transformer here: names of settings and tensors, read both ways.

`t2t.importing.huggingface` reads the tables from left to right, `t2t.export.huggingface` from right to left.

Legend: D width, E channels of a layer's output, K key channels of one head.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np


class Kind(enum.Enum):
    """What a module of transformers is."""

    READS = enum.auto()
    """A linear map from the width: `weight` (E, D), `bias` (E,)."""
    WRITES = enum.auto()
    """A linear map to the width: `weight` (D, E), `bias` (D,)."""
    NORM = enum.auto()
    """`weight` and `bias`, (D,) each."""
    TABLE = enum.auto()
    """`weight`, as it is here."""


class Part(NamedTuple):
    """A module of transformers and the weights here."""

    theirs: str
    """Its name, without `.weight` and `.bias`."""
    ours: str
    """Path of a table or a norm; what stands before `kernel` and `bias` of a linear map."""
    kind: Kind


MARIAN_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
MARIAN_FIXED = {
    "scale_embedding": True,
    "tie_word_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""Settings of which the network here has one value."""
MARIAN_SIZES = {
    "d_model": "hidden_size",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_heads",
    "encoder_ffn_dim": "filter_size",
    "max_position_embeddings": "max_length",
}
MARIAN_EQUAL = {"decoder_attention_heads": "encoder_attention_heads", "decoder_ffn_dim": "encoder_ffn_dim"}
"""Settings of the decoder that are one hparam with the encoder's."""
MARIAN_RATES = {
    "dropout": ("layer_prepostprocess_dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "activation_dropout": ("relu_dropout", 0.0),
}
"""Hparam, and the value where a configuration has none."""
MARIAN_NORM_EPSILON = 1e-5
"""Which no setting of transformers changes."""
NEVER = -1e9
"""Bias of the logit of an id that is never written."""

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
"""`feed_forward_proj`: activation, and whether it is gated."""
T5_BIAS = "SelfAttention.relative_attention_bias"
QUERY = "project/query_"
"""How the path of a map to queries ends, whose weights T5 has without the scale of scores."""

_LETTERS = {"q": "query", "k": "key", "v": "value"}


def backwards(names: Mapping[str, Any]) -> dict[Any, str]:
    """Returns the keys of a table by value, the first of those that have the same."""
    return {value: name for name, value in reversed(list(names.items()))}


def transformer_parts(encoder_layers: int, decoder_layers: int, prefix: str = "model.") -> Iterator[Part]:
    """Yields the modules of the layers of a Transformer as fairseq names them, and transformers after it.

    `prefix` is what names begin with: `model.` in `MarianMTModel` and its relatives.
    """
    attentions = {"self_attn": "self_attention", "encoder_attn": "encdec_attention"}
    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        for number in range(layers):
            name, path = f"{prefix}{side}.layers.{number}", f"{side}/layer_{number}"
            yield Part(f"{name}.fc1", f"{path}/ffn/inner/", Kind.READS)
            yield Part(f"{name}.fc2", f"{path}/ffn/outer/", Kind.WRITES)
            yield Part(f"{name}.final_layer_norm", f"{path}/ffn_residual/norm", Kind.NORM)
            for theirs in list(attentions)[: 1 + (side == "decoder")]:
                attention, ours = f"{name}.{theirs}", f"{path}/{attentions[theirs]}"
                for letter, part in _LETTERS.items():
                    yield Part(f"{attention}.{letter}_proj", f"{ours}/project/{part}_", Kind.READS)
                yield Part(f"{attention}.out_proj", f"{ours}/output/", Kind.WRITES)
                yield Part(f"{attention}_layer_norm", f"{ours}_residual/norm", Kind.NORM)


def t5_parts(encoder_layers: int, decoder_layers: int, is_gated: bool) -> Iterator[Part]:
    """Yields the modules of the stacks of a `T5ForConditionalGeneration`."""
    for side, layers in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        yield Part(f"{side}.block.0.layer.0.{T5_BIAS}", f"{side}/relative_bias/table", Kind.TABLE)
        yield Part(f"{side}.final_layer_norm", f"{side}/final_norm", Kind.NORM)
        attentions = [("SelfAttention", "self_attention"), ("EncDecAttention", "encdec_attention")]
        attentions = attentions[: 1 + (side == "decoder")]
        for layer in range(layers):
            name, path = f"{side}.block.{layer}.layer", f"{side}/layer_{layer}"
            for number, (theirs, ours) in enumerate(attentions):
                for letter, part in _LETTERS.items():
                    yield Part(f"{name}.{number}.{theirs}.{letter}", f"{path}/{ours}/project/{part}_", Kind.READS)
                yield Part(f"{name}.{number}.{theirs}.o", f"{path}/{ours}/output/", Kind.WRITES)
                yield Part(f"{name}.{number}.layer_norm", f"{path}/{ours}_residual/norm", Kind.NORM)
            inner, last = f"{name}.{len(attentions)}.DenseReluDense", f"{name}.{len(attentions)}"
            for theirs, ours in (("wi_0", "inner"), ("wi_1", "linear")) if is_gated else (("wi", "inner"),):
                yield Part(f"{inner}.{theirs}", f"{path}/ffn/{ours}/", Kind.READS)
            yield Part(f"{inner}.wo", f"{path}/ffn/outer/", Kind.WRITES)
            yield Part(f"{last}.layer_norm", f"{path}/ffn_residual/norm", Kind.NORM)


def scaled(weight: np.ndarray, factor: float) -> np.ndarray:
    """Returns the product as float32, rounded once."""
    return (weight.astype(np.float64) * factor).astype(np.float32)
