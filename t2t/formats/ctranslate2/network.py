"""Derives the hparams of a CTranslate2 network from the attributes, names and shapes in its file.

Legend: L positions, D width.
"""

from collections.abc import Mapping
from typing import Any

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.ctranslate2.attributes import Attributes
from t2t.formats.position_tables import one_table, settings_of
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer import TransformerHParams, transformer_base
from t2t.hparams.transformer_bart import transformer_m2m

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
    layers = {side: _count(tensors, side) for side in _SIDES}
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


def _count(tensors: Tensors, side: str) -> int:
    """Returns the number of layers of a stack."""
    count = 0
    while f"{side}/layer_{count}/ffn/linear_0/weight" in tensors:
        count += 1
    return count


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
