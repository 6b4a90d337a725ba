"""Vocabularies that come with imported models: the list of their pieces is another toolkit's.

`piece_table`: pieces of a SentencePiece model with ids from a separate table. Marian's translators have a SentencePiece
model for each language and one table of ids for the pieces of both. Tags such as `>>de<<` at the beginning of a text,
which name a language, are pieces of the table that no model has. So are T5's sentinels, `<extra_id_0>` and so on, which
may be anywhere in a text. Language codes such as `deu_Latn` are pieces of the table that no text spells.

`bpe`: byte-pair encoding with the codes and the dictionary of another toolkit: subword-nmt's pieces, `in@@ side`. The
codes are a list of merges, as in the files of subword-nmt and fastBPE. Sennrich et al. 2016, *Neural Machine
Translation of Rare Words with Subword Units* (arXiv:1508.07909), section 3.2: a word begins as its characters, the last
of which is marked as the end of a word. The pair of neighbours that comes first on the list is joined everywhere in the
word, until no pair is on the list.
"""

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from t2t.errors import UserError, one_line
from t2t.registry import register_vocabulary
from t2t.specs import EOS_ID, PAD_ID, UNK_ID
from t2t.text.encoder import LanguageCodes, TextEncoder, fingerprint_of, lines_of_file
from t2t.text.sentencepiece import PIECE_MARKER, load_processor
from t2t.text.words import WordIds, split_words

RESERVED = (PAD_ID, EOS_ID, UNK_ID)
_MODEL, _CURE = "piece table: its SentencePiece model", "get it again"


class ListedPieces(TextEncoder):
    """A list that gives each piece its id: 0 padding, 1 end of sequence, 2 unknown, then the other pieces.

    Args:
        pieces: by id, those of padding, end of sequence and unknown first.

    Raises:
        UserError: a piece is listed twice, or there are none but these three.
    """

    is_learned = False
    lossless = False
    unknown_id = UNK_ID
    described: ClassVar[str] = ""
    """Name of the vocabulary in messages."""

    def __init__(self, pieces: Sequence[str]):
        self._pieces = tuple(pieces)
        self._ids = {piece: token_id for token_id, piece in enumerate(self._pieces)}
        if len(self._ids) < len(self._pieces) or len(self._pieces) <= len(RESERVED):
            raise UserError(
                f"{self.described}: it has {len(self._pieces)} pieces, {len(self._ids)} of them different",
                "each has one id, and three are reserved",
            )
        for token_id in RESERVED:  # no text may spell them
            del self._ids[self._pieces[token_id]]

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    @property
    def ids_fingerprint(self) -> str:
        """Fingerprint of the list alone, which several models or codes may share."""
        return fingerprint_of(self.kind, json.dumps(self._pieces).encode())

    def piece(self, token_id: int) -> str:
        """Returns the piece, as it is listed."""
        return self._pieces[token_id]

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Raises UserError: such vocabularies come with imported models and cannot be learnt."""
        raise UserError(f"{cls.described}: none is learnt from text", "it comes with an imported model")

    @classmethod
    @contextlib.contextmanager
    def _reading(cls, header: bytes, pieces: str) -> Iterator[dict[str, Any]]:
        """Yields the object in the first line of a file; raises UserError if it is not as `to_bytes` writes it."""
        try:
            table = json.loads(header)
            if not all(isinstance(piece, str) for piece in table[pieces]):
                raise ValueError("a piece is not text")
            yield table
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{cls.described}: the file's list is damaged ({one_line(error)})", _CURE) from None


HEADER = b'{"pieces": ['
"""What a file of `to_bytes` begins with."""

TAG = re.compile(r">>.*?<<", re.DOTALL)
SENTINEL = re.compile(r"<extra_id_\d+>")


@register_vocabulary
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
                f"{len(self._pieces) - 1}",
                _CURE,
            )
        for token_id in self.codes:  # no text may spell them
            del self._ids[self._pieces[token_id]]
        self._processor = load_processor(self.model, _MODEL, _CURE)

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
        found = [match for match in SENTINEL.finditer(text) if match[0] in self._ids]
        for end, after in [*(match.span() for match in found), (len(text), len(text))]:
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
        with cls._reading(header, "pieces") as table:
            pieces, sentinels = table["pieces"], bool(table.get("sentinels", False))
            tags = bool(table.get("tags", True))
            languages = LanguageCodes(**table["languages"]) if "languages" in table else None
            if languages and not all(type(code) is int for code in languages.ids.values()):
                raise ValueError("a language has no id")
        return cls(model, pieces, sentinels, tags, languages)


def pieces_of_model(model: bytes) -> tuple[list[str], tuple[int, int, int]]:
    """Returns the pieces of a SentencePiece model by its ids, and which are padding, end of sequence and unknown.

    Raises:
        UserError: the model is damaged.
    """
    processor = load_processor(model, _MODEL, _CURE)
    pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    return pieces, (processor.pad_id(), processor.eos_id(), processor.unk_id())


END = "</w>"
"""Marks the end of a word in a list of merges."""

_HEADER = "#version:"


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
        version = lines.pop(0).removeprefix(_HEADER).strip() if lines and lines[0].startswith(_HEADER) else "0.1"
        pairs = [tuple(line.strip(" ").split(" ")) for line in lines if line]
        if version == "0.1" and pairs and all(len(pair) == 3 and pair[2].isdecimal() for pair in pairs):
            version, pairs = "0.2", [pair[:2] for pair in pairs]
        if version not in ("0.1", "0.2") or not pairs:
            raise UserError(
                f"BPE codes: version {version}, {len(pairs)} lines; files of versions 0.1 and 0.2 can be read", _CURE
            )
        if wrong := [pair for pair in pairs if len(pair) != 2]:
            raise UserError(f"BPE codes: {' '.join(wrong[0])[:60]!r} is not a pair of pieces", _CURE)
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
    index = 0
    while index < len(pieces):
        is_pair = tuple(pieces[index : index + 2]) == pair
        joined.append("".join(pair) if is_pair else pieces[index])
        index += 2 if is_pair else 1
    return joined


BPE_HEADER = b'{"bpe_pieces": ['
"""What a file of `to_bytes` begins with."""


@register_vocabulary
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
        with cls._reading(header, "bpe_pieces") as table:
            pieces, separator = table["bpe_pieces"], table["separator"]
            if not isinstance(separator, str):
                raise ValueError("the separator is not text")
        return cls(codes, pieces, separator)
