"""Imports CTranslate2 models from any converter: Transformers with an encoder and a decoder.

A folder has `model.bin`, since version 6 of the format `config.json`, and the tokens in `shared_vocabulary.json` or in
one list for each side.
"""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError, one_line
from t2t.formats.ctranslate2.attributes import Attributes
from t2t.formats.ctranslate2.model_file import VERSIONS, ModelFile, parse_model
from t2t.formats.ctranslate2.network import hparams_of
from t2t.formats.ctranslate2.vocabularies import read_vocabularies
from t2t.formats.ctranslate2.weights import convert_stacks, convert_tables
from t2t.formats.folder import ModelFolder
from t2t.formats.importer import ForeignRun, ImportRequest, alignment_hparams
from t2t.formats.tables import token_weights
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer_bart import TransformerBartHParams

_SPECIFICATION = "TransformerSpec"
_CONFIG = {
    "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "decoder_start_token": "<s>",
    "add_source_bos": False, "add_source_eos": False, "layer_norm_epsilon": None, "multi_query_attention": None,
}  # fmt: skip
"""Keys of config.json, with their defaults."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a model's folder.

    Raises:
        UserError: a file is missing or damaged, weights are quantized to integers, or the network differs from the
            Transformer here.
    """
    folder = ModelFolder(request.model_dir)
    file = _read_model(folder)
    origin = str(folder.path / "model.bin")
    attributes = Attributes(file.attributes, origin)
    config = _read_config(folder, attributes)
    hparams = hparams_of(file.tensors, attributes, config, origin)
    starts_with_zeros = bool(attributes.get("decoder/start_from_zero_embedding", 0))
    models = [path.read_bytes() for path in request.sentencepiece_models]
    vocabularies = read_vocabularies(folder, config, starts_with_zeros, models)
    tensors = Tensors(file.tensors, origin)
    tables, bias = convert_tables(tensors, attributes, hparams.hidden_size)
    weights, settings = token_weights(vocabularies.source, vocabularies.target, tables, bias)
    hparams = hparams.replace(**vocabularies.hparams, **settings)
    weights |= convert_stacks(tensors, attributes, hparams)
    alignment, warnings = alignment_hparams(
        attributes.get("decoder/alignment_layer", -1), attributes.get("decoder/alignment_heads", 1), hparams
    )
    attributes.finish()
    is_bart = isinstance(hparams, TransformerBartHParams)
    return ForeignRun(
        model="transformer_bart" if is_bart else "transformer",
        hparams_set="transformer_m2m" if is_bart else "transformer_base",
        problem=request.problem.with_encoders(vocabularies.encoders),
        hparams=hparams.replace(**alignment),
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config.json and its lists of tokens",
        notes=vocabularies.notes,
        warnings=(*vocabularies.warnings, *warnings),
    )


def _read_model(folder: ModelFolder) -> ModelFile:
    """Returns the content of model.bin, after checking that all tensors are floating-point."""
    path, content = folder.path / "model.bin", folder.read("model.bin")
    if 0 < (version := int.from_bytes(content[:4], "little")) < VERSIONS[0]:
        raise UserError(
            f"{path} has version {version} of the format, of an old CTranslate2; versions {VERSIONS[0]} to "
            f"{VERSIONS[-1]} can be imported: convert the original model again, with a later CTranslate2"
        )
    try:
        file = parse_model(content)
    except ValueError as error:
        raise UserError(f"{path}: {one_line(error)}; get the file again") from error
    if file.specification != _SPECIFICATION:
        raise UserError(
            f"{path} holds a {file.specification or 'model of an old version'}; what can be imported is a "
            f"{_SPECIFICATION}, a Transformer with an encoder and a decoder"
        )
    rounded = sorted({str(array.dtype) for array in file.tensors.values() if array.dtype.kind == "i"})
    if rounded:
        raise UserError(
            f"{path}: its weights are rounded to {' and '.join(rounded)}; convert the model again without "
            f"--quantization, or with --quantization=float32"
        )
    return file


def _read_config(folder: ModelFolder, attributes: Attributes) -> Mapping[str, Any]:
    """Returns the settings from config.json, or for old models from model.bin."""
    if folder.has("config.json"):
        given = folder.config
    else:
        flags = {f"add_source_{name}": bool(attributes.get(f"with_source_{name}", 0)) for name in ("bos", "eos")}
        start = "<s>" if attributes.get("with_target_bos", 1) else "</s>"
        given = {**flags, "decoder_start_token": start}
    if unknown := [f"{name}={value!r}" for name, value in given.items() if name not in _CONFIG and value is not None]:
        raise UserError(f"{folder.path / 'config.json'} has {', '.join(unknown)}, which is not known here")
    return _CONFIG | given
