"""M2M-100, NLLB and mBART as transformers has them: `M2M100ForConditionalGeneration`, `MBartForConditionalGeneration`.

Fan et al. 2021 (arXiv:2010.11125); NLLB Team 2022 (arXiv:2207.04672), its dense models; Liu et al. 2020
(arXiv:2001.08210) and Tang et al. 2020 (arXiv:2008.00401). Positions start at 2, since fairseq reserves those up to the
padding id, 1: M2M-100's sinusoids start there, and the first two rows of mBART's tables are unused.

A SentencePiece model splits texts. Ids are fairseq's: `<s>`, `<pad>`, `</s>` and `<unk>`, then the model's pieces;
M2M-100 has a separate table for them, `vocab.json`. The language codes follow the pieces, then `<mask>` and unused rows
of the embedding.

Legend: D width, L positions, V vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import in_our_order, our_order, pieces_by_id
from t2t.formats.huggingface.mapping import COPIES, MARIAN_ACTIVATIONS, search_warnings, stacks, with_sizes
from t2t.formats.huggingface.tokenizer import NAMES, SETTINGS, TokenizerFiles
from t2t.formats.importer import DEFAULT_PROBLEM, LANGUAGES, ForeignRun, ImportRequest
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer_bart import transformer_m2m, transformer_mbart
from t2t.problems.base import Problem
from t2t.specs import EOS_ID, INPUTS, TARGETS
from t2t.text.encoder import BEGIN, END, NONE, LanguageCodes
from t2t.text.imported import PieceTableEncoder, pieces_of_model

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "activation_function": tuple(MARIAN_ACTIVATIONS),
    "scale_embedding": (True,),
    "tie_word_embeddings": (True,),
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "normalize_before": (True,),
    "normalize_embedding": (True,),
    "add_final_layer_norm": (True,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (False,),
}
_TABLE = "model.shared.weight"
_FIRST_POSITION = 2


def read(folder: ModelFolder, request: ImportRequest) -> ForeignRun:
    """Reads the folder of a model and its tokenizer.

    Raises:
        UserError: a file is missing or damaged, the network differs from the Transformer here, or mBART's output
            language is unknown.
    """
    folder.config.need("scale_embedding", bool)  # required, since one of the two models has an unsupported default
    folder.config.check(_ALLOWED)
    is_mbart = folder.config["model_type"] == "mbart"
    tensors = folder.read_tensors()
    tensors.rename(_TABLE, *COPIES)
    vocabulary = read_vocabulary(folder, len(tensors.take(_TABLE)))
    problem = _problem(request, vocabulary)
    hparams = with_sizes(folder, transformer_mbart() if is_mbart else transformer_m2m())
    hparams = hparams.replace(target_start_id=_target_start(folder, vocabulary, problem))
    weights = {"target_embedding/table": tensors.take(_TABLE)[vocabulary.order], **stacks(tensors, hparams)}
    weights |= _mbart_weights(tensors, vocabulary) if is_mbart else {}
    for side in ("encoder", "decoder"):
        tensors.drop(f"model.{side}.embed_positions.weights", "sinusoids, which are computed here")
    return ForeignRun(
        problem=problem,
        model="transformer_bart",
        hparams=hparams,
        hparams_set="transformer_mbart" if is_mbart else "transformer_m2m",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config.json",
        notes=(
            f"ids: padding {vocabulary.order[0]}, end of sequence {vocabulary.order[1]} and unknown "
            f"{vocabulary.order[2]} became 0, 1 and 2",
            f"{len(vocabulary.codes.ids)} languages; source {problem.source_language or 'to be named'}, target "
            f"{problem.target_language or 'to be named'}",
        ),
        warnings=search_warnings(folder, known=("forced_bos_token_id",)),  # the code of a language
    )


def _problem(request: ImportRequest, vocabulary: LanguageVocabulary) -> Problem:
    """Returns the problem with the vocabulary on both sides and the requested languages, or those of the folder."""
    problem = request.problem
    if problem.name == DEFAULT_PROBLEM:
        problem = type(problem)(**{**vocabulary.languages, **problem.options.changed()})
    problem = problem.with_encoders(dict.fromkeys((INPUTS, TARGETS), vocabulary.encoder))
    for side in LANGUAGES:
        if language := getattr(problem, side):
            vocabulary.codes.find(language, f"--{side}={language}")
    return problem


def _target_start(folder: ModelFolder, vocabulary: LanguageVocabulary, problem: Problem) -> int:
    """Returns our id of the first decoder input: end of sequence, or for mBART the output language."""
    if vocabulary.codes.target == NONE:
        if not problem.target_language:
            raise UserError(
                "the model begins outputs with the code of their language, and its files name none",
                f"name it with --target_language, such as {sorted(vocabulary.codes.ids)[0]}",
                option="model_dir",
                value=folder.path,
            )
        return vocabulary.codes.find(problem.target_language, f"--target_language={problem.target_language}")
    if (start := folder.config.need("decoder_start_token_id")) != vocabulary.order[EOS_ID]:
        raise UserError(
            f"{folder.path / 'config.json'} has decoder_start_token_id={start} and "
            f"eos_token_id={vocabulary.order[EOS_ID]}",
            "such a model begins with end of sequence, and another cannot be imported",
        )
    return EOS_ID


def _mbart_weights(tensors: Tensors, vocabulary: LanguageVocabulary) -> Arrays:
    """Returns the weights that M2M-100 lacks: tables of positions (L, D), norms of embeddings, logit biases (V,)."""
    weights = {"output_embedding/bias": tensors.take("final_logits_bias").reshape(-1)[vocabulary.order]}
    for side, path in (("encoder", "source_positions"), ("decoder", "target_positions")):
        table_LD = tensors.take(f"model.{side}.embed_positions.weight")[_FIRST_POSITION:]
        weights |= {f"{path}/positions/table": table_LD}
        weights |= tensors.norm(f"model.{side}.layernorm_embedding", f"{path}/norm")
    return weights


SENTENCEPIECE = "sentencepiece.bpe.model"
CODE = re.compile(r"__([A-Za-z][\w-]*)__|([a-z]{2,3}_[A-Z][A-Za-z]{1,3})")
"""Pieces that are language codes: M2M-100's, or those of NLLB and mBART."""
_FIRST = ("<s>", "<pad>", "</s>", "<unk>")
_MASK = "<mask>"
_OF_SENTENCEPIECE = 3
"""How many of these special pieces are in the SentencePiece model: all but padding."""
_CODE_POSITIONS = {"M2M100": (BEGIN, BEGIN), "Nllb": (BEGIN, BEGIN), "MBart50": (BEGIN, BEGIN), "MBart": (END, NONE)}
"""Prefix of the tokenizer's class -> positions of the language codes in inputs and outputs."""


