"""The hparams and weights of a CTranslate2 network, from the attributes, names and tensors in its file.

Matrices there are (out, in), ours (in, out); queries, keys and values are stacked in one matrix. Scales of attention
scores and embeddings are separate numbers there, and are folded into the weights here.

Legend: L positions, D width, H heads, K channels of a head, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.ctranslate2.model_file import Attributes
from t2t.formats.tensors import Tensors, one_table, scaled, settings_of
from t2t.hparams.transformer import TransformerHParams, transformer_base
from t2t.hparams.transformer_bart import TransformerBartHParams, transformer_m2m
from t2t.inference.ctranslate2.conversion import LINEAR, NORM, stack_modules

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
            f"{origin} has attentions of {' and '.join(map(str, sorted(channels)))} channels, with "
            f"num_heads_kv={' and '.join(map(str, sorted(shared)))}; the models here have one number for all",
            "it cannot be imported",
        )
    return shared.pop(), channels.pop()


def _activation(attributes: Attributes, origin: str) -> str:
    number, alibi = attributes.of_stacks("activation", 0), attributes.get("decoder/alibi", 0)
    if alibi or not 0 <= number < len(_ACTIVATIONS):
        raise UserError(
            f"{origin} has activation={number} and alibi={alibi}; known here are the activations 0 to "
            f"{len(_ACTIVATIONS) - 1} ({', '.join(_ACTIVATIONS)}), without alibi",
            "it cannot be imported",
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
        raise UserError(f"{origin} has positions={found['positions']} and a table of them", "models here have one kind")
    return found or of_table


def _positions_of_attention(
    tensors: Tensors, attributes: Attributes, attentions: list[str], origin: str
) -> dict[str, Any]:
    distance = attributes.same([f"{name}/relative_attention_max_distance" for name in attentions])
    rotation = {name: attributes.same([f"{path}/{name}" for path in attentions]) for name in _ROTATION}
    if rotation["rotary_dim"] is not None:
        if rotation != _ROTATION:
            raise UserError(
                f"{origin} has {rotation}; the models here rotate with {_ROTATION}", "it cannot be imported"
            )
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
    tables: dict[str, str] = {}
    for name, paths, kind in stack_modules(hparams):
        if kind == LINEAR:
            weights |= _linear(tensors, attributes, hparams, name, paths)
        elif kind == NORM:
            parts = ("gamma", "beta") if f"{name}/beta" in tensors else ("gamma",)
            weights |= {f"{paths[0]}/{part}": tensors.take(f"{name}/{part}") for part in parts}
        elif paths[0] in tables:
            tensors.drop_copy(name, tables[paths[0]])
        else:
            tables[paths[0]], weights[paths[0]] = name, tensors.take(name)
    positions = [f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")]
    if hparams.positions == "learned":
        sides = ("source_positions/", "target_positions/") if isinstance(hparams, TransformerBartHParams) else ("",)
        weights |= {f"{side}positions/table": tensors.take(positions[0]) for side in sides}
        tensors.drop_copy(positions[1], positions[0])
    else:
        for table in positions:
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


def _linear(
    tensors: Tensors, attributes: Attributes, hparams: TransformerHParams, name: str, paths: Sequence[str]
) -> Arrays:
    """Returns the kernels of the maps that a linear layer stacks, and their biases if the hparams have them."""
    kernel = tensors.take(f"{name}/weight")
    bias = tensors.take(f"{name}/bias") if f"{name}/bias" in tensors else np.zeros(len(kernel), np.float32)
    of_side = hparams.of_decoder if name.startswith("decoder") else hparams
    size = of_side.key_channels // of_side.num_heads
    channels = {"query_": of_side.key_channels}
    channels |= dict.fromkeys(("key_", "value_"), (of_side.num_kv_heads or of_side.num_heads) * size)
    sizes = [channels.get(path.rpartition("/")[2], len(kernel)) for path in paths]
    if len(kernel) != sum(sizes):
        raise UserError(
            f"{name}/weight has {len(kernel)} rows, {sum(sizes)} by the heads that its file names", "get it again"
        )
    cuts = np.cumsum(sizes)[:-1]
    weights = {f"{path}kernel": part.T for path, part in zip(paths, np.split(kernel, cuts), strict=True)}
    if hparams.feed_forward_bias if "/ffn/" in name else hparams.attention_bias:
        weights |= {f"{path}bias": part for path, part in zip(paths, np.split(bias, cuts), strict=True)}
    scale = attributes.get(f"{name.rpartition('/')[0]}/queries_scale")  # our scores are divided by sqrt(K)
    queries = [path for path in weights if "/query_" in path and scale is not None]
    return weights | {path: scaled(weights[path], scale * size**0.5) for path in queries}
