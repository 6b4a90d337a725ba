"""Converts our Transformer and its weights to a specification of CTranslate2.

It needs numpy and CTranslate2, but no TensorFlow or Keras.

Legend: D width, E width of a layer's output, L positions, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.inference.rows import NOT_FINITE
from t2t.layers.sinusoids import sinusoids
from t2t.specs.constants import EOS_ID, PAD_ID, UNK_ID

FLOAT32 = "float32"

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "gelu_sigmoid": "GELUSigmoid", "silu": "SWISH"}


def complaints(hparams: TransformerHParams) -> list[str]:
    """Returns the settings that CTranslate2 has no layers for, with reasons."""
    found = []
    if hparams.decoder_layer != "self_attention":
        found.append(f"decoder_layer={hparams.decoder_layer}: its decoders are of self-attention")
    if hparams.positions == "words":
        found.append("positions=words: it adds the vectors of a table, by position")
    if hparams.self_attention_window:
        found.append(f"self_attention_window={hparams.self_attention_window}: its attention sees every position")
    keys, values = hparams.key_channels, hparams.value_channels
    if keys != values:
        found.append(f"attention_key_channels={keys}, attention_value_channels={values}: its heads have one size")
    if any(hparams.experts_in(layer) for layer in range(max(hparams.encoder_layers, hparams.decoder_layers))):
        found.append("it has no mixtures of experts as these")
    return found


def write_weights(
    folder: Path,
    hparams: TransformerHParams,
    weights: Mapping[str, np.ndarray],
    tokens: TokenLists,
    longest: int,
    weights_in: str = FLOAT32,
    alignment: tuple[int, int] = (-1, 1),
) -> None:
    """Writes the weights of a Transformer as a model of CTranslate2.

    Args:
        folder: an existing folder to write to.
        hparams: without `complaints`.
        weights: by variable path, without the model's name.
        tokens: of the vocabularies.
        longest: L, number of positions of inputs and outputs; ignored for learned positions.
        weights_in: float32, or the type that CTranslate2 is to quantize the weights to.
        alignment: see `build_spec`.

    Raises:
        UserError: the weights hold NaN or infinity.
    """
    weights = {path: np.asarray(weight, np.float32) for path, weight in weights.items()}
    if not all(np.isfinite(weight).all() for weight in weights.values()):  # an output without scores would not show it
        raise UserError(NOT_FINITE)
    positions = _positions(hparams, weights, longest)
    spec = build_spec(hparams, weights, positions, tokens.source, tokens.target, tokens.adds_end, alignment)
    spec.validate()
    spec.optimize(quantization=None if weights_in == FLOAT32 else weights_in)
    spec.save(str(folder))


def _positions(
    hparams: TransformerHParams, weights: Mapping[str, np.ndarray], longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the position vectors of inputs and of outputs, (L, D) each."""
    table = "positions/table"
    if hparams.positions == "learned":
        if table in weights:
            return weights[table], weights[table]
        return weights[f"source_positions/{table}"], weights[f"target_positions/{table}"]
    if hparams.positions in ("relative", "relative_bias", "rotary", "none"):
        zeros_LD = np.zeros((longest, hparams.hidden_size), np.float32)
        return zeros_LD, zeros_LD
    first = getattr(hparams, "first_position", 0)
    waves_LD = sinusoids(longest, hparams.hidden_size, hparams.sinusoid_layout, first)
    return waves_LD, waves_LD


def build_spec(
    hparams: TransformerHParams,
    weights: Mapping[str, np.ndarray],
    positions_LD: tuple[np.ndarray, np.ndarray],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    adds_end: bool = True,
    alignment: tuple[int, int] = (-1, 1),
) -> Any:
    """Returns a `ctranslate2.specs.TransformerSpec` with the weights, for hparams without `complaints`.

    Args:
        hparams: of the model.
        weights: by variable path, without the model's name.
        positions_LD: position vectors of inputs and of outputs, (L, D) float32 each; zeros for relative or rotary ones.
        source_tokens: V unique strings, by id.
        target_tokens: V unique strings, by id.
        adds_end: whether CTranslate2 appends end of sequence to inputs.
        alignment: index of the layer whose attention CTranslate2 returns, and how many of its first heads; 0 for all.
    """
    spec = _empty_spec(hparams)
    spec.decoder.alignment_layer, spec.decoder.alignment_heads = map(np.int16, alignment)
    spec.register_source_vocabulary(list(source_tokens))
    spec.register_target_vocabulary(list(target_tokens))
    spec.config.bos_token = spec.config.eos_token = target_tokens[EOS_ID]
    start = hparams.target_start_id if hparams.target_start == "id" else PAD_ID
    spec.config.unk_token, spec.config.decoder_start_token = target_tokens[UNK_ID], target_tokens[start]
    spec.config.add_source_eos = adds_end
    spec.config.layer_norm_epsilon = hparams.norm_epsilon
    _fill_modalities(spec, weights, positions_LD)
    spec.decoder.start_from_zero_embedding = hparams.target_start == "zero"
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        for number, layer in enumerate(stack.layer):
            _fill_layer(layer, weights, f"{name}/layer_{number}")
            if hparams.positions == "relative_bias":
                _fill_relative_bias(layer.self_attention, weights, name, hparams.relative_bias_max_distance)
        if stack.pre_norm:
            _fill_norm(stack.layer_norm, weights, f"{name}/final_norm")
        if hasattr(stack, "layernorm_embedding"):
            side = "source" if name == "encoder" else "target"
            _fill_norm(stack.layernorm_embedding, weights, f"{side}_positions/norm")
    return spec