_M2M_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""`language_codes` of M2M-100's tokenizers, whose files need not list them -> languages in the order of their ids."""


@dataclass(frozen=True)
class LanguageVocabulary:
    """The vocabulary of a folder's tokenizer."""

    encoder: PieceTableEncoder
    codes: LanguageCodes
    order: np.ndarray
    """The foreign id of each of our ids, (V,) int."""
    languages: Mapping[str, str]
    """Default languages, `source_language` and `target_language`, if known."""


def read_vocabulary(folder: ModelFolder, rows: int) -> LanguageVocabulary:
    """Reads a tokenizer with language codes.

    Args:
        folder: folder of the model.
        rows: number of rows of the embedding table.

    Raises:
        UserError: a file is missing, damaged, or of another tokenizer or model.
    """
    model = folder.read(SENTENCEPIECE)
    files = TokenizerFiles(folder)
    table, settings = _pieces(folder, model), files.settings
    codes = _codes(folder, files, len(table))
    if not codes:
        raise UserError(
            f"none of {NAMES} lists codes of languages",
            "copy all files of the model",
            option="model_dir",
            value=folder.path,
        )
    files.check_added({*table, *codes, _MASK}, "its pieces or codes of languages", _tokens_of_table(files, len(table)))
    pieces = _all_pieces(folder, files, table, codes, rows)
    pad, eos, size = map(folder.config.need, ("pad_token_id", "eos_token_id", "vocab_size"))
    if size != rows or (pieces[pad : pad + 1], pieces[eos : eos + 1]) != (
        ["<pad>"],
        ["</s>"],
    ):
        raise UserError(
            f"{folder.path / 'config.json'} has vocab_size={size}, pad_token_id={pad} and eos_token_id={eos}; the "
            f"table of the model has {rows} rows, and its tokenizer <pad> at {pieces.index('<pad>')} and </s> at "
            f"{pieces.index('</s>')}",
            "copy the files of one model",
        )
    order = our_order(rows, pad, eos, pieces.index("<unk>"))
    ours = {int(foreign): number for number, foreign in enumerate(order)}
    source, target = _code_positions(folder, settings)
    languages = LanguageCodes({_language(piece): ours[number] for piece, number in codes.items()}, source, target)
    encoder = PieceTableEncoder(model, in_our_order(pieces, order), languages=languages)
    by_id = {number: _language(piece) for piece, number in codes.items()}
    return LanguageVocabulary(encoder, languages, order, _default_languages(folder, settings, by_id))


def _pieces(folder: ModelFolder, model: bytes) -> list[str]:
    """Returns the pieces before the language codes, by foreign id."""
    if folder.has("vocab.json"):
        pieces = pieces_by_id(folder.read_json("vocab.json"), str(folder.path / "vocab.json"))
    else:
        own = pieces_of_model(model)[0]
        if sorted(own[:_OF_SENTENCEPIECE]) != ["</s>", "<s>", "<unk>"]:
            raise UserError(
                f"{folder.path / SENTENCEPIECE} begins with {own[:_OF_SENTENCEPIECE]}",
                "that of mBART and NLLB begins with <unk>, <s> and </s>, and another cannot be imported",
            )
        pieces = [*_FIRST, *own[_OF_SENTENCEPIECE:]]
    if missing := [piece for piece in _FIRST if piece not in pieces]:
        raise UserError(f"{folder.path}: its tokenizer has no {', '.join(missing)}", "copy all files of the model")
    return pieces


