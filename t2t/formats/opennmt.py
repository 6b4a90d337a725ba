"""Imports models of OpenNMT-py, versions 2 and 3, and of Eole: the paper's Transformer with pre-norm.

Inputs have no end of sequence. A file of OpenNMT-py, `<name>_step_<n>.pt`, is a pickle of `model` and `generator`,
tensors by name; `opt`, the settings; `vocab`, the tokens; and `optim`. A folder of Eole has `config.json`,
`vocab.json` and `model.<nn>.safetensors`. Both are read into one form, `ForeignModel`.

Legend: L positions, D width.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays, parse_arrays
from t2t.errors import UserError, one_line
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary, encoders_of, token_weights
from t2t.formats.importer import ForeignRun, ImportRequest, Settings, alignment_hparams, unknown_values
from t2t.formats.pytorch import parse_pytorch_values
from t2t.formats.tensors import Tensors, one_table, scaled, settings_of
from t2t.hparams.transformer import TransformerHParams, transformer_base

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


_ACTIVATIONS = {
    "relu": ("relu", False), "gelu": ("gelu", False), "gelu-tanh": ("gelu_tanh", False), "plain-silu": ("silu", False),
    "silu": ("silu", True), "gated-gelu": ("gelu", True), "gated-gelu-tanh": ("gelu_tanh", True),
}  # fmt: skip
"""Activation -> its name here, and whether the feed-forward layer is gated."""
_PROJECTIONS = (
    ("linear_query", "project/query_"), ("linear_keys", "project/key_"), ("linear_values", "project/value_"),
    ("final_linear", "output/"),
)  # fmt: skip
_RELATIVE = "self_attn.relative_positions_embeddings.weight"
_SCALAR = "layer_scalar"


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder with one model.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    model = _read_model(request)
    tensors = Tensors(model.arrays, model.origin)
    source, target = _vocabularies(model)
    encoders, notes, warnings = encoders_of(source, target, request.sentencepiece_models)
    hparams = _hparams(model, tensors)
    inputs, targets, outputs = (tensors.take(name) for name in model.tables)
    scale = 1.0 if model.scales_embeddings else hparams.hidden_size**-0.5
    bias = OUTPUT.replace("weight", "bias")
    weights, settings = token_weights(
        source,
        target,
        (scaled(inputs, scale), scaled(targets, scale), outputs),
        tensors.take(bias) if bias in tensors else None,
    )
    alignment, more_warnings = alignment_hparams(*model.alignment, hparams)
    hparams = hparams.replace(**settings, **alignment)
    weights |= _stacks(model, tensors, hparams)
    return ForeignRun(
        problem=request.problem.with_encoders(encoders),
        hparams=hparams,
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {model.origin}",
        settings="its settings and its vocabulary",
        notes=notes,
        warnings=(*warnings, *more_warnings),
    )


def _read_model(request: ImportRequest) -> ForeignModel:
    folder = ModelFolder(request.model_dir)
    if folder.has("config.json"):
        return _read_eole(folder)
    files = sorted(folder.path.glob("*.pt"))
    if len(files) != 1:
        raise UserError(
            f"{len(files)} files *.pt there and no config.json",
            "name a folder with one model of OpenNMT-py, <name>_step_<n>.pt, or with one of Eole",
            option="model_dir",
            value=folder.path,
        )
    return _read_opennmt_py(folder, files[0].name)


def _vocabularies(model: ForeignModel) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """Returns the vocabularies of inputs and targets, the same object if their tokens are the same."""
    tokens, special = model.tokens, model.special
    start, eos, unknown = special["start"], special["eos"], special["unk"]
    if start not in tokens["tgt"] or start in (eos, unknown) or eos not in tokens["tgt"]:
        raise UserError(
            f"{model.origin}: its decoder begins with {start!r} and its outputs end with {eos!r}; both must be target "
            "tokens, and two of them",
            "it cannot be imported",
        )
    pad = special["pad"] if special["pad"] in tokens["src"] else None
    return ForeignVocabulary.pair((tokens["src"], tokens["tgt"]), (pad, start), eos, unknown, model.origin)


def _hparams(model: ForeignModel, tensors: Tensors) -> TransformerHParams:
    """Returns the hparams, with `transformer_base`'s values for training unless the model has its own."""
    names = model.names
    activation, is_gated = _ACTIVATIONS[model.activation]
    width = tensors.take(model.tables[1]).shape[-1]
    first = names.layers["encoder"].format(n=0)
    inner = f"{first}.{names.maps[0]}"
    inner_of_decoder = tensors.take(f"{names.layers['decoder'].format(n=0)}.{names.maps[0]}.weight")
    hparams = transformer_base().replace(
        hidden_size=width,
        num_encoder_layers=tensors.count(f"{names.layers['encoder']}.{names.maps[0]}.weight"),
        num_decoder_layers=tensors.count(f"{names.layers['decoder']}.{names.maps[0]}.weight"),
        num_heads=model.heads,
        filter_size=len(tensors.take(f"{inner}.weight")),
        activation=activation,
        gated_feed_forward=is_gated,
        feed_forward_bias=f"{inner}.bias" in tensors,
        attention_bias=any("_attn." in name and name.endswith(".bias") for name in tensors.names),
        norm_position="pre",
        norm_type=model.norm_type,
        norm_epsilon=model.norm_epsilon,
        target_start="pad",
        input_end=False,
        beam_size=5,
        length_penalty="power",
        alpha=1.0,
        **model.settings,
        **_positions(model, tensors),
    )
    return hparams.with_decoder(model.decoder_heads, len(inner_of_decoder))


