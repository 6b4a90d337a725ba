"""Converts the weights of a CTranslate2 network to our paths.

Matrices there are (out, in), ours (in, out); queries, keys and values are stacked in one matrix. Scales of attention
scores and embeddings are separate numbers there, and are folded into the weights here.

Legend: D width, H heads, K channels of a head, V vocabulary.
"""

from collections.abc import Mapping

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.ctranslate2.attributes import Attributes
from t2t.formats.tables import scaled
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_bart import TransformerBartHParams

SOURCE_TABLES = ("encoder/embeddings_0/weight", "encoder/embeddings/weight")
"""Names of the input table, the second one in old files."""


def convert_stacks(tensors: Tensors, attributes: Attributes, hparams: TransformerHParams) -> Arrays:
    """Returns the weights of both stacks."""
    weights: Arrays = {}
    for side, of_side, layers in (
        ("encoder", hparams, hparams.encoder_layers), ("decoder", hparams.of_decoder, hparams.decoder_layers)
    ):  # fmt: skip
        for number in range(layers):
            weights |= _layer(tensors, attributes, of_side, f"{side}/layer_{number}")
        if hparams.norm_position == "pre":
            weights |= _norm(tensors, f"{side}/layer_norm", f"{side}/final_norm")
        if hparams.positions == "relative_bias":
            weights[f"{side}/relative_bias/table"] = _one_bias(tensors, side, layers)
    tables = [f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")]
    sides = ("source_positions/", "target_positions/") if isinstance(hparams, TransformerBartHParams) else ("",)
    if hparams.positions == "learned":
        weights |= {f"{side}positions/table": tensors.take(tables[0]) for side in sides}
        tensors.drop_copy(tables[1], tables[0])
    if getattr(hparams, "embedding_norm", False):
        for side, path in zip(("encoder", "decoder"), sides, strict=True):
            weights |= _norm(tensors, f"{side}/layernorm_embedding", f"{path}norm")
    for table in tables:
        if hparams.positions != "learned":
            tensors.drop(table, "positions, which are computed here")
    return weights


def convert_tables(
    tensors: Tensors, attributes: Attributes, width: int
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray | None]:
    """Returns the tables of inputs, targets and the output layer by foreign ids, and the biases of logits, if any.

    They are scaled for our network, which multiplies embeddings by sqrt(D), but not the input of the output layer.
    """
    source = next((name for name in SOURCE_TABLES if name in tensors), SOURCE_TABLES[0])
    scales = [attributes.embedding_scale(side, width) / width**0.5 for side in ("encoder", "decoder")]
    names = (source, "decoder/embeddings/weight", "decoder/projection/weight")
    factors = (*scales, attributes.get("decoder/scale_outputs", 1.0))
    inputs, targets, outputs = (scaled(tensors.take(name), by) for name, by in zip(names, factors, strict=True))
    bias = "decoder/projection/bias"
    return (inputs, targets, outputs), tensors.take(bias) if bias in tensors else None


def _layer(tensors: Tensors, attributes: Attributes, hparams: TransformerHParams, path: str) -> Arrays:
    """Returns the weights of a layer, which has the same path on both sides."""
    weights = _attention(tensors, attributes, hparams, f"{path}/self_attention", f"{path}/self_attention")
    if path.startswith("decoder"):
        weights |= _attention(tensors, attributes, hparams, f"{path}/attention", f"{path}/encdec_attention")
    maps = {"linear_0": "inner", "linear_1": "outer"} | (
        {"linear_0_noact": "linear"} if hparams.gated_feed_forward else {}
    )
    for theirs, ours in maps.items():
        weights |= _linear(tensors, f"{path}/ffn/{theirs}", {f"{path}/ffn/{ours}/": None}, hparams.feed_forward_bias)
    return weights | _norm(tensors, f"{path}/ffn/layer_norm", f"{path}/ffn_residual/norm")


def _attention(tensors: Tensors, attributes: Attributes, hparams: TransformerHParams, name: str, path: str) -> Arrays:
    size = hparams.key_channels // hparams.num_heads
    channels = {"query": hparams.key_channels}
    channels |= dict.fromkeys(("key", "value"), (hparams.num_kv_heads or hparams.num_heads) * size)
    is_own = name.endswith("self_attention")
    weights = _norm(tensors, f"{name}/layer_norm", f"{path}_residual/norm")
    for number, parts in enumerate((("query", "key", "value"),) if is_own else (("query",), ("key", "value"))):
        paths = {f"{path}/project/{part}_": channels[part] for part in parts}
        weights |= _linear(tensors, f"{name}/linear_{number}", paths, hparams.attention_bias)
    weights |= _linear(
        tensors, f"{name}/linear_{1 if is_own else 2}", {f"{path}/output/": None}, hparams.attention_bias
    )
    if (scale := attributes.get(f"{name}/queries_scale")) is not None:  # our scores are divided by sqrt(K)
        for query in {f"{path}/project/query_{kind}" for kind in ("kernel", "bias")} & weights.keys():
            weights[query] = scaled(weights[query], scale * size**0.5)
    if hparams.positions == "relative" and is_own:
        for kind in ("keys", "values"):
            weights[f"{path}/relative_positions/{kind}"] = tensors.take(f"{name}/relative_position_{kind}")
    return weights


def _linear(tensors: Tensors, name: str, channels: Mapping[str, int | None], has_bias: bool) -> Arrays:
    """Returns the kernels of the parts of a linear map, and their biases with `has_bias`.

    `channels` maps our path of each part to its number of rows; None for a single part with all rows.
    """
    kernel = tensors.take(f"{name}/weight")
    bias = tensors.take(f"{name}/bias") if f"{name}/bias" in tensors else np.zeros(len(kernel), np.float32)
    sizes = [len(kernel) if rows is None else rows for rows in channels.values()]
    if len(kernel) != sum(sizes):
        raise UserError(
            f"{name}/weight has {len(kernel)} rows, {sum(sizes)} by the heads that its file names; get it again"
        )
    cuts = np.cumsum(sizes)[:-1]
    weights = {f"{path}kernel": part.T for path, part in zip(channels, np.split(kernel, cuts), strict=True)}
    if has_bias:
        weights |= {f"{path}bias": part for path, part in zip(channels, np.split(bias, cuts), strict=True)}
    return weights


def _norm(tensors: Tensors, name: str, path: str) -> Arrays:
    beta = {f"{path}/beta": tensors.take(f"{name}/beta")} if f"{name}/beta" in tensors else {}
    return {f"{path}/gamma": tensors.take(f"{name}/gamma")} | beta


def _one_bias(tensors: Tensors, side: str, layers: int) -> np.ndarray:
    """Returns the relative biases shared by all layers of a stack; raises UserError if they differ."""
    name = f"{side}/layer_{{}}/self_attention/relative_attention_bias"
    for number in range(1, layers):
        tensors.drop_copy(name.format(number), name.format(0))
    return tensors.take(name.format(0))