def _codes(folder: ModelFolder, files: TokenizerFiles, first: int) -> dict[str, int]:
    """Returns language code -> id, from a file, or else numbered from `first` on."""
    listed = files.added_tokens() + _tokens_of_table(files, first)
    codes = {piece: number for piece, number in listed if isinstance(piece, str) and CODE.fullmatch(piece)}
    if codes:
        return codes
    for tokens in files.special_tokens():
        if pieces := [token for token in tokens if CODE.fullmatch(token)]:
            return {piece: first + number for number, piece in enumerate(dict.fromkeys(pieces))}
    kind = str(files.settings.get("language_codes") or "m2m100")
    known = _M2M_LANGUAGES.get(kind) if folder.has("vocab.json") else None
    return {f"__{language}__": first + number for number, language in enumerate((known or "").split())}


def _tokens_of_table(files: TokenizerFiles, first: int) -> list[tuple[Any, Any]]:
    """Returns (token, id) pairs of the table in tokenizer.json from id `first` on; empty without that file."""
    model = files.whole.get("model")
    table = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(table, dict):
        return [(piece, number) for piece, number in table.items() if type(number) is int and number >= first]
    entries = table[first:] if isinstance(table, list) else []
    pieces = [entry[0] if isinstance(entry, list) and entry else None for entry in entries]
    return [(piece, first + number) for number, piece in enumerate(pieces)]


def _all_pieces(
    folder: ModelFolder, files: TokenizerFiles, table: list[str], codes: Mapping[str, int], rows: int
) -> list[str]:
    """Returns the piece of each embedding row: those before the codes, the codes, and those after them."""
    wrong = [piece for piece, number in codes.items() if type(number) is not int or not len(table) <= number < rows]
    if wrong or len(set(codes.values())) < len(codes):
        listed = ", ".join(f"{piece} at {codes[piece]}" for piece in wrong[:3]) or "two languages with one id"
        raise UserError(
            f"{folder.path}: the tokenizer has {listed}; codes have ids of their own from {len(table)}, behind the "
            f"pieces, to {rows - 1}, the last row of the model",
            "copy the files of one model",
        )
    by_id = {number: piece for piece, number in codes.items()}
    masks = [token_id for piece, token_id in files.added_tokens() if piece == _MASK and type(token_id) is int]
    if _MASK not in table and not folder.has("vocab.json"):
        by_id.setdefault(masks[0] if masks else max(by_id) + 1, _MASK)
    return [*table, *(by_id.get(number, f"<row {number}>") for number in range(len(table), rows))]


def _code_positions(folder: ModelFolder, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the positions of the language codes in inputs and in outputs."""
    name = str(settings.get("tokenizer_class") or "")
    if not name:
        is_mbart = folder.config.get("model_type") == "mbart"
        starts_with_code = folder.config.get("decoder_start_token_id") != folder.config.get("eos_token_id")
        name = ("MBart" if starts_with_code else "MBart50") if is_mbart else "Nllb"
    kind = next((kind for kind in _CODE_POSITIONS if name in (f"{kind}Tokenizer", f"{kind}TokenizerFast", kind)), None)
    if kind is None:
        raise UserError(
            f"{folder.path / SETTINGS} has tokenizer_class={name!r}",
            "tokenizers that can be imported with this model are "
            f"{', '.join(f'{kind}Tokenizer' for kind in _CODE_POSITIONS)}",
        )
    source, target = _CODE_POSITIONS[kind]
    return END if kind == "Nllb" and settings.get("legacy_behaviour") else source, target


def _language(piece: str) -> str:
    """Returns the language of a code piece: `de` for `__de__`, `deu_Latn` for `deu_Latn`."""
    found = CODE.fullmatch(piece)
    return (found[1] or found[2]) if found else piece


def _default_languages(folder: ModelFolder, settings: Mapping[str, Any], by_id: Mapping[int, str]) -> dict[str, str]:
    """Returns the default languages of the folder; the decoder's start token takes precedence over the tokenizer."""
    started = [folder.generation_config.get("forced_bos_token_id"), folder.config.get("decoder_start_token_id")]
    begun = [by_id[number] for number in started if type(number) is int and number in by_id]
    named = {
        "source_language": settings.get("src_lang"),
        "target_language": next(iter(begun), settings.get("tgt_lang")),
    }
    known = set(by_id.values())
    return {name: language for name, language in named.items() if isinstance(language, str) and language in known}