def _positions(model: ForeignModel, tensors: Tensors) -> dict[str, Any]:
    """Returns the hparams of positions."""
    names = model.names
    relative = f"{names.layers['encoder'].format(n=0)}.{_RELATIVE}"
    if relative in tensors:
        return {"positions": "relative", "max_relative_position": (len(tensors.take(relative)) - 1) // 2}
    if not model.scales_embeddings:
        return {"positions": "none"}
    names_of = tuple(names.positions.values())
    encoder_LD, decoder_LD = (_flat(tensors.take(name)) for name in names_of)
    found = settings_of(one_table(encoder_LD, decoder_LD, model.origin))
    for name in names_of[found["positions"] == "learned" :]:
        tensors.drop(name, "positions, which are computed here or are one table")
    return found


def _flat(table: np.ndarray) -> np.ndarray:
    """Returns a table of positions, (L, D), without its batch axis."""
    return table.reshape(-1, table.shape[-1])


def _stacks(model: ForeignModel, tensors: Tensors, hparams: TransformerHParams) -> Arrays:
    """Returns the weights of both stacks."""
    weights: Arrays = {}
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            weights |= _layer(model, tensors, hparams, side, number)
        weights |= tensors.norm(f"{side}.layer_norm", f"{side}/final_norm")
    if hparams.positions == "learned":
        weights["positions/table"] = _flat(tensors.take(model.names.positions["encoder"]))
    return weights


def _layer(model: ForeignModel, tensors: Tensors, hparams: TransformerHParams, side: str, number: int) -> Arrays:
    """Returns the weights of a layer."""
    names, path = model.names, f"{side}/layer_{number}"
    name = names.layers[side].format(n=number)
    attentions = {"self_attn": "self_attention"} | ({"context_attn": "encdec_attention"} if side == "decoder" else {})
    weights: Arrays = {}
    for theirs, ours in attentions.items():
        for part, ending in _PROJECTIONS:
            found = tensors.linear(f"{name}.{theirs}.{part}", f"{path}/{ours}/{ending}")
            if hparams.attention_bias:  # some maps may lack the bias that others have
                channels = found[f"{path}/{ours}/{ending}kernel"].shape[1]
                found.setdefault(f"{path}/{ours}/{ending}bias", np.zeros(channels, np.float32))
            weights |= found
    maps = dict(zip(names.maps, ("inner", "outer", "linear"), strict=True))
    for theirs, ours in maps.items():
        if ours != "linear" or hparams.gated_feed_forward:
            weights |= tensors.linear(f"{name}.{theirs}", f"{path}/ffn/{ours}/")
    for norm, ours in zip(names.norms[side], (*attentions.values(), "ffn"), strict=True):
        weights |= tensors.norm(f"{name}.{norm}", f"{path}/{ours}_residual/norm")
    if hparams.positions == "relative":
        table = tensors.take(f"{name}.{_RELATIVE}")
        weights |= {f"{path}/self_attention/relative_positions/{kind}": table for kind in ("keys", "values")}
    scalar = f"{name}.{_SCALAR}"
    if scalar in tensors and not np.array_equal(tensors.take(scalar).reshape(-1), [1]):
        raise UserError(f"{model.origin}: {scalar} is not 1; layers here are not scaled", "it cannot be imported")
    return weights


def _trained_alignment(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """Returns layer and heads of a decoder that was trained on alignments, (None, None) of another."""
    if not settings.get("lambda_align"):
        return None, None
    return settings.get("alignment_layer"), settings.get("alignment_heads")


_PY_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "encoder_type": ("transformer",), "decoder_type": ("transformer",), "model_task": ("seq2seq",),
    "model_type": ("text",), "self_attn_type": ("scaled-dot", "scaled-dot-flash"), "copy_attn": (False,),
    "coverage_attn": (False,), "generator_function": ("softmax",), "layer_norm": ("standard", "rms"),
    "pos_ffn_activation_fn": ("relu", "gelu", "silu", "gated-gelu"), "parallel_residual": (False,),
    "relative_positions_buckets": (0,), "num_kv": (0,), "num_experts": (0,), "sliding_window": (0,),
    "lora_layers": ([],), "quant_layers": ([],), "multiquery": (False,),
}  # fmt: skip
"""Settings with the values that our network supports; a missing setting is from an older version, and supported."""
_SPECIAL = {"pad": "<blank>", "eos": "</s>", "unk": "<unk>"}
_PY_TABLE = "{}.embeddings.make_embedding.emb_luts.0.weight"
_PARTS = ("model", "generator", "vocab", "opt")


def _read_opennmt_py(folder: ModelFolder, name: str) -> ForeignModel:
    """Reads a file; nothing in it is executed.

    Raises:
        UserError: it is damaged, its vocabulary is of an older version, or its network is not supported.
    """
    path = folder.path / name
    state = _parts(path, folder.read(name))
    opt = Settings(state["opt"], path)
    opt.check(_PY_SETTINGS)
    distance, adds_positions = opt.get("max_relative_positions", 0), bool(opt.get("position_encoding", False))
    if distance < 0 or (distance and adds_positions):
        raise UserError(
            f"{path} has position_encoding={adds_positions} and max_relative_positions={distance}; known here are "
            "added positions, or relative ones (a distance above 0)",
            "it cannot be imported",
        )
    start = "decoder_start_token"
    return ForeignModel(
        names=OPENNMT_PY,
        tables=(_PY_TABLE.format("encoder"), _PY_TABLE.format("decoder"), OUTPUT),
        origin=str(path),
        # Version 2 numbers the tensors of the output layer.
        arrays=state["model"]
        | {f"generator.{name.removeprefix('0.')}": array for name, array in state["generator"].items()},
        tokens=_tokens(state["vocab"], path),
        special=_SPECIAL | {"start": str(state["vocab"].get(start) or opt.get(start) or "<s>")},
        heads=opt.need("heads"),
        decoder_heads=opt.need("heads"),
        activation=opt.get("pos_ffn_activation_fn", "relu"),
        norm_type="rms" if opt.get("layer_norm") == "rms" else "layer",
        norm_epsilon=float(opt.get("norm_eps", 1e-6)),
        scales_embeddings=adds_positions,
        settings=_dropouts(opt),
        alignment=_trained_alignment(opt),
    )


def _parts(path: Path, content: bytes) -> dict[str, dict[str, Any]]:
    """Returns the required parts of the file."""
    try:
        state = parse_pytorch_values(content)
    except ValueError as error:
        cure = "save it by OpenNMT-py 3, whose vocabularies are lists" if "torchtext" in str(error) else "get it again"
        raise UserError(f"{path}: {one_line(error)}", cure) from error
    missing = [name for name in _PARTS if not (isinstance(state, dict) and isinstance(state.get(name), dict))]
    if missing:
        raise UserError(
            f"{path}: it has no {', '.join(missing)}, as files of OpenNMT-py with weights have", "name such a file"
        )
    tensors = {**state["model"], **state["generator"]}
    if wrong := [name for name, value in tensors.items() if not isinstance(value, np.ndarray)]:
        raise UserError(f"{path}: {wrong[0]} is not a tensor", "get it again")
    return state


def _tokens(vocab: Mapping[str, Any], path: Path) -> dict[str, list[str]]:
    for side in ("src", "tgt"):
        if not isinstance(vocab.get(side), list) or not all(isinstance(token, str) for token in vocab[side]):
            raise UserError(f"{path}: its vocabulary of {side} is not a list of tokens", "save it by OpenNMT-py 3")
    if vocab.get("src_feats"):
        raise UserError(f"{path}: its inputs have features other than words (src_feats)", "it cannot be imported")
    return {side: vocab[side] for side in ("src", "tgt")}


def _dropouts(opt: Mapping[str, Any]) -> dict[str, float]:
    """Returns dropout rates and label smoothing; of dropouts for successive stages of training, the first is used."""
    found: dict[str, float] = {}
    for theirs, ours in (
        ("dropout", ("layer_prepostprocess_dropout", "relu_dropout")), ("attention_dropout", ("attention_dropout",))
    ):  # fmt: skip
        value = opt.get(theirs)
        value = value[0] if isinstance(value, list) and value else value
        found |= dict.fromkeys(ours, float(value)) if isinstance(value, int | float) else {}
    return found | ({"label_smoothing": float(opt["label_smoothing"])} if "label_smoothing" in opt else {})


_EOLE_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu-tanh", "silu": "plain-silu", "gated-silu": "silu",
    "gated-gelu": "gated-gelu", "gated-gelu-tanh": "gated-gelu-tanh",
}  # fmt: skip
"""Eole's activation -> OpenNMT-py's name, whose `silu` is gated, or a further name of ours."""
_EMBEDDINGS: Mapping[str, tuple[Any, ...]] = {
    "position_encoding_type": ("SinusoidalInterleaved", "SinusoidalConcat"), "embedding_type": ("standard",),
    "normalize": (False,), "embedding_layer_norm": (False,), "position_shift": (0, None),
}  # fmt: skip
_STACK: Mapping[str, tuple[Any, ...]] = {
    "encoder_type": ("transformer",), "decoder_type": ("transformer",), "layer_norm": ("standard", "rms"),
    "mlp_activation_fn": tuple(_EOLE_ACTIVATIONS),
    "encoder_layer_style": ("standard",), "final_encoder_layer_norm": (True,),
    "parallel_residual": (False,), "ffn_layernorm": (False,), "query_norm": (False,), "key_norm": (False,),
    "value_norm": (False,), "heads_kv": (None,), "attn_scaling": (None,), "num_experts": (0,), "q_gating": (False,),
    "sliding_window": (0,), "relative_positions_buckets": (0,), "layer_types": (None,), "head_dim": (None,),
    "position_encoding_type": ("SinusoidalInterleaved", "SinusoidalConcat"), "coverage_attn": (False,),
}  # fmt: skip
"""Settings with the values that our network supports."""
_SAME = ("hidden_size", "mlp_activation_fn", "layer_norm", "norm_eps")
"""Settings of encoder and decoder that share one hparam here."""
_DEFAULTS = {"mlp_activation_fn": "relu", "layer_norm": "standard", "norm_eps": 1e-5}
_HEADS = "heads"
_EOLE_TABLES = ("src_emb.embeddings.weight", "tgt_emb.embeddings.weight")
"""Names of the tables of inputs and targets; a shared table is stored only once."""


