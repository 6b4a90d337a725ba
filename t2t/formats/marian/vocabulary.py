"""Reads Marian's vocabularies: a SentencePiece model, or words with ids in YAML and a file for splitting texts.

Marian has no padding; it is added as a separate id, unless the vocabulary has a word `<pad>`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t2t.errors import UserError, one_line
from t2t.formats.ids import in_our_order, our_order
from t2t.formats.marian.files import ModelFiles
from t2t.formats.marian.yaml import parse_vocabulary
from t2t.text.bpe import BpeEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.piece_table import PieceTableEncoder, pieces_of_model
from t2t.text.token import TokenEncoder

PAD = "<pad>"
_NEMATUS = ("eos", "UNK")
"""Possible names of ids 0 and 1 in older vocabularies."""
_ENDS = ("</s>", "<unk>")


@dataclass(frozen=True)
class MarianVocabulary:
    """One side's vocabulary."""

    encoder: TextEncoder
    order: np.ndarray
    """Marian's id of each of our ids; for added padding, the number of Marian's ids."""
    described: str
    """Description for the report."""


def read_vocabulary(files: ModelFiles, name: str, side: str, rows: int) -> MarianVocabulary:
    """Reads the vocabulary of a side, `source` or `target`, for a table of `rows` rows.

    Raises:
        UserError: it is damaged, of an unsupported kind, or has more words than the table has rows.
    """
    if name.endswith((".fsv", ".fm")):
        raise UserError(f"{files.folder / name}: it is a factored vocabulary; the models here have one id a word")
    if name.endswith(".spm"):
        model = files.read(name)
        pieces, (pad, eos, unknown) = pieces_of_model(model)
        pieces, order = _ordered(files, name, pieces, rows, (pad, eos, unknown))
        return MarianVocabulary(PieceTableEncoder(model, pieces, tags=False), order, f"the SentencePiece model {name}")
    pieces = _pieces_of_yaml(files, name)
    pieces, order = _ordered(files, name, pieces, rows, _special_ids(files, name, pieces))
    if files.has(cutter := f"{side}.spm"):
        has_tags = any(piece.startswith(">>") and piece.endswith("<<") for piece in pieces)
        encoder: TextEncoder = PieceTableEncoder(files.read(cutter), pieces, tags=has_tags)
        return MarianVocabulary(encoder, order, f"{name}, cut by {cutter}")
    if files.has(cutter := f"{side}.bpe"):
        return MarianVocabulary(BpeEncoder(files.read(cutter), pieces), order, f"{name}, cut by {cutter}")
    return MarianVocabulary(TokenEncoder(pieces[3:]), order, f"the words of {name}, as they stand")


def _pieces_of_yaml(files: ModelFiles, name: str) -> list[str]:
    """Returns the words by id; an id without a word is named by its number."""
    try:
        ids = parse_vocabulary(files.read_text(name))
    except (ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{files.folder / name}: {one_line(error)}; get it again") from error
    if len(set(ids.values())) < len(ids) or max(ids.values(), default=0) > 2 * len(ids):
        raise UserError(f"{files.folder / name}: its {len(ids)} words do not have an id each; get it again")
    pieces = _names(max(ids.values(), default=-1) + 1)
    for word, number in ids.items():
        pieces[number] = word
    return pieces


def _special_ids(files: ModelFiles, name: str, pieces: Sequence[str]) -> tuple[int, int, int]:
    """Returns the ids of padding (-1 if missing), end of sequence and unknown."""
    ids = [pieces.index(PAD) if PAD in pieces else -1]
    for number, (old, end) in enumerate(zip(_NEMATUS, _ENDS, strict=True)):
        if pieces[number : number + 1] in ([old], [_name(number)]):
            ids.append(number)
        elif end in pieces:
            ids.append(pieces.index(end))
        else:
            raise UserError(f"{files.folder / name} has no {end}; get it again")
    return ids[0], ids[1], ids[2]


def _ordered(
    files: ModelFiles, name: str, pieces: Sequence[str], rows: int, special: tuple[int, int, int]
) -> tuple[list[str], np.ndarray]:
    """Returns the pieces by our ids, and Marian's id of each; rows without a word get a made-up name."""
    if len(pieces) > rows:
        raise UserError(f"{files.folder / name} has {len(pieces)} words, the table {rows} rows; give one model's files")
    pad, eos, unknown = special
    named = [*pieces, *_names(rows)[len(pieces) :]]
    if pad < 0:
        pad, named = rows, [*named, PAD]
    order = our_order(len(named), pad, eos, unknown)
    ordered = in_our_order(named, order)
    return [PAD, *_ENDS, *ordered[3:]], order


def _names(count: int) -> list[str]:
    return [_name(number) for number in range(count)]


def _name(number: int) -> str:
    return f"<id_{number}>"
