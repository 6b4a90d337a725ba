"""The vocabularies of a CTranslate2 model: its lists of tokens, and the padding, end and unknown tokens among them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t2t.errors import UserError
from t2t.files.trust import MOST_BYTES
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import ForeignVocabulary, sides_of
from t2t.formats.huggingface.language_vocabulary import CODE
from t2t.inference.ctranslate2.tokens import TokenLists, tokens_of
from t2t.specs.constants import EOS_ID, INPUTS, PAD_ID, TARGETS, UNK_ID
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import read_vocabulary

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
    folder: ModelFolder, config: Mapping[str, Any], starts_with_zeros: bool, models: Sequence[bytes]
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
            f"{where}: its inputs begin with a token (add_source_bos); those here do not; it cannot be imported"
        )
    if not starts_with_zeros and start not in tokens[TARGETS]:
        raise UserError(
            f"{where}: its decoder begins with {start!r}, which is none of its {len(tokens[TARGETS])} target tokens; "
            f"get it again"
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
        source, target = (_own_vocabulary(tokens[name], where) for name in (INPUTS, TARGETS))
        source = target if tokens[INPUTS] == tokens[TARGETS] else source
        if not starts_with_zeros and (number := tokens[TARGETS].index(start)) != PAD_ID:
            hparams |= {"target_start": "id", "target_start_id": number}
        reads_end = adds_end or TokenLists.of_encoders(own).codes_follow_end  # then the end is given with the input
        return VocabularyPair(source, target, own, hparams | {"input_end": reads_end})
    if start == eos and not starts_with_zeros:
        _check_languages(tokens[TARGETS], where)
    pads = {name: next((token for token in _PADDING if token in tokens[name]), None) for name in tokens}
    pads |= {} if starts_with_zeros or starts_with_word else {TARGETS: start}
    target = ForeignVocabulary.of(tokens[TARGETS], pads[TARGETS], eos, unknown, where)
    if eos not in tokens[TARGETS]:
        raise UserError(
            f"{where}: {eos!r}, which ends outputs, is none of its {target.size} target tokens; get it again"
        )
    source = target
    if tokens[INPUTS] != tokens[TARGETS]:
        source = ForeignVocabulary.of(tokens[INPUTS], pads[INPUTS], eos, unknown, where)
    encoders, notes, warnings = sides_of([(INPUTS, source), (TARGETS, target)], models)
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
            f"mBART-50, and its files do not say where texts have them; import the original with --from=huggingface"
        )


def _own_vocabulary(tokens: Sequence[str], where: str) -> ForeignVocabulary:
    """Returns a vocabulary that is already in our order."""
    pad, eos, unknown = tokens[:3]
    return ForeignVocabulary.of(tokens, pad, eos, unknown, where)


def _read_tokens(folder: ModelFolder) -> dict[str, list[str]]:
    """Returns the tokens of inputs and targets."""
    shared = _read_list(folder, "shared")
    if shared:
        return {INPUTS: shared, TARGETS: shared}
    both = {INPUTS: _read_list(folder, "source"), TARGETS: _read_list(folder, "target")}
    if not all(both.values()):
        raise UserError(
            f"--model_dir={folder.path}: no shared_vocabulary.json there, nor source_vocabulary.json and "
            f"target_vocabulary.json; copy all files of the model"
        )
    return both


def _read_list(folder: ModelFolder, name: str) -> list[str]:
    """Returns the tokens in a file, JSON or in old models one a line; empty if there is no file."""
    file = f"{name}_vocabulary.json"
    if folder.has(file):
        tokens = folder.read_json(file, list)
        if not all(isinstance(token, str) for token in tokens):
            raise UserError(f"{folder.path / file}: a token in it is no text; get it again")
        return tokens
    file = f"{name}_vocabulary.txt"
    if not folder.has(file):
        return []
    try:
        return folder.read(file, MOST_BYTES).decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{folder.path / file} is not UTF-8 ({error.reason}); get it again") from None


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
