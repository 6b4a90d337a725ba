"""Byte-pair encoding with the codes and the dictionary of another toolkit: subword-nmt's pieces, `in@@ side`."""

import json
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from t2t.errors import UserError, one_line
from t2t.specs.constants import UNK_ID
from t2t.text.bpe_codes import BpeCodes
from t2t.text.listed_pieces import ListedPieces
from t2t.text.white_space import split_words
from t2t.text.word_ids import WordIds

BPE_HEADER = b'{"bpe_pieces": ['
"""What a file of `to_bytes` begins with."""


class BpeEncoder(ListedPieces):
    """Codes that cut words into pieces, and a list that gives each piece its id.

    Ids are 0 padding, 1 end of sequence, 2 unknown, then the other pieces. All pieces of a word but its last end with
    the separator. A decoded text has single spaces between its words; pieces that the list lacks are unknown.

    Args:
        codes: content of a file of codes, see `BpeCodes`.
        pieces: by id, those of padding, end of sequence and unknown first.
        separator: end of all pieces but the last of a word.

    Raises:
        UserError: the codes are damaged, or a piece is listed twice.
    """

    kind = "bpe"
    file_suffix = ".bpe"
    described = "BPE vocabulary"

    def __init__(self, codes: bytes, pieces: Sequence[str], separator: str = "@@"):
        super().__init__(pieces)
        self._codes, self._separator = bytes(codes), separator
        self._cutter = BpeCodes(self._codes)
        self._word_ids = WordIds(self._ids_of_word)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a text's words; U+00A0 is part of a word, as for subword-nmt."""
        words = split_words(text)
        found: list[int] = np.frombuffer(b"".join(map(self._word_ids.__getitem__, words)), np.int32).tolist()
        return found

    def _ids_of_word(self, word: str) -> list[int]:
        *first, last = self._cutter.cut(word)
        return [self._ids.get(piece, UNK_ID) for piece in [*(piece + self._separator for piece in first), last]]

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the words of the pieces; an incomplete last word is returned as far as it goes."""
        return "".join(f"{self._pieces[token_id]} " for token_id in ids).replace(f"{self._separator} ", "").rstrip()

    def to_bytes(self) -> bytes:
        """Returns the list as a line of JSON, and the codes."""
        header = {"bpe_pieces": self._pieces, "separator": self._separator}
        return json.dumps(header).encode() + b"\n" + self._codes

    @property
    def codes(self) -> bytes:
        """Content of the file of codes."""
        return self._codes

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote."""
        header, _, codes = content.partition(b"\n")
        try:
            table = json.loads(header)
            pieces, separator = table["bpe_pieces"], table["separator"]
            if not all(isinstance(piece, str) for piece in (*pieces, separator)):
                raise ValueError("a piece is no text")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"BPE vocabulary: the file's list is damaged ({one_line(error)}); get it again") from None
        return cls(codes, pieces, separator)

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Raises UserError: such vocabularies come with imported models and cannot be learnt."""
        raise UserError("BPE vocabulary: none is learnt from text; it comes with an imported model")
