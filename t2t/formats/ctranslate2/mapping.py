"""The hparams and weights of a CTranslate2 network, from the attributes, names and tensors in its file.

Matrices there are (out, in), ours (in, out); queries, keys and values are stacked in one matrix. Scales of attention
scores and embeddings are separate numbers there, and are folded into the weights here.

Legend: L positions, D width, H heads, K channels of a head, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.ctranslate2.model_file import Attributes
from t2t.formats.tensors import Tensors, one_table, scaled, settings_of
from t2t.hparams.transformer import TransformerHParams, transformer_base
from t2t.hparams.transformer_bart import TransformerBartHParams, transformer_m2m

_ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu", "gelu_sigmoid")
"""Activations by their code in the file; further codes are not supported."""
_SIDES = ("encoder", "decoder")
_FIRST_COMPUTED, _MOST_FIRST = 1, 2
"""Without a table, CTranslate2 counts positions from 1, like OpenNMT-tf; fairseq's tables start at 2."""
_ROTATION = {"rotary_dim": 0, "rotary_interleave": 1, "rotary_base": 10000.0}
"""Supported rotary settings, as here: all channels of a head, in pairs of neighbours."""


def hparams_of(arrays: Arrays, attributes: Attributes, config: Mapping[str, Any], origin: str) -> TransformerHParams:
    """Returns the hparams, with `transformer_base`'s values for training and CTranslate2's for search.

    If positions do not start at 0, or sums of embeddings are normalized, they are hparams of `transformer_bart`.

    Args:
        arrays: the tensors of the file.
        attributes: the scalar attributes of the file.
        config: the content of config.json.
        origin: the file, for messages.

    Raises:
        UserError: the network differs from the Transformer here.
    """
    tensors = Tensors(arrays, origin)
    layers = {side: tensors.count(f"{side}/layer_{{n}}/ffn/linear_0/weight") for side in _SIDES}
    attentions = [f"{side}/layer_{n}/self_attention" for side in _SIDES for n in range(layers[side])]
    width = tensors.take("decoder/embeddings/weight").shape[-1]
    heads = {side: attributes.get(f"{side}/num_heads", attributes.get("num_heads", 8)) for side in _SIDES}
    kv_heads, channels = _of_heads(attributes, attentions, heads, width, layers["decoder"], origin)
    is_rms = "encoder/layer_0/ffn/layer_norm/beta" not in tensors
    epsilon = config.get("layer_norm_epsilon")
    positions = _positions(tensors, attributes, attentions, origin)
    norms = {"embedding_norm": True} if "encoder/layernorm_embedding/gamma" in tensors else {}
    is_bart = norms or "first_position" in positions
    own = {"sinusoid_layout": "interleaved", "first_position": 0, **norms} if is_bart else {}
    hparams = (transformer_m2m() if is_bart else transformer_base()).replace(
        hidden_size=width,
        num_encoder_layers=layers["encoder"],
        num_decoder_layers=layers["decoder"],
        num_heads=heads["encoder"],
        num_kv_heads=kv_heads,
        attention_key_channels=channels,
        attention_value_channels=channels,
        filter_size=len(tensors.take("encoder/layer_0/ffn/linear_0/weight")),
        activation=_activation(attributes, origin),
        gated_feed_forward="encoder/layer_0/ffn/linear_0_noact/weight" in tensors,
        feed_forward_bias=_has_bias(arrays, "/ffn/"),
        attention_bias=_has_bias(arrays, "attention/"),
        norm_position="pre" if attributes.of_stacks("pre_norm", 1) else "post",
        norm_type="rms" if is_rms else "layer",
        norm_epsilon=(1e-6 if is_rms else 1e-5) if epsilon is None else float(epsilon),
        beam_size=2,
        length_penalty="power",
        alpha=1.0,
        **(own | positions),
    )
    return hparams.with_decoder(heads["decoder"], len(tensors.take("decoder/layer_0/ffn/linear_0/weight")))


def _of_heads(
    attributes: Attributes, attentions: list[str], heads: Mapping[str, int], width: int, layers: int, origin: str
) -> tuple[int, int]:
    """Returns the number of heads of keys and values, 0 for one for each, and the channels of all heads together."""
    every = [*attentions, *(f"decoder/layer_{n}/attention" for n in range(layers))]
    found = {name: heads[name.partition("/")[0]] for name in every}
    kv = {name: attributes.get(f"{name}/num_heads_kv", own) for name, own in found.items()}
    channels = {own * attributes.get(f"{name}/head_dim", width // own) for name, own in found.items()}
    shared = {0} if kv == found else {*kv.values()}
    if len(shared) > 1 or len(channels) > 1:
        raise UserError(
            f"{origin} has attentions of {' and '.join(map(str, sorted(channels)))} channels, with num_heads_kv="
            f"{' and '.join(map(str, sorted(shared)))}; the models here have one number for all; it cannot be imported"
        )
    return shared.pop(), channels.pop()


def _activation(attributes: Attributes, origin: str) -> str:
    number, alibi = attributes.of_stacks("activation", 0), attributes.get("decoder/alibi", 0)
    if alibi or not 0 <= number < len(_ACTIVATIONS):
        raise UserError(
            f"{origin} has activation={number} and alibi={alibi}; known here are the activations 0 to "
            f"{len(_ACTIVATIONS) - 1} ({', '.join(_ACTIVATIONS)}), without alibi; it cannot be imported"
        )
    return _ACTIVATIONS[number]


def _has_bias(arrays: Arrays, part: str) -> bool:
    """Returns whether any linear map of a part has a nonzero bias."""
    return any(part in name and name.endswith("/bias") and array.any() for name, array in arrays.items())


def _positions(tensors: Tensors, attributes: Attributes, attentions: list[str], origin: str) -> dict[str, Any]:
    """Returns the hparams of positions: those in attention, or those of the table added to embeddings."""
    found = _positions_of_attention(tensors, attributes, attentions, origin)
    tables = [f"{side}/position_encodings/encodings" for side in _SIDES]
    if not any(name in tensors for name in tables):
        if not found:
            return {"positions": "sinusoidal", "sinusoid_layout": "split", "first_position": _FIRST_COMPUTED}
        return found
    encoder_LD, decoder_LD = (tensors.take(name) for name in tables)
    of_table = settings_of(one_table(encoder_LD, decoder_LD, origin), most_first=_MOST_FIRST)
    if found and of_table["positions"] != "none":
        raise UserError(f"{origin} has positions={found['positions']} and a table of them; models here have one kind")
    return found or of_table


def _positions_of_attention(
    tensors: Tensors, attributes: Attributes, attentions: list[str], origin: str
) -> dict[str, Any]:
    distance = attributes.same([f"{name}/relative_attention_max_distance" for name in attentions])
    rotation = {name: attributes.same([f"{path}/{name}" for path in attentions]) for name in _ROTATION}
    if rotation["rotary_dim"] is not None:
        if rotation != _ROTATION:
            raise UserError(f"{origin} has {rotation}; the models here rotate with {_ROTATION}; it cannot be imported")
        return {"positions": "rotary"}
    if distance is not None:
        buckets = len(tensors.take(f"{attentions[0]}/relative_attention_bias"))
        return {"positions": "relative_bias", "relative_bias_buckets": buckets, "relative_bias_max_distance": distance}
    keys = f"{attentions[0]}/relative_position_keys"
    if keys in tensors:
        return {"positions": "relative", "max_relative_position": (len(tensors.take(keys)) - 1) // 2}
    return {}


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