def _empty_spec(hparams: TransformerHParams) -> Any:
    """Returns a `TransformerSpec` without weights."""
    from ctranslate2.specs import TransformerSpec, common_spec, transformer_spec

    settings = {
        "pre_norm": hparams.norm_position == "pre",
        "layernorm_embedding": getattr(hparams, "embedding_norm", False),
        "activation": common_spec.Activation[_ACTIVATIONS[hparams.activation]],
        "num_heads_kv": hparams.num_kv_heads or None,
        "ffn_glu": hparams.gated_feed_forward,
        "rms_norm": hparams.norm_type == "rms",
        "relative_position": hparams.positions == "relative",
        "relative_attention_bias": hparams.positions == "relative_bias",
        "rotary_dim": 0 if hparams.positions == "rotary" else None,  # 0 = all channels of a head, in pairs as ours
    }
    heads = (hparams.num_heads, hparams.of_decoder.num_heads)
    stacks = (transformer_spec.TransformerEncoderSpec, transformer_spec.TransformerDecoderSpec)
    layers = (hparams.encoder_layers, hparams.decoder_layers)
    return TransformerSpec(
        *(
            stack(depth, number, head_dim=hparams.key_channels // number, **settings)
            for stack, depth, number in zip(stacks, layers, heads, strict=True)
        )
    )


def _fill_modalities(spec: Any, weights: Mapping[str, np.ndarray], positions_LD: tuple[np.ndarray, np.ndarray]) -> None:
    """Fills embeddings, positions and the output layer; a shared table is stored once."""
    target_VD = weights["target_embedding/table"]
    (source,) = spec.encoder.embeddings
    source.weight = weights.get("source_embedding/table", target_VD)
    spec.decoder.embeddings.weight = target_VD
    spec.decoder.projection.weight = weights.get("output_embedding/table", target_VD)
    if "output_embedding/bias" in weights:
        spec.decoder.projection.bias = weights["output_embedding/bias"]
    # The target-space embedding is added to the vector of every source position, or without these to every embedding.
    target_space = weights.get("target_space", np.float32(0.0))
    if hasattr(spec.decoder, "position_encodings"):
        source_LD, target_LD = positions_LD
        spec.decoder.position_encodings.encodings = target_LD
        spec.encoder.position_encodings.encodings = source_LD + target_space
    elif "target_space" in weights:
        source.weight = source.weight + target_space * np.float32(target_VD.shape[1] ** -0.5)


def _fill_layer(layer: Any, weights: Mapping[str, np.ndarray], name: str) -> None:
    attention = f"{name}/self_attention"
    projection, output = layer.self_attention.linear
    if hasattr(layer.self_attention, "relative_position_keys"):
        layer.self_attention.relative_position_keys = weights[f"{attention}/relative_positions/keys"]
        layer.self_attention.relative_position_values = weights[f"{attention}/relative_positions/values"]
    _fill(projection, weights, [f"{attention}/project/{part}_" for part in ("query", "key", "value")])
    _fill(output, weights, [f"{attention}/output/"])
    _fill_norm(layer.self_attention.layer_norm, weights, f"{attention}_residual/norm")
    if hasattr(layer, "attention"):
        attention = f"{name}/encdec_attention"
        query, keys_values, output = layer.attention.linear
        _fill(query, weights, [f"{attention}/project/query_"])
        _fill(keys_values, weights, [f"{attention}/project/{part}_" for part in ("key", "value")])
        _fill(output, weights, [f"{attention}/output/"])
        _fill_norm(layer.attention.layer_norm, weights, f"{attention}_residual/norm")
    _fill(layer.ffn.linear_0, weights, [f"{name}/ffn/inner/"])
    if hasattr(layer.ffn, "linear_0_noact"):
        _fill(layer.ffn.linear_0_noact, weights, [f"{name}/ffn/linear/"])
    _fill(layer.ffn.linear_1, weights, [f"{name}/ffn/outer/"])
    _fill_norm(layer.ffn.layer_norm, weights, f"{name}/ffn_residual/norm")


def _fill_relative_bias(attention: Any, weights: Mapping[str, np.ndarray], stack: str, max_distance: int) -> None:
    """Fills the relative bias, which the layers of a stack share; a shared table is stored once."""
    attention.relative_attention_bias = weights[f"{stack}/relative_bias/table"]
    attention.relative_attention_max_distance = np.int32(max_distance)


def _fill(linear: Any, weights: Mapping[str, np.ndarray], prefixes: Sequence[str]) -> None:
    """Fills a linear layer with kernels (D, E), transposed and concatenated, and with their biases."""
    kernels = [weights[f"{prefix}kernel"].T for prefix in prefixes]
    linear.weight = np.ascontiguousarray(np.concatenate(kernels))
    pairs = zip(prefixes, kernels, strict=True)
    biases = [weights.get(f"{prefix}bias", np.zeros(len(kernel), np.float32)) for prefix, kernel in pairs]
    linear.bias = np.concatenate(biases)


def _fill_norm(norm: Any, weights: Mapping[str, np.ndarray], name: str) -> None:
    norm.gamma = weights[f"{name}/gamma"]
    if f"{name}/beta" in weights:
        norm.beta = weights[f"{name}/beta"]
