"""Byte-pair encoding with the codes and the dictionary of another toolkit: subword-nmt's pieces, `in@@ side`.

The codes are a list of merges, as in the files of subword-nmt and fastBPE. Sennrich et al. 2016, *Neural Machine
Translation of Rare Words with Subword Units* (arXiv:1508.07909), section 3.2: a word begins as its characters, the last
of which is marked as the end of a word. The pair of neighbours that comes first on the list is joined everywhere in the
word, until no pair is on the list.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

import numpy as np

from t2t.errors import UserError, one_line
from t2t.specs.constants import UNK_ID
from t2t.text.encoder import lines_of_file
from t2t.text.listed_pieces import ListedPieces
from t2t.text.white_space import split_words
from t2t.text.word_ids import WordIds

END = "</w>"
"""Marks the end of a word in a list of merges."""

_HEADER = "#version:"
_CURE = "get the codes again"


class BpeCodes:
    """Cuts words by a list of merges.

    Args:
        content: of a file of codes: one pair per line, in the order of merging. If a file of subword-nmt does not begin
            with `#version: 0.2`, the mark of a word's end is a separate piece. Lines of fastBPE end with a count.

    Raises:
        UserError: the file is not UTF-8, or a line is no pair.
    """

    def __init__(self, content: bytes):
        lines = lines_of_file(content.replace(b"\r\n", b"\n").rstrip(b"\n"), "BPE codes", _CURE)
        version = lines.pop(0).removeprefix(_HEADER).strip() if lines[0].startswith(_HEADER) else "0.1"
        pairs = [tuple(line.strip(" ").split(" ")) for line in lines if line]
        if version == "0.1" and pairs and all(len(pair) == 3 and pair[2].isdecimal() for pair in pairs):
            version, pairs = "0.2", [pair[:2] for pair in pairs]
        if version not in ("0.1", "0.2") or not pairs:
            raise UserError(
                f"BPE codes: version {version}, {len(pairs)} lines; files of versions 0.1 and 0.2 can be read; {_CURE}"
            )
        if wrong := [pair for pair in pairs if len(pair) != 2]:
            raise UserError(f"BPE codes: {' '.join(wrong[0])[:60]!r} is no pair of pieces; {_CURE}")
        self._marks_apart = version == "0.1"
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(pairs)))}

    def cut(self, word: str) -> list[str]:
        """Returns the pieces of a word of one character or more; joined, they are the word."""
        pieces = [*word, END] if self._marks_apart else [*word[:-1], word[-1] + END]
        while len(pieces) > 1:
            best = min(pairwise(pieces), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            pieces = _join(pieces, best)
        if pieces[-1] == END:
            return pieces[:-1]
        return [*pieces[:-1], pieces[-1].removesuffix(END)]


def _join(pieces: list[str], pair: tuple[str, ...]) -> list[str]:
    """Returns the pieces with all of one pair joined, from the left."""
    joined: list[str] = []
    place = 0
    while place < len(pieces):
        is_pair = tuple(pieces[place : place + 2]) == pair
        joined.append("".join(pair) if is_pair else pieces[place])
        place += 2 if is_pair else 1
    return joined


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
