"""Imports Sockeye 3 models: the paper's Transformer without biases in attention, sines before cosines.

A folder has `config`, `params.best` and the vocabularies `vocab.src.0.json` and `vocab.trg.0.json`. In the tensors,
queries are stacked above keys and values in one matrix, where the keys of a head are followed by its values, then by
the keys of the next head and so on.

Legend: D width, H heads, K channels of a head, U foreign ids.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, one_line
from t2t.files.trust import MOST_BYTES
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary, encoders_of, pieces_by_id, token_weights
from t2t.formats.importer import ForeignRun, ImportRequest, Settings
from t2t.formats.pytorch import parse_pytorch
from t2t.formats.tensors import Tensors
from t2t.formats.yaml import parse_nested_settings
from t2t.hparams.transformer import TransformerHParams, transformer_base

_ACTIVATIONS = {"relu": "relu", "swish1": "silu", "gelu": "gelu"}
_DECODERS = {"transformer": "self_attention", "ssru_transformer": "ssru"}
_NORMS = {("n", "r"): "pre", ("", "rn"): "post"}
"""Letters before and after a sub-layer, norm (n) and residual (r), without dropout (d) -> `norm_position`."""
_KNOWN: Mapping[str, tuple[Any, ...]] = {
    "lhuc": (False,), "neural_vocab_selection": (None,), "dtype": ("float32", "float16", "bfloat16"),
    "config_embed_source.num_factors": (1,), "config_embed_target.num_factors": (1,),
    "config_embed_source.factor_configs": (None,), "config_embed_target.factor_configs": (None,),
    **{f"config_{side}.{name}": values for side in ("encoder", "decoder") for name, values in {
        "act_type": tuple(_ACTIVATIONS), "positional_embedding_type": ("fixed",), "use_lhuc": (False,),
        "block_prepended_cross_attention": (False,),
    }.items()},
    "config_encoder.decoder_type": tuple(_DECODERS), "config_decoder.decoder_type": tuple(_DECODERS),
}  # fmt: skip
"""Settings with the values that our network supports."""
_SAME = ("model_size", "act_type", "use_glu", "preprocess_sequence", "postprocess_sequence")
_TOKENS = {"pad": "<pad>", "unk": "<unk>", "start": "<s>", "eos": "</s>"}


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder of Sockeye.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    folder = ModelFolder(request.model_dir)
    hparams = _hparams(_read_config(folder))
    name = "params.best"
    tensors = Tensors(folder.parse(name, parse_pytorch), str(folder.path / name))
    source, target = _vocabularies(folder)
    encoders, notes, warnings = encoders_of(source, target, request.sentencepiece_models)
    weights, settings = token_weights(source, target, *convert_tables(tensors))
    weights |= convert_stacks(tensors, hparams)
    return ForeignRun(
        problem=request.problem.with_encoders(encoders),
        hparams=hparams.replace(**settings),
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config and its vocabularies",
        notes=notes,
        warnings=warnings,
    )


def _read_config(folder: ModelFolder) -> Settings:
    """Returns the settings by path; raises UserError if they describe an unsupported network."""
    where = folder.path / "config"
    try:
        values = Settings(parse_nested_settings(folder.read("config", MOST_BYTES).decode("utf-8")), where)
    except ValueError as error:
        raise UserError(f"{where} is not a file of Sockeye 3's settings ({one_line(error)})", "get it again") from error
    wrong = list[str]()
    for name in _SAME:
        both = [values.get(f"config_{side}.{name}") for side in ("encoder", "decoder")]
        wrong += [f"{name}={both[0]!r} in the encoder and {both[1]!r} in the decoder"] if both[0] != both[1] else []
    values.check(_KNOWN, wrong)
    return values


def _hparams(values: Settings) -> TransformerHParams:
    """Returns the hparams, with `transformer_base`'s values for training settings that the file lacks."""
    sequences = [str(values.get(f"config_encoder.{name}_sequence") or "") for name in ("preprocess", "postprocess")]
    norm = _NORMS.get(tuple(sequence.replace("d", "") for sequence in sequences))  # type: ignore[arg-type]
    if norm is None:
        raise UserError(
            f"{values.where} has preprocess_sequence={sequences[0]!r} and postprocess_sequence={sequences[1]!r}; "
            "known here are 'n' with 'dr' and '' with 'drn'",
            "it cannot be imported",
        )
    hparams = transformer_base().replace(
        hidden_size=values.need("config_encoder.model_size"),
        num_encoder_layers=values.need("config_encoder.num_layers"),
        num_decoder_layers=values.need("config_decoder.num_layers"),
        num_heads=values.need("config_encoder.attention_heads"),
        filter_size=values.need("config_encoder.feed_forward_num_hidden"),
        activation=_ACTIVATIONS[values.need("config_encoder.act_type", str)],
        gated_feed_forward=bool(values.get("config_encoder.use_glu")),
        decoder_layer=_DECODERS[values.get("config_decoder.decoder_type") or "transformer"],
        norm_position=norm,
        sinusoid_layout="halves",
        target_start="pad",
        layer_prepostprocess_dropout=values.need("config_encoder.dropout_prepost", float),
        attention_dropout=values.need("config_encoder.dropout_attention", float),
        relu_dropout=values.need("config_encoder.dropout_act", float),
        beam_size=5,
        length_penalty="power",
        alpha=1.0,
    )
    heads, width = map(values.need, ("config_decoder.attention_heads", "config_decoder.feed_forward_num_hidden"))
    return hparams.with_decoder(heads, width)


