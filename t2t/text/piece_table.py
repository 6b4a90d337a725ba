"""Pieces of a SentencePiece model under the ids of another table: the vocabularies of imported translators.

Marian's translators have a SentencePiece model for each language and one table of ids for the pieces of both. Tags such
as `>>de<<` at the beginning of a text, which name a language, are pieces of the table that no model has.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Self

import sentencepiece

from t2t.errors import UserError, one_line
from t2t.specs.constants import EOS_ID, PAD_ID, UNK_ID
from t2t.text.encoder import TextEncoder, fingerprint_of
from t2t.text.sentencepiece import PIECE_MARKER

HEADER = b'{"pieces": ['
"""What a file of `to_bytes` begins with."""

_TAG = re.compile(r">>.*?<<", re.DOTALL)
_RESERVED = (PAD_ID, EOS_ID, UNK_ID)


class PieceTableEncoder(TextEncoder):
    """A SentencePiece model that cuts texts, and the table that gives each piece its id.

    Ids are 0 padding, 1 end of sequence, 2 unknown, then the other pieces. What the table lacks becomes unknown, which
    is written as SentencePiece writes it, U+2047. The model may normalise text and change white space.

    Args:
        model: a SentencePiece model file's content, with any ids of its own.
        pieces: by id, those of padding, end of sequence and unknown first.

    Raises:
        UserError: the model is damaged, or a piece is listed twice.
    """

    kind = "piece_table"
    file_suffix = ".pieces"
    lossless = False
    unknown_id = UNK_ID

    def __init__(self, model: bytes, pieces: Sequence[str]):
        self._model, self._pieces = bytes(model), tuple(pieces)
        self._ids = {piece: token_id for token_id, piece in enumerate(self._pieces)}
        if len(self._ids) < len(self._pieces) or len(self._pieces) <= len(_RESERVED):
            raise UserError(
                f"piece table: it has {len(self._pieces)} pieces, {len(self._ids)} of them different; each has one id, "
                f"and three are reserved"
            )
        for token_id in _RESERVED:  # no text may spell them
            del self._ids[self._pieces[token_id]]
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.load_from_serialized_proto(self._model or b"empty")
        except RuntimeError as error:
            raise UserError(
                f"piece table: its SentencePiece model of {len(model):,} bytes is damaged ({one_line(error)}); get it "
                f"again"
            ) from None

    @property
    def vocab_size(self) -> int:
        """Number of pieces of the table."""
        return len(self._pieces)

    @property
    def ids_fingerprint(self) -> str:
        """That of the table alone, which several models may share."""
        return fingerprint_of(self.kind, json.dumps(self._pieces).encode())

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a tag, if the text begins with one, and of the pieces of the rest."""
        tag = _TAG.match(text)
        pieces = self._processor.encode(text[tag.end() :] if tag else text, out_type=str)
        return [self._ids.get(piece, UNK_ID) for piece in ([tag[0], *pieces] if tag else pieces)]

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the text of the pieces; white space at both ends is none of it."""
        unknown = self._processor.id_to_piece(self._processor.unk_id())
        pieces = [unknown if token_id == UNK_ID else self._pieces[token_id] for token_id in ids]
        text: str = self._processor.decode_pieces(pieces)
        return text.replace(PIECE_MARKER, " ").strip()

    def piece(self, token_id: int) -> str:
        """Returns the piece, with U+2581 for a space."""
        return self._pieces[token_id]

    def to_bytes(self) -> bytes:
        """Returns the table as a line of JSON, and the model."""
        return json.dumps({"pieces": self._pieces}).encode() + b"\n" + self._model

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote."""
        header, _, model = content.partition(b"\n")
        try:
            pieces = json.loads(header)["pieces"]
            if not all(isinstance(piece, str) for piece in pieces):
                raise ValueError("a piece is no text")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"piece table: the file's table is damaged ({one_line(error)}); get it again") from None
        return cls(model, pieces)

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Raises UserError: such vocabularies come with imported models, and none is learnt."""
        raise UserError("piece table: none is learnt from text; it comes with an imported model")