def _read_eole(folder: ModelFolder) -> ForeignModel:
    """Reads the files of a folder.

    Raises:
        UserError: a file is missing or damaged, or the network is not supported.
    """
    model = folder.config.get("model")
    model = model if isinstance(model, dict) else {}
    common = {name: value for name, value in model.items() if name in (*_STACK, *_SAME, _HEADS)}
    encoder, decoder = (common | (model.get(side) or {}) for side in ("encoder", "decoder"))
    wrong = unknown_values(model.get("embeddings") or {}, _EMBEDDINGS)
    wrong += [text for stack in (encoder, decoder) for text in unknown_values(stack, _STACK)]
    values = {name: [stack.get(name, _DEFAULTS.get(name)) for stack in (encoder, decoder)] for name in _SAME}
    wrong += [f"{name}={a!r} in the encoder and {b!r} in the decoder" for name, (a, b) in values.items() if a != b]
    if not model.get("encoder") or not model.get("decoder"):
        wrong = ["it has no encoder and decoder"]
    folder.config.check({}, wrong)
    vocab, arrays = folder.read_json("vocab.json"), _read_arrays(folder)
    source, target = _EOLE_TABLES
    target = source if model.get("share_embeddings") and target not in arrays else target
    tokens = {side: vocab.get(side) for side in ("src", "tgt")}
    for side, found in tokens.items():
        if not isinstance(found, list) or not all(isinstance(token, str) for token in found):
            raise UserError(f"{folder.path / 'vocab.json'}: its {side} is not a list of tokens", "get it again")
    special = vocab.get("specials") if isinstance(vocab.get("specials"), dict) else {}
    activation = _EOLE_ACTIVATIONS[values["mlp_activation_fn"][0]]
    return ForeignModel(
        names=EOLE,
        tables=(source, target, target if model.get("share_decoder_embeddings") and OUTPUT not in arrays else OUTPUT),
        origin=str(folder.path),
        arrays=arrays,
        tokens=tokens,
        special={name: special.get(f"{name}_token") or usual for name, usual in _SPECIAL.items()}
        | {"start": vocab.get("decoder_start_token") or special.get("bos_token") or "<s>"},
        heads=encoder.get(_HEADS, 8),
        decoder_heads=decoder.get(_HEADS, 8),
        activation=activation,
        norm_type="rms" if values["layer_norm"][0] == "rms" else "layer",
        norm_epsilon=float(values["norm_eps"][0]),
        scales_embeddings=True,
        settings={},
        alignment=_trained_alignment(decoder),
    )


def _read_arrays(folder: ModelFolder) -> Arrays:
    """Returns the tensors of all shards."""
    names = sorted(path.name for path in folder.path.glob("model.*safetensors"))
    if not names:
        raise UserError(
            "no model.00.safetensors there", "copy all files of the model", option="model_dir", value=folder.path
        )
    arrays: Arrays = {}
    for name in names:
        arrays |= folder.parse(name, parse_arrays)
    return arrays
