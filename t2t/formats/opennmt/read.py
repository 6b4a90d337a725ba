"""Imports OpenNMT-py and Eole models: the paper's Transformer with pre-norm, and inputs without end of sequence.

Legend: L positions, D width.
"""

from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary, encoders_of, token_weights
from t2t.formats.importer import ForeignRun, ImportRequest, alignment_hparams
from t2t.formats.opennmt.files import OUTPUT, ForeignModel, read_file, read_folder
from t2t.formats.tensors import Tensors, one_table, scaled, settings_of
from t2t.hparams.transformer import TransformerHParams, transformer_base

_ACTIVATIONS = {
    "relu": ("relu", False), "gelu": ("gelu", False), "gelu-tanh": ("gelu_tanh", False), "plain-silu": ("silu", False),
    "silu": ("silu", True), "gated-gelu": ("gelu", True), "gated-gelu-tanh": ("gelu_tanh", True),
}  # fmt: skip
"""Activation -> its name here, and whether the feed-forward layer is gated."""
_PARTS = (("linear_query", "project/query_"), ("linear_keys", "project/key_"), ("linear_values", "project/value_"),
          ("final_linear", "output/"))  # fmt: skip
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
        return read_folder(folder)
    files = sorted(folder.path.glob("*.pt"))
    if len(files) != 1:
        raise UserError(
            f"{len(files)} files *.pt there and no config.json",
            "name a folder with one model of OpenNMT-py, <name>_step_<n>.pt, or with one of Eole",
            option="model_dir",
            value=folder.path,
        )
    return read_file(folder, files[0].name)


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
        for part, ending in _PARTS:
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
