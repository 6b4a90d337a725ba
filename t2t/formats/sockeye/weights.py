"""Converts the weights of a Sockeye 3 network to our paths.

Queries are stacked above keys and values in one matrix, where the keys of a head are followed by its values, then by
the keys of the next head and so on.

Legend: D width, H heads, K channels of a head, U foreign ids.
"""

from collections.abc import Sequence

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer import TransformerHParams

_POSITIONS = "sinusoids, which are computed here"
_LENGTHS = "predicts how long outputs are, which the search here does not ask"


def convert_tables(tensors: Tensors) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Returns the tables of inputs, targets and the output layer, (U, D) each, and the biases of logits, (U,)."""
    names = ("embedding_source.embedding", "embedding_target.embedding", "output_layer")
    inputs, targets, outputs = (tensors.take(f"{name}.weight") for name in names)
    return (inputs, targets, outputs), tensors.take("output_layer.bias")


def convert_stacks(tensors: Tensors, hparams: TransformerHParams) -> Arrays:
    """Returns the weights of both stacks; marks the tensors that are not needed."""
    weights: Arrays = {}
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            weights |= _layer(tensors, hparams, side, number)
        if hparams.norm_position == "pre":
            weights |= tensors.norm(f"{side}.final_process.layer_norm", f"{side}/final_norm")
        tensors.drop(f"{side}.pos_embedding.weight", _POSITIONS)
    for name in tensors.names:
        if name.startswith("length_ratio."):
            tensors.drop(name, _LENGTHS)
    return weights


def _layer(tensors: Tensors, hparams: TransformerHParams, side: str, number: int) -> Arrays:
    """Returns the weights of a layer."""
    name, path = f"{side}.layers.{number}", f"{side}/layer_{number}"
    heads = (hparams.of_decoder if side == "decoder" else hparams).num_heads
    weights: Arrays = {}
    if side == "encoder":
        weights |= _self_attention(tensors, f"{name}.self_attention", f"{path}/self_attention", heads)
        parts = {"self_attention": "self_attention", "ff": "ffn"}
    else:
        first = hparams.decoder_layer
        if first == "ssru":
            weights |= _ssru(tensors, f"{name}.autoregr_layer", f"{path}/ssru")
        else:
            weights |= _self_attention(tensors, f"{name}.autoregr_layer", f"{path}/self_attention", heads)
        weights |= _attention(tensors, f"{name}.enc_attention", f"{path}/encdec_attention", heads)
        parts = {"autoregr_layer": first, "enc_attention": "encdec_attention", "ff": "ffn"}
    for theirs, ours in parts.items():
        weights |= tensors.norm(f"{name}.{hparams.norm_position}_{theirs}.layer_norm", f"{path}/{ours}_residual/norm")
    maps = {"ff1": "inner", "ff2": "outer"} | ({"linear": "linear"} if hparams.gated_feed_forward else {})
    for theirs, ours in maps.items():
        weights |= tensors.linear(f"{name}.ff.{theirs}", f"{path}/ffn/{ours}/")
    return weights


def _self_attention(tensors: Tensors, name: str, path: str, heads: int) -> Arrays:
    packed = tensors.take(f"{name}.ff_in.weight")
    width = packed.shape[1]
    return _projections(packed[:width], packed[width:], path, heads) | tensors.linear(
        f"{name}.ff_out", f"{path}/output/"
    )


def _attention(tensors: Tensors, name: str, path: str, heads: int) -> Arrays:
    query, packed = (tensors.take(f"{name}.{part}.weight") for part in ("ff_q", "ff_kv"))
    return _projections(query, packed, path, heads) | tensors.linear(f"{name}.ff_out", f"{path}/output/")


def _projections(query: np.ndarray, packed: np.ndarray, path: str, heads: int) -> Arrays:
    """Returns our kernels from the queries, (D, D), and the keys and values, (2D, D), interleaved by head."""
    by_head = packed.reshape(heads, 2, -1, packed.shape[-1])
    parts: Sequence[np.ndarray] = (query, *(by_head[:, n].reshape(-1, packed.shape[-1]) for n in (0, 1)))
    return {
        f"{path}/project/{name}_kernel": part.T for name, part in zip(("query", "key", "value"), parts, strict=True)
    }


def _ssru(tensors: Tensors, name: str, path: str) -> Arrays:
    kernels = [tensors.take(f"{name}.{part}.weight").T for part in ("forget_gate", "linear")]
    return {
        f"{path}/kernel": np.concatenate(kernels, axis=1),
        f"{path}/gate_bias": tensors.take(f"{name}.forget_gate.bias"),
    }