def _vocabularies(folder: ModelFolder) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """Returns the vocabularies of inputs and targets, the same object if their tokens are the same."""
    tokens = {}
    for side in ("src", "trg"):
        name = f"vocab.{side}.0.json"
        tokens[side] = pieces_by_id(folder.read_json(name), str(folder.path / name))
        if tokens[side][: len(_TOKENS)] != list(_TOKENS.values()):
            raise UserError(
                f"{folder.path / name}: its first tokens are {' '.join(tokens[side][:4])[:60]!r}; those of Sockeye 3 "
                f"are {' '.join(_TOKENS.values())}",
                "get it again",
            )
        if folder.has(f"vocab.{side}.1.json"):
            raise UserError(f"{folder.path}: its words have factors (vocab.{side}.1.json)", "it cannot be imported")
    pad, unknown, start, eos = _TOKENS.values()
    return ForeignVocabulary.pair((tokens["src"], tokens["trg"]), (pad, start), eos, unknown, str(folder.path))


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
            ssru = f"{name}.autoregr_layer"
            kernels = [tensors.take(f"{ssru}.{part}.weight").T for part in ("forget_gate", "linear")]
            weights[f"{path}/ssru/kernel"] = np.concatenate(kernels, axis=1)
            weights[f"{path}/ssru/gate_bias"] = tensors.take(f"{ssru}.forget_gate.bias")
        else:
            weights |= _self_attention(tensors, f"{name}.autoregr_layer", f"{path}/self_attention", heads)
        attention, ours = f"{name}.enc_attention", f"{path}/encdec_attention"
        query, packed = (tensors.take(f"{attention}.{part}.weight") for part in ("ff_q", "ff_kv"))
        weights |= _projections(query, packed, ours, heads)
        weights |= tensors.linear(f"{attention}.ff_out", f"{ours}/output/")
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


def _projections(query: np.ndarray, packed: np.ndarray, path: str, heads: int) -> Arrays:
    """Returns our kernels from the queries, (D, D), and the keys and values, (2D, D), interleaved by head."""
    by_head = packed.reshape(heads, 2, -1, packed.shape[-1])
    parts: Sequence[np.ndarray] = (query, *(by_head[:, n].reshape(-1, packed.shape[-1]) for n in (0, 1)))
    return {
        f"{path}/project/{name}_kernel": part.T for name, part in zip(("query", "key", "value"), parts, strict=True)
    }
