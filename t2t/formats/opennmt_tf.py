"""Imports Transformers of OpenNMT-tf 2: the paper's network with sinusoids starting at 1, and biases everywhere.

A folder has a checkpoint, `ckpt-<step>.index` and `.data-*`, `model_description.py`, which is read without executing
it, the training configuration, and the vocabularies that it names. Matrices are (in, out), as here.

Legend: L positions, D width, V vocabulary.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, one_line
from t2t.files.trust import MOST_BYTES
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary, encoders_of, token_weights
from t2t.formats.importer import ForeignRun, ImportRequest, Settings
from t2t.formats.tensorflow_checkpoint import find_checkpoint, read_objects
from t2t.formats.tensors import Tensors
from t2t.formats.yaml import parse_nested_settings
from t2t.hparams.transformer_bart import TransformerBartHParams, transformer_m2m

_EPSILON = 1e-3
"""Epsilon of Keras's norms."""
_FIRST_POSITION = 1


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder of OpenNMT-tf.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    folder = ModelFolder(request.model_dir)
    configuration = read_configuration(folder)
    prefix = find_checkpoint(folder.path, request.step, "ckpt")
    tensors = Tensors(read_objects(prefix, "model", ATTRIBUTES), f"checkpoint {prefix}")
    source, target = configuration.source, configuration.target
    encoders, notes, warnings = encoders_of(source, target, request.sentencepiece_models)
    warnings += () if request.sentencepiece_models else _tokenizer_warnings(configuration)
    weights, settings = token_weights(source, target, *convert_tables(tensors))
    hparams = _hparams(configuration, tensors).replace(**settings)
    weights |= convert_stacks(tensors, hparams)
    return ForeignRun(
        problem=request.problem.with_encoders(encoders),
        model="transformer_bart",
        hparams=hparams,
        hparams_set="transformer_m2m",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its description and its vocabularies",
        notes=(*notes, f"checkpoint: update {prefix.name.rpartition('-')[2]} of the original; training starts at 0"),
        warnings=warnings,
    )


def _tokenizer_warnings(configuration: Configuration) -> tuple[str, ...]:
    """Returns a warning if the model's texts were split by tokenizers of OpenNMT-tf."""
    named = " and ".join(f"{name} ({kind})" for name, kind in configuration.tokenizers.items())
    if not named:
        return ()
    return (
        f"the model's texts were split by {named}, which is not imported: give texts that are split likewise, or "
        f"import the model with its --sentencepiece_model",
    )


def _hparams(configuration: Configuration, tensors: Tensors) -> TransformerBartHParams:
    """Returns the hparams, with `transformer_m2m`'s values for training settings that are in no file."""
    description, params = configuration.description, configuration.params
    inner = tensors.take("encoder/layers/0/ffn/layer/inner/kernel")
    return transformer_m2m().replace(
        hidden_size=inner.shape[0],
        filter_size=inner.shape[1],
        num_encoder_layers=tensors.count("encoder/layers/{n}/ffn/layer/inner/kernel"),
        num_decoder_layers=tensors.count("decoder/layers/{n}/ffn/layer/inner/kernel"),
        num_heads=description.heads,
        activation=description.activation,
        attention_bias="encoder/layers/0/self_attention/layer/linear_queries/bias" in tensors,
        norm_position="pre" if "encoder/layer_norm/gamma" in tensors else "post",
        norm_epsilon=_EPSILON,
        target_start="pad",
        input_end=configuration.ends_inputs,
        layer_prepostprocess_dropout=float(description.dropout),
        attention_dropout=float(description.attention_dropout),
        relu_dropout=float(description.ffn_dropout),
        label_smoothing=params.number("label_smoothing", 0.0),
        beam_size=int(params.number("beam_width", 4)),
        length_penalty="gnmt",
        alpha=params.number("length_penalty", 0.0),
        **_positions(configuration, tensors),
    )


