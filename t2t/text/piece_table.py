"""Pieces of a SentencePiece model with ids from a separate table: the vocabularies of imported translators.

Marian's translators have a SentencePiece model for each language and one table of ids for the pieces of both. Tags such
as `>>de<<` at the beginning of a text, which name a language, are pieces of the table that no model has. So are T5's
sentinels, `<extra_id_0>` and so on, which may be anywhere in a text. Language codes such as `deu_Latn` are pieces of
the table that no text spells.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import sentencepiece

from t2t.errors import UserError, one_line
from t2t.specs.constants import UNK_ID
from t2t.text.language_codes import LanguageCodes
from t2t.text.listed_pieces import RESERVED, ListedPieces
from t2t.text.sentencepiece import PIECE_MARKER

HEADER = b'{"pieces": ['
"""What a file of `to_bytes` begins with."""

TAG = re.compile(r">>.*?<<", re.DOTALL)
SENTINEL = re.compile(r"<extra_id_\d+>")


class PieceTableEncoder(ListedPieces):
    """A SentencePiece model that cuts texts into pieces, and a table that gives each piece its id.

    Ids are 0 padding, 1 end of sequence, 2 unknown, then the other pieces. Pieces that the table lacks become unknown,
    which is decoded as in SentencePiece, to U+2047. The model may normalise text and change white space.

    Args:
        model: content of a SentencePiece model file, whose ids are ignored.
        pieces: by id, those of padding, end of sequence and unknown first.
        sentinels: whether texts may hold the sentinels of the table, as T5's.
        tags: whether they may begin with a tag instead, as those of Marian's translators.
        languages: the codes that are put around texts; such texts begin with no tags.

    Raises:
        UserError: the model is damaged, a piece is listed twice, or a code is not the id of a piece.
    """

    kind = "piece_table"
    file_suffix = ".pieces"
    described = "piece table"

    def __init__(
        self,
        model: bytes,
        pieces: Sequence[str],
        sentinels: bool = False,
        tags: bool = True,
        languages: LanguageCodes | None = None,
    ):
        super().__init__(pieces)
        self.model, self.has_sentinels, self.has_tags = bytes(model), sentinels, tags and not languages
        self.languages, self.codes = languages, frozenset(languages.ids.values() if languages else ())
        if wrong := [code for code in self.codes if not len(RESERVED) <= code < len(self._pieces)]:
            raise UserError(
                f"piece table: a language has id {min(wrong)}, and pieces have ids {len(RESERVED)} to "
                f"{len(self._pieces) - 1}"
            )
        for token_id in self.codes:  # no text may spell them
            del self._ids[self._pieces[token_id]]
        self._processor = _load(self.model)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the tag or the sentinels of a text, and of the pieces of the rest."""
        if self.has_sentinels:
            return self._encode_with_sentinels(text)
        tag = TAG.match(text) if self.has_tags else None
        pieces = self._processor.encode(text[tag.end() :] if tag else text, out_type=str)
        return [self._ids.get(piece, UNK_ID) for piece in ([tag[0], *pieces] if tag else pieces)]

    def _encode_with_sentinels(self, text: str) -> list[int]:
        """Returns the ids of the sentinels of a text and of the parts between them, which are encoded separately."""
        ids, start = [], 0
        found = [place for place in SENTINEL.finditer(text) if place[0] in self._ids]
        for end, after in [*(place.span() for place in found), (len(text), len(text))]:
            pieces = self._processor.encode(text[start:end], out_type=str)
            ids += [self._ids.get(piece, UNK_ID) for piece in pieces]
            ids += [self._ids[text[end:after]]] if after > end else []
            start = after
        return ids

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the text of the pieces without language codes, and without white space at both ends."""
        spoken = [token_id for token_id in ids if token_id not in self.codes]
        pieces = [self.unknown_piece if token_id == UNK_ID else self._pieces[token_id] for token_id in spoken]
        text: str = self._processor.decode_pieces(pieces)
        return text.replace(PIECE_MARKER, " ").strip()

    @property
    def unknown_piece(self) -> str:
        """The model's own unknown piece, by which the unknown id is decoded."""
        return self._processor.id_to_piece(self._processor.unk_id())

    def to_bytes(self) -> bytes:
        """Returns the table as a line of JSON, and the model."""
        header: dict[str, Any] = {"pieces": self._pieces, "sentinels": self.has_sentinels}
        if self.languages:  # only then, so that the content without them is as before
            header["languages"] = dataclasses.asdict(self.languages)
        elif not self.has_tags:
            header["tags"] = False
        return json.dumps(header).encode() + b"\n" + self.model

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote."""
        header, _, model = content.partition(b"\n")
        try:
            table = json.loads(header)
            pieces, sentinels = table["pieces"], bool(table.get("sentinels", False))
            tags = bool(table.get("tags", True))
            if not all(isinstance(piece, str) for piece in pieces):
                raise ValueError("a piece is no text")
            languages = LanguageCodes(**table["languages"]) if "languages" in table else None
            if languages and not all(type(code) is int for code in languages.ids.values()):
                raise ValueError("a language has no id")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"piece table: the file's table is damaged ({one_line(error)}); get it again") from None
        return cls(model, pieces, sentinels, tags, languages)

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Raises UserError: such vocabularies come with imported models and cannot be learnt."""
        raise UserError("piece table: none is learnt from text; it comes with an imported model")


def pieces_of_model(model: bytes) -> tuple[list[str], tuple[int, int, int]]:
    """Returns the pieces of a SentencePiece model by its ids, and which are padding, end of sequence and unknown.

    Raises:
        UserError: the model is damaged.
    """
    processor = _load(model)
    pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    return pieces, (processor.pad_id(), processor.eos_id(), processor.unk_id())


def _load(model: bytes) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model or b"empty")
    except RuntimeError as error:
        raise UserError(
            f"piece table: its SentencePiece model of {len(model):,} bytes is damaged ({one_line(error)}); get it again"
        ) from None
    return processor
