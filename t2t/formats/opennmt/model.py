"""The common form of models of OpenNMT-py and Eole: settings, named tensors, lists of tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

OUTPUT = "generator.weight"
"""Name of the output layer's table; its bias has the same prefix."""


@dataclass(frozen=True)
class Names:
    """A toolkit's names of the tensors; `{n}` is the index of a layer, from 0."""

    positions: Mapping[str, str]
    """Stack -> table of positions."""
    layers: Mapping[str, str]
    """Stack -> prefix of a layer."""
    norms: Mapping[str, tuple[str, ...]]
    """Stack -> norms before self-attention, before attention to inputs if any, and before feed-forward."""
    maps: tuple[str, str, str]
    """Linear maps of the feed-forward layer: inner, outer, and gate."""


OPENNMT_PY = Names(
    positions={side: f"{side}.embeddings.make_embedding.pe.pe" for side in ("encoder", "decoder")},
    layers={"encoder": "encoder.transformer.{n}", "decoder": "decoder.transformer_layers.{n}"},
    norms={
        "encoder": ("layer_norm", "feed_forward.layer_norm"),
        "decoder": ("layer_norm_1", "layer_norm_2", "feed_forward.layer_norm"),
    },
    maps=("feed_forward.w_1", "feed_forward.w_2", "feed_forward.w_3"),
)
EOLE = Names(
    positions={"encoder": "src_emb.pe.pe", "decoder": "tgt_emb.pe.pe"},
    layers={side: f"{side}.transformer_layers.{{n}}" for side in ("encoder", "decoder")},
    norms={
        "encoder": ("input_layernorm", "post_attention_layernorm"),
        "decoder": ("input_layernorm", "precontext_layernorm", "post_attention_layernorm"),
    },
    maps=("mlp.gate_up_proj", "mlp.down_proj", "mlp.up_proj"),
)


@dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A model as read from its files."""

    names: Names
    tables: tuple[str, str, str]
    """Names of the tables of inputs, targets and the output layer; some may be the same."""
    origin: str
    """The file, for messages."""
    arrays: Mapping[str, np.ndarray]
    tokens: Mapping[str, list[str]]
    """`src` and `tgt` -> tokens by id."""
    special: Mapping[str, str]
    """Tokens by purpose: `pad`, `eos`, `unk` and `start`, the first decoder input."""
    heads: int
    decoder_heads: int
    activation: str
    norm_type: str
    norm_epsilon: float
    scales_embeddings: bool
    """Whether embeddings are multiplied by sqrt(width) before positions are added."""
    settings: Mapping[str, Any]
    """Further hparams, for training."""
    alignment: tuple[Any, Any]
    """Layer and number of heads that were trained for alignments, see `alignment_hparams`."""


def trained_alignment(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """Returns layer and heads of a decoder that was trained on alignments, (None, None) of another."""
    if not settings.get("lambda_align"):
        return None, None
    return settings.get("alignment_layer"), settings.get("alignment_heads")
