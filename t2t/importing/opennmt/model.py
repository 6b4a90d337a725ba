"""What a model of OpenNMT-py or Eole is, whichever of them wrote it: settings, tensors under names, lists of tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

OUTPUT = "generator.weight"
"""Name of the output layer's table; its biases are named alike."""


@dataclass(frozen=True)
class Names:
    """How a toolkit calls the tensors; `{n}` is the number of a layer, counted from 0."""

    positions: Mapping[str, str]
    """Tables of positions, by stack."""
    layers: Mapping[str, str]
    """Layers, by stack."""
    norms: Mapping[str, tuple[str, ...]]
    """By stack, the norms before self-attention, before attention to inputs where there is one, before feed-forward."""
    maps: tuple[str, str, str]
    """Feed-forward: inner, outer, and the one that is multiplied by the inner one."""


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
    """A model as its files have it."""

    names: Names
    tables: tuple[str, str, str]
    """Names of the tables of inputs, of targets and of the output layer; some may be one."""
    origin: str
    """The file, for messages."""
    arrays: Mapping[str, np.ndarray]
    tokens: Mapping[str, list[str]]
    """By id, of `src` and `tgt`."""
    special: Mapping[str, str]
    """Tokens by purpose: `pad`, `eos`, `unk` and `start`, which the decoder begins with."""
    heads: int
    activation: str
    norm_type: str
    norm_epsilon: float
    scales_embeddings: bool
    """Whether embeddings are multiplied by the root of the width before positions are added."""
    settings: Mapping[str, Any]
    """Further hparams, of training."""