def _positions(configuration: Configuration, tensors: Tensors) -> dict[str, Any]:
    """Returns the hparams of positions."""
    keys, table = "encoder/layers/0/self_attention/layer/relative_position_keys", "encoder/position_encoder/embedding"
    has_sinusoids, origin = configuration.description.has_sinusoids, tensors.origin
    none = {"sinusoid_layout": "interleaved", "first_position": 0}
    if table in tensors:
        if keys in tensors:
            raise UserError(f"{origin} has relative positions and a table of them", "models here have one kind")
        return {"positions": "learned", "max_length": len(tensors.take(table)) - _FIRST_POSITION, **none}
    if keys in tensors:
        if has_sinusoids:
            raise UserError(
                f"{origin} has relative positions, and its description sinusoids", "models here have one kind"
            )
        return {"positions": "relative", "max_relative_position": (len(tensors.take(keys)) - 1) // 2, **none}
    if not has_sinusoids:
        return {"positions": "none", **none}
    return {"positions": "sinusoidal", "sinusoid_layout": "split", "first_position": _FIRST_POSITION}


# === Vocabularies and settings ===

_DESCRIPTION = "model_description.py"
_SPECIAL = ["<blank>", "<s>", "</s>"]
"""The first tokens of a vocabulary file; OpenNMT-tf adds the unknown token at the end."""
_UNKNOWN = "<unk>"
_SPACES, _UNNAMED = "SpaceTokenizer", "OpenNMTTokenizer"
"""The tokenizer without a description, and the one of a description that names no type."""


@dataclass(frozen=True)
class Configuration:
    """Vocabularies and settings from the configuration and the description."""

    description: Description
    source: ForeignVocabulary
    target: ForeignVocabulary
    """The same object as `source` if the tokens are the same."""
    ends_inputs: bool
    """Whether inputs have an end of sequence."""
    params: Settings
    """The section `params` of the configuration."""
    tokenizers: Mapping[str, str]
    """Tokenizers of texts: setting of `data` -> the tokenizer's type, or the file that describes it."""


def read_configuration(folder: ModelFolder) -> Configuration:
    """Reads the only YAML file of a folder, the vocabularies that it names, and the description.

    Raises:
        UserError: a file is missing or damaged, inputs are not words, or they start with a start token.
    """
    text = folder.read(_DESCRIPTION, MOST_BYTES).decode("utf-8", errors="replace")
    description = parse_description(text, folder.path / _DESCRIPTION)
    settings, where = _read_settings(folder)
    controls = {name: settings.get(f"data.source_sequence_controls.{name}") for name in ("start", "end")}
    if controls["start"] or settings.get("data.source_sequence_controls") is not None:
        raise UserError(
            f"{where}: its inputs begin with a token, or source_sequence_controls is not written as lines of start "
            "and end; inputs here begin with their first word",
            "it cannot be imported",
        )
    tokens = [_read_tokens(folder, settings, name, where) for name in ("source_vocabulary", "target_vocabulary")]
    blank, start, eos = _SPECIAL
    source, target = ForeignVocabulary.pair(tokens, (blank, start), eos, _UNKNOWN, where)
    ends = description.ends_inputs if controls["end"] is None else bool(controls["end"])
    params = {name.removeprefix("params."): value for name, value in settings.items() if name.startswith("params.")}
    return Configuration(description, source, target, ends, Settings(params, where), _tokenizers(settings))


def _read_settings(folder: ModelFolder) -> tuple[dict[str, Any], str]:
    """Returns the settings by path, and the name of their file."""
    files = sorted(path.name for path in folder.path.iterdir() if path.suffix in (".yml", ".yaml"))
    if len(files) != 1:
        raise UserError(
            f"{len(files)} files *.yml there",
            "copy the configuration of the training there, and the vocabularies that it names",
            option="model_dir",
            value=folder.path,
        )
    where = folder.path / files[0]
    try:
        return parse_nested_settings(folder.read(files[0], MOST_BYTES).decode("utf-8")), str(where)
    except ValueError as error:
        raise UserError(f"{where} is not a configuration of OpenNMT-tf ({one_line(error)})", "get it again") from error


def _tokenizers(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns the tokenizers of the configuration other than the default one, which splits texts at spaces."""
    found = {}
    for name in ("source_tokenization", "target_tokenization"):
        path = f"data.{name}"
        is_described = any(setting.startswith(f"{path}.") for setting in settings)
        kind = settings.get(f"{path}.type", _UNNAMED) if is_described else settings.get(path)
        if kind not in (None, _SPACES):
            found[name] = str(kind)
    return found


def _read_tokens(folder: ModelFolder, settings: Mapping[str, Any], name: str, where: str) -> list[str]:
    """Returns the tokens in a file of the folder that the configuration names, and the added unknown token."""
    file = settings.get(f"data.{name}")
    if not isinstance(file, str):
        raise UserError(
            f"{where} has data.{name}={file!r}; a file is wanted, of a model with words of one kind for inputs",
            "it cannot be imported",
        )
    inner = PurePath(file)
    try:
        content = folder.read(str(inner) if folder.has(str(inner)) else inner.name, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: its data.{name}, {file}, is not UTF-8 ({error.reason})", "get it again") from None
    tokens = [line.rstrip("\r") for line in content.removesuffix("\n").split("\n")]
    if tokens[: len(_SPECIAL)] != _SPECIAL or _UNKNOWN in tokens:
        raise UserError(
            f"{where}: the tokens of {inner.name} begin with {' '.join(tokens[:3])[:60]!r}; those of OpenNMT-tf begin "
            f"with {' '.join(_SPECIAL)} and have no {_UNKNOWN}",
            "get it again",
        )
    return [*tokens, _UNKNOWN]


# === The description of the model ===


@dataclasses.dataclass(frozen=True)
class Description:
    """Settings of a Transformer."""

    heads: int = 8
    activation: str = "relu"
    """Activation, by our name."""
    has_sinusoids: bool = True
    """Whether sinusoids are added to embeddings; tables of positions are recognized by their weights."""
    dropout: float = 0.1
    attention_dropout: float = 0.1
    ffn_dropout: float = 0.1
    ends_inputs: bool = False
    """Whether inputs have an end of sequence by default; the configuration may override it."""


_SCALING = Description(heads=16, dropout=0.3, ffn_dropout=0.0, ends_inputs=True)
CATALOGUE: Mapping[str, Description] = {
    **dict.fromkeys(("Transformer", "TransformerBase", "TransformerBaseSharedEmbeddings"), Description()),
    **dict.fromkeys(("TransformerRelative", "TransformerBaseRelative"), Description(has_sinusoids=False)),
    **dict.fromkeys(("TransformerBig", "TransformerBigSharedEmbeddings"), Description(heads=16)),
    "TransformerBigRelative": Description(heads=16, has_sinusoids=False),
    "TransformerTiny": Description(heads=2),
    "ScalingNmtEnDe": _SCALING,
    "ScalingNmtEnFr": dataclasses.replace(_SCALING, dropout=0.1, attention_dropout=0.0),
}
"""Transformers of OpenNMT-tf's catalogue, by name."""

_ARGUMENTS = ("source_inputter", "target_inputter", "num_layers", "num_units", "num_heads", "ffn_inner_dim", "dropout",
              "attention_dropout", "ffn_dropout", "ffn_activation")  # fmt: skip
"""Arguments of `Transformer`, in order."""
_ACTIVATIONS = {
    "tf.nn.relu": "relu", "tf.nn.gelu": "gelu", "tf.nn.silu": "silu", "tf.nn.swish": "silu",
    **{f"{module}.gelu": "gelu_tanh" for module in ("opennmt.layers", "onmt.layers", "layers", "common")},
}  # fmt: skip
_SINUSOIDS = "SinusoidalPositionEncoder"
_NUMBERS = {"num_heads": "heads", "dropout": "dropout", "attention_dropout": "attention_dropout",
            "ffn_dropout": "ffn_dropout"}  # fmt: skip


def parse_description(text: str, path: Path) -> Description:
    """Returns the settings in a description.

    Args:
        text: content of the file.
        path: path of the file, for messages.

    Raises:
        UserError: the file is not Python, or describes an unsupported model.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a description of a model ({one_line(error)})", "get it again") from error
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    own = [given for call in calls if "num_heads" in (given := _arguments(call))]
    if len(own) == 1:
        return _described(own[0], path)
    named = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in CATALOGUE]
    named += [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in CATALOGUE]
    if own or len(set(named)) != 1:
        raise UserError(
            f"{path} names neither one Transformer of the catalogue ({', '.join(CATALOGUE)}) nor the num_heads of one",
            "it cannot be imported",
        )
    return CATALOGUE[named[0]]


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """Returns the arguments of a call of `Transformer(...)` or `super().__init__(...)`; empty for other calls."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name not in ("Transformer", "__init__"):
        return {}
    given = dict(zip(_ARGUMENTS, call.args, strict=False))
    return given | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _described(given: Mapping[str, ast.expr], path: Path) -> Description:
    values: dict[str, Any] = {}
    for theirs, ours in _NUMBERS.items():
        if theirs in given:
            number = given[theirs].value if isinstance(given[theirs], ast.Constant) else None  # type: ignore[attr-defined]
            if type(number) not in (int, float) or (theirs == "num_heads" and type(number) is not int):
                raise UserError(
                    f"{path} has {theirs}={ast.unparse(given[theirs])}, which is not a number", "write the number there"
                )
            values[ours] = number
    if "ffn_activation" in given:
        name = ast.unparse(given["ffn_activation"])
        if name not in _ACTIVATIONS:
            raise UserError(
                f"{path} has ffn_activation={name}; known here are {', '.join(_ACTIVATIONS)}", "it cannot be imported"
            )
        values["activation"] = _ACTIVATIONS[name]
    if "position_encoder_class" in given:
        values["has_sinusoids"] = ast.unparse(given["position_encoder_class"]).rpartition(".")[2] == _SINUSOIDS
    return Description(**values)


# === Weights ===

_MAPS = {"linear_queries": "project/query_", "linear_keys": "project/key_", "linear_values": "project/value_",
         "linear_output": "output/"}  # fmt: skip
_NORMS = ("input_layer_norm", "output_layer_norm")
"""Norm of a sub-layer in a pre-norm and in a post-norm network."""
_RELATIVE = {"keys": "relative_position_keys", "values": "relative_position_values"}
ATTRIBUTES = frozenset((
    "examples_inputter", "features_inputter", "labels_inputter", "embedding", "encoder", "decoder", "layers", "layer",
    "self_attention", "attention", "ffn", "inner", "outer", "layer_norm", *_NORMS, "position_encoder", "output_layer",
    "kernel", "bias", "gamma", "beta", *_MAPS, *_RELATIVE.values(),
))  # fmt: skip
"""Attributes of the model's objects that lead to its variables."""
_INPUTS, _TARGETS = (f"examples_inputter/{side}_inputter/embedding" for side in ("features", "labels"))
_OUTPUT = "decoder/output_layer"
_FIRST_ROW = 1
"""First used row of tables of positions, since OpenNMT-tf counts from 1."""


def convert_tables(tensors: Tensors) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray | None]:
    """Returns the tables of inputs, targets and the output layer by foreign ids, (V, D), and the biases of logits.

    The output layer is a matrix (D, V), or the table of the targets, (V, D).
    """
    inputs, targets, outputs = (tensors.take(name) for name in (_INPUTS, _TARGETS, f"{_OUTPUT}/kernel"))
    is_table = outputs.shape == targets.shape and np.array_equal(outputs, targets)
    bias = f"{_OUTPUT}/bias"
    return (inputs, targets, outputs if is_table else outputs.T), tensors.take(bias) if bias in tensors else None


def convert_stacks(tensors: Tensors, hparams: TransformerBartHParams) -> Arrays:
    """Returns the weights of both stacks and of their positions."""
    weights: Arrays = {}
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            weights |= _layer(tensors, hparams, f"{side}/layers/{number}", f"{side}/layer_{number}")
        if hparams.norm_position == "pre":
            weights |= _norm(tensors, f"{side}/layer_norm", f"{side}/final_norm")
        if hparams.positions == "learned":
            table = tensors.take(f"{side}/position_encoder/embedding")[_FIRST_ROW:]
            path = "source_positions" if side == "encoder" else "target_positions"
            weights[f"{path}/positions/table"] = table
    return weights


def _layer(tensors: Tensors, hparams: TransformerBartHParams, name: str, path: str) -> Arrays:
    """Returns the weights of a layer."""
    parts = {"self_attention": "self_attention"}
    parts |= {"attention/0": "encdec_attention"} if name.startswith("decoder") else {}
    weights: Arrays = {}
    for theirs, ours in parts.items():
        for linear, ending in _MAPS.items():
            weights |= _dense(tensors, f"{name}/{theirs}/layer/{linear}", f"{path}/{ours}/{ending}")
    for linear in ("inner", "outer"):
        weights |= _dense(tensors, f"{name}/ffn/layer/{linear}", f"{path}/ffn/{linear}/")
    norm = _NORMS[hparams.norm_position == "post"]
    for theirs, ours in {**parts, "ffn": "ffn"}.items():
        weights |= _norm(tensors, f"{name}/{theirs}/{norm}", f"{path}/{ours}_residual/norm")
    if hparams.positions == "relative":
        for kind, theirs in _RELATIVE.items():
            table = tensors.take(f"{name}/self_attention/layer/{theirs}")
            weights[f"{path}/self_attention/relative_positions/{kind}"] = table
    return weights


def _dense(tensors: Tensors, name: str, path: str) -> Arrays:
    """Returns the kernel of a map, and its bias where it has one."""
    weights = {f"{path}kernel": tensors.take(f"{name}/kernel")}
    return weights | ({f"{path}bias": tensors.take(f"{name}/bias")} if f"{name}/bias" in tensors else {})


def _norm(tensors: Tensors, name: str, path: str) -> Arrays:
    return {f"{path}/{part}": tensors.take(f"{name}/{part}") for part in ("gamma", "beta")}
