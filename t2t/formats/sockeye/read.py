"""Imports Sockeye 3 models: the paper's Transformer without biases in attention, sines before cosines.

A folder has `config`, `params.best` and the vocabularies `vocab.src.0.json` and `vocab.trg.0.json`.
"""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError, one_line
from t2t.files.trust import MOST_BYTES
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary, sides_of
from t2t.formats.ids import pieces_by_id
from t2t.formats.importer import ForeignRun, ImportRequest, unknown_values
from t2t.formats.pytorch import parse_pytorch
from t2t.formats.settings_file import parse_settings
from t2t.formats.sockeye.weights import convert_stacks, convert_tables
from t2t.formats.tables import token_weights
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer import TransformerHParams, transformer_base
from t2t.specs.constants import INPUTS, TARGETS

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
    hparams = _hparams(folder, _read_config(folder))
    path = folder.path / "params.best"
    try:
        tensors = Tensors(parse_pytorch(folder.read("params.best")), str(path))
    except ValueError as error:
        raise UserError(f"{path}: {one_line(error)}; get the file again") from error
    source, target = _vocabularies(folder)
    models = [model.read_bytes() for model in request.sentencepiece_models]
    encoders, notes, warnings = sides_of([(INPUTS, source), (TARGETS, target)], models)
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


def _read_config(folder: ModelFolder) -> dict[str, Any]:
    """Returns the settings by path; raises UserError if they describe an unsupported network."""
    where = folder.path / "config"
    try:
        values = parse_settings(folder.read("config", MOST_BYTES).decode("utf-8"))
    except ValueError as error:
        raise UserError(f"{where} is no file of Sockeye 3's settings ({one_line(error)}); get it again") from error
    wrong = unknown_values(values, _KNOWN)
    for name in _SAME:
        both = [values.get(f"config_{side}.{name}") for side in ("encoder", "decoder")]
        wrong += [f"{name}={both[0]!r} in the encoder and {both[1]!r} in the decoder"] if both[0] != both[1] else []
    if wrong:
        raise UserError(f"{where} describes another network than those here: {'; '.join(wrong)}; it cannot be imported")
    return values


def _hparams(folder: ModelFolder, values: Mapping[str, Any]) -> TransformerHParams:
    """Returns the hparams, with `transformer_base`'s values for training settings that the file lacks."""

    def need(name: str, kind: type = int) -> Any:
        value = values.get(name)
        if type(value) is not kind:
            what = f"{name}={value!r}; it must be of type {kind.__name__}"
            raise UserError(f"{folder.path / 'config'} has {what}; get it again")
        return value

    sequences = [str(values.get(f"config_encoder.{name}_sequence") or "") for name in ("preprocess", "postprocess")]
    norm = _NORMS.get(tuple(sequence.replace("d", "") for sequence in sequences))  # type: ignore[arg-type]
    if norm is None:
        raise UserError(
            f"{folder.path / 'config'} has preprocess_sequence={sequences[0]!r} and postprocess_sequence="
            f"{sequences[1]!r}; known here are 'n' with 'dr' and '' with 'drn'; it cannot be imported"
        )
    hparams = transformer_base().replace(
        hidden_size=need("config_encoder.model_size"),
        num_encoder_layers=need("config_encoder.num_layers"),
        num_decoder_layers=need("config_decoder.num_layers"),
        num_heads=need("config_encoder.attention_heads"),
        filter_size=need("config_encoder.feed_forward_num_hidden"),
        activation=_ACTIVATIONS[need("config_encoder.act_type", str)],
        gated_feed_forward=bool(values.get("config_encoder.use_glu")),
        decoder_layer=_DECODERS[values.get("config_decoder.decoder_type") or "transformer"],
        norm_position=norm,
        sinusoid_layout="halves",
        target_start="pad",
        layer_prepostprocess_dropout=need("config_encoder.dropout_prepost", float),
        attention_dropout=need("config_encoder.dropout_attention", float),
        relu_dropout=need("config_encoder.dropout_act", float),
        beam_size=5,
        length_penalty="power",
        alpha=1.0,
    )
    return hparams.with_decoder(need("config_decoder.attention_heads"), need("config_decoder.feed_forward_num_hidden"))


def _vocabularies(folder: ModelFolder) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """Returns the vocabularies of inputs and targets, the same object if their tokens are the same."""
    tokens = {}
    for side in ("src", "trg"):
        name = f"vocab.{side}.0.json"
        tokens[side] = pieces_by_id(folder.read_json(name), str(folder.path / name))
        if tokens[side][: len(_TOKENS)] != list(_TOKENS.values()):
            raise UserError(
                f"{folder.path / name}: its first tokens are {' '.join(tokens[side][:4])[:60]!r}; those of Sockeye 3 "
                f"are {' '.join(_TOKENS.values())}; get it again"
            )
        if folder.has(f"vocab.{side}.1.json"):
            raise UserError(f"{folder.path}: its words have factors (vocab.{side}.1.json); it cannot be imported")
    start, eos, unknown = (_TOKENS[name] for name in ("start", "eos", "unk"))
    target = ForeignVocabulary.of(tokens["trg"], start, eos, unknown, str(folder.path))
    if tokens["src"] == tokens["trg"]:
        return target, target
    return ForeignVocabulary.of(tokens["src"], _TOKENS["pad"], eos, unknown, str(folder.path)), target
