"""Imports CTranslate2 models from any converter: Transformers with an encoder and a decoder.

A folder has `model.bin`, since version 6 of the format `config.json`, and the tokens in `shared_vocabulary.json` or in
one list for each side; the padding, end and unknown tokens are among them.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t.errors import UserError, one_line
from t2t.files.trust import MOST_BYTES
from t2t.formats.ctranslate2.mapping import convert_stacks, convert_tables, hparams_of
from t2t.formats.ctranslate2.model_file import VERSIONS, Attributes, ModelFile, parse_model
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary, encoders_of, token_weights
from t2t.formats.huggingface.language_models import CODE
from t2t.formats.importer import ForeignRun, ImportRequest, alignment_hparams
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer_bart import TransformerBartHParams
from t2t.inference.ctranslate2.conversion import TokenLists, tokens_of
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS, UNK_ID
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import read_vocabulary

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
    vocabularies = read_vocabularies(folder, config, starts_with_zeros, request.sentencepiece_models)
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
            f"{path} has version {version} of the format, of an old CTranslate2",
            f"versions {VERSIONS[0]} to {VERSIONS[-1]} can be imported: convert the original model again, with a "
            "later CTranslate2",
        )
    try:
        file = parse_model(content)
    except ValueError as error:
        raise UserError(f"{path}: {one_line(error)}", "get the file again") from error
    if file.specification != _SPECIFICATION:
        raise UserError(
            f"{path} holds a {file.specification or 'model of an old version'}",
            f"what can be imported is a {_SPECIFICATION}, a Transformer with an encoder and a decoder",
        )
    rounded = sorted({str(array.dtype) for array in file.tensors.values() if array.dtype.kind == "i"})
    if rounded:
        raise UserError(
            f"{path}: its weights are rounded to {' and '.join(rounded)}",
            "convert the model again without --quantization, or with --quantization=float32",
        )
    return file


def _read_config(folder: ModelFolder, attributes: Attributes) -> Mapping[str, Any]:
    """Returns the settings from config.json, or for old models from model.bin."""
    given: Mapping[str, Any]
    if folder.has("config.json"):
        given = folder.config
    else:
        flags = {f"add_source_{name}": bool(attributes.get(f"with_source_{name}", 0)) for name in ("bos", "eos")}
        start = "<s>" if attributes.get("with_target_bos", 1) else "</s>"
        given = {**flags, "decoder_start_token": start}
    if unknown := [f"{name}={value!r}" for name, value in given.items() if name not in _CONFIG and value is not None]:
        raise UserError(f"{folder.path / 'config.json'} has {', '.join(unknown)}", "such models cannot be imported")
    return _CONFIG | given


_PADDING = ("<pad>", "<blank>", "<s>")
"""Tokens that inputs never contain, the first of which becomes padding: of transformers, OpenNMT and others."""
_OPENNMT = "<blank>"
"""Token that identifies OpenNMT models, whose inputs have no end of sequence."""


@dataclass(frozen=True)
class VocabularyPair:
    """Both sides; `source` and `target` are the same object if their tokens are the same."""

    source: ForeignVocabulary
    target: ForeignVocabulary
    encoders: Mapping[str, TextEncoder]
    hparams: Mapping[str, Any]
    """Hparams that follow from the vocabularies: the first decoder input, and whether the end of inputs is read."""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_vocabularies(
    folder: ModelFolder, config: Mapping[str, Any], starts_with_zeros: bool, models: Sequence[Path]
) -> VocabularyPair:
    """Reads the lists of tokens of a folder.

    Args:
        folder: folder of the model.
        config: tokens by purpose, see `read_config`.
        starts_with_zeros: whether the decoder starts with a vector of zeros.
        models: SentencePiece models that split texts; empty if texts are already split.

    Raises:
        UserError: a list is missing or damaged, start or end tokens are used in an unsupported way, or a model of
            another source has language codes.
    """
    tokens = _read_tokens(folder)
    start, eos, unknown = config["decoder_start_token"], config["eos_token"], config["unk_token"]
    where = str(folder.path)
    if config["add_source_bos"]:
        raise UserError(
            f"{where}: its inputs begin with a token (add_source_bos); those here do not", "it cannot be imported"
        )
    if not starts_with_zeros and start not in tokens[TARGETS]:
        raise UserError(
            f"{where}: its decoder begins with {start!r}, which is not one of its {len(tokens[TARGETS])} target tokens",
            "get it again",
        )
    adds_end = bool(config["add_source_eos"])
    # A start token that also occurs in outputs cannot become padding; other start tokens do.
    starts_with_word = start in (eos, unknown) and not starts_with_zeros
    hparams: dict[str, Any] = {
        "target_start": "zero" if starts_with_zeros else "id" if starts_with_word else "pad",
        "input_end": adds_end or _OPENNMT not in tokens[INPUTS],
    }
    if starts_with_word:
        hparams["target_start_id"] = EOS_ID if start == eos else UNK_ID
    if own := _own_encoders(folder, tokens):
        source, target = (  # in our order already
            ForeignVocabulary.of(one, one[PAD_ID], one[EOS_ID], one[UNK_ID], where)
            for one in (tokens[INPUTS], tokens[TARGETS])
        )
        source = target if tokens[INPUTS] == tokens[TARGETS] else source
        if not starts_with_zeros and (number := tokens[TARGETS].index(start)) != PAD_ID:
            hparams |= {"target_start": "id", "target_start_id": number}
        reads_end = adds_end or TokenLists.of_encoders(own).codes_follow_end  # then the end is given with the input
        return VocabularyPair(source, target, own, hparams | {"input_end": reads_end})
    if start == eos and not starts_with_zeros:
        _check_languages(tokens[TARGETS], where)
    pads = {name: next((token for token in _PADDING if token in tokens[name]), None) for name in tokens}
    pads |= {} if starts_with_zeros or starts_with_word else {TARGETS: start}
    both, their_pads = (tokens[INPUTS], tokens[TARGETS]), (pads[INPUTS], pads[TARGETS])
    source, target = ForeignVocabulary.pair(both, their_pads, eos, unknown, where)
    if eos not in tokens[TARGETS]:
        raise UserError(
            f"{where}: {eos!r}, which ends outputs, is not one of its {target.size} target tokens", "get it again"
        )
    encoders, notes, warnings = encoders_of(source, target, models)
    if not adds_end and hparams["input_end"]:
        notes += (f"inputs end with {eos}, as the tokenizers of transformers write them",)
    return VocabularyPair(source, target, encoders, hparams, notes, warnings)


def _check_languages(tokens: Sequence[str], where: str) -> None:
    """Raises UserError if two tokens that follow each other are language codes, whose places no file here says.

    A single token may be spelt like a code by chance.
    """
    codes = [pair for pair in itertools.pairwise(tokens) if all(map(CODE.fullmatch, pair))]
    if codes:
        raise UserError(
            f"{where}: its tokens include language codes, such as {codes[0][0]!r}, as those of NLLB, M2M-100 and "
            "mBART-50, and its files do not say where texts have them",
            "import the original with --from=huggingface",
        )


def _read_tokens(folder: ModelFolder) -> dict[str, list[str]]:
    """Returns the tokens of inputs and targets."""
    shared = _read_list(folder, "shared")
    if shared:
        return {INPUTS: shared, TARGETS: shared}
    both = {INPUTS: _read_list(folder, "source"), TARGETS: _read_list(folder, "target")}
    if not all(both.values()):
        raise UserError(
            "neither shared_vocabulary.json nor source_vocabulary.json and target_vocabulary.json exist there",
            "copy all files of the model",
            option="model_dir",
            value=folder.path,
        )
    return both


def _read_list(folder: ModelFolder, name: str) -> list[str]:
    """Returns the tokens in a file, JSON or in old models one a line; empty if there is no file."""
    file = f"{name}_vocabulary.json"
    if folder.has(file):
        tokens = folder.read_json(file, list)
        if not all(isinstance(token, str) for token in tokens):
            raise UserError(f"{folder.path / file}: one of its tokens is not text", "get it again")
        return tokens
    file = f"{name}_vocabulary.txt"
    if not folder.has(file):
        return []
    return folder.read_text(file, MOST_BYTES).removesuffix("\n").split("\n")


def _own_encoders(folder: ModelFolder, tokens: Mapping[str, list[str]]) -> dict[str, TextEncoder]:
    """Returns the vocabularies of an exported run; empty for a model from another source."""
    found: dict[str, TextEncoder] = {}
    for name in tokens:
        for path in sorted(folder.path.glob("vocab.*")):
            if path.name.startswith((f"vocab.{name}.", "vocab.shared.")):
                folder.read(path.name, MOST_BYTES)  # refuses links that lead out of the folder
                encoder = read_vocabulary(path)
                found |= {name: encoder} if tokens_of(encoder) == tokens[name] else {}
    return found if len(found) == len(tokens) else {}
