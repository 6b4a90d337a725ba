r"""Reads the vocabularies of an export: texts to ids and back, as the run does.

    encoder = read_vocabulary(folder / "vocab.inputs.bpe.bpe")
    encoder.decode(encoder.encode("a text"))

It needs nothing but sentencepiece, for the pieces of SentencePiece. Exports contain this file under the same name.
"""

import functools
import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

UNKNOWN = 2
"""Id of unknown words and pieces."""


class Words:
    """Words by id, one a line."""

    def __init__(self, content: bytes, unspelled: Iterable[int]):
        self._words = content.decode().removesuffix("\n").split("\n")
        self._ids = {word: number for number, word in enumerate(self._words[UNKNOWN + 1 :], start=UNKNOWN + 1)}
        self._ids = {word: number for word, number in self._ids.items() if number not in unspelled}

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the words of a text."""
        return [self._ids.get(word, UNKNOWN) for word in text.split()]

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids."""
        return " ".join(self._words[number] for number in ids)


class Bytes:
    """The bytes of UTF-8, behind padding and end of sequence."""

    def __init__(self, content: bytes, unspelled: Iterable[int]):
        pass

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the bytes of a text."""
        return [2 + byte for byte in text.encode()]

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids."""
        return bytes(number - 2 for number in ids).decode(errors="replace")


class Pieces:
    """The pieces of a SentencePiece model, in which U+2581 stands for a space, and U+241B escapes that character."""

    def __init__(self, content: bytes, unspelled: Iterable[int]):
        self._model = open_sentencepiece(content)
        self._spelled = {number: self._spell(self._model.id_to_piece(number)) for number in unspelled}

    def _spell(self, piece: str) -> list[int]:
        ids = list[int]()
        for character in piece:
            is_known = self._model.piece_to_id(character) != UNKNOWN
            parts = [character] if is_known else [f"<0x{byte:02X}>" for byte in character.encode()]
            ids += map(self._model.piece_to_id, parts)
        return ids

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a text."""
        ids = self._model.encode(text.replace("\u241b", "\u241b0").replace("\u2581", "\u241b1"))
        return [one for number in ids for one in self._spelled.get(number, [number])]

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids."""
        return self._model.decode(ids).replace("\u241b1", "\u2581").replace("\u241b0", "\u241b")


class PieceTable:
    """A table of ids for the pieces of a SentencePiece model, and for tags, sentinels and language codes."""

    def __init__(self, content: bytes, unspelled: Iterable[int]):
        header, _, model = content.partition(b"\n")
        table = json.loads(header)
        self._model, self._pieces = open_sentencepiece(model), table["pieces"]
        languages = table.get("languages") or {"ids": {}}
        self._codes = set(languages["ids"].values())
        self._ids = {piece: n for n, piece in enumerate(self._pieces) if n not in {0, 1, *self._codes, *unspelled}}
        marks = [re.escape(piece) for piece in self._ids if re.fullmatch(r"<extra_id_\d+>", piece)]
        has_tags = table.get("tags", True) and "languages" not in table
        pattern = "|".join(marks) if table["sentinels"] else r"\A>>.*?<<" if has_tags else ""
        self._marks = re.compile(f"({pattern})" if pattern else "(?!)", re.DOTALL)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a text, and of its tag or sentinels."""
        parts = self._marks.split(text)
        pieces = [[part] if at % 2 else self._model.encode(part, out_type=str) for at, part in enumerate(parts)]
        return [self._ids.get(piece, UNKNOWN) for part in pieces for piece in part]

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids, without language codes."""
        unknown = self._model.id_to_piece(self._model.unk_id())
        pieces = [unknown if n == UNKNOWN else self._pieces[n] for n in ids if n not in self._codes]
        return self._model.decode_pieces(pieces).replace("\u2581", " ").strip()


class WordList(Words):
    """Words by id, one a line, of which one may be that of unknown words."""

    def __init__(self, content: bytes, unspelled: Iterable[int]):
        self._words = [line.strip() for line in content.decode().removesuffix("\n").split("\n")]
        ids = {word: number for number, word in enumerate(self._words) if number > 1}
        self._unknown = next((ids[word] for word in ("UNK", "<UNK>", "<unk>") if word in ids), None)
        self._ids = {word: number for word, number in ids.items() if number not in unspelled}

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the words of a text; raises ValueError for one that the list lacks, if it has no UNK."""
        ids = [self._ids.get(word, self._unknown) for word in text.split()]
        if None in ids:
            raise ValueError(f"{text.split()[ids.index(None)]!r} is not in the vocabulary, and UNK is not either")
        return [number for number in ids if number is not None]


class Subwords:
    r"""Pieces of Tensor2Tensor's `.subwords`.

    Runs of letters and digits, and of other characters, are cut greedily. `\\` is a backslash, `\u` an underscore,
    `\233;` the character of code 233, and `_` ends a run; a space between two runs is left out.
    """

    def __init__(self, content: bytes, unspelled: Iterable[int]):
        lines = [line.strip() for line in content.decode().removesuffix("\n").split("\n")]
        self._pieces = [line[1:-1] if line[:1] == line[-1:] and line[:1] in ("'", '"') else line for line in lines]
        ids = {piece: number for number, piece in enumerate(self._pieces) if piece}
        self._longest = max(map(len, ids))
        self._alphabet = frozenset("".join(self._pieces)) | set("\\_u;0123456789")
        self._ids = {piece: number for piece, number in ids.items() if number not in unspelled}
        self._ids_of = functools.lru_cache(1 << 16)(self._cut)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a text."""
        runs = re.findall(r"[^\W_]+|[\W_]+", text)
        kept = [run for at, run in enumerate(runs) if run != " " or at in (0, len(runs) - 1)]
        return [number for run in kept for number in self._ids_of(run)]

    def _cut(self, run: str, unusable: str = "") -> list[int]:
        """Returns the ids of the longest pieces from left to right; `unusable` characters are spelt by their codes."""
        plain = self._alphabet - {*unusable, "\n"}
        special = {"\\": "\\\\", "_": "\\u"}
        spelt = "".join(special.get(one) or (one if one in plain else f"\\{ord(one)};") for one in run) + "_"
        ids, at = list[int](), 0
        while at < len(spelt):
            ends = range(min(len(spelt), at + self._longest), at, -1)
            end = next((end for end in ends if spelt[at:end] in self._ids), None)
            if end is None:
                return self._cut(run, unusable + spelt[at])
            ids.append(self._ids[spelt[at:end]])
            at = end
        return ids

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids; U+3013 stands for escapes of no character."""
        spelt = "".join(self._pieces[number] for number in ids).split("_")
        runs = [re.sub(r"\\(u|\\|([0-9]+);)", self._character, run) for run in spelt if run]
        pairs = pairwise(["", *runs])
        return "".join(" " + run if before[:1].isalnum() and run[0].isalnum() else run for before, run in pairs)

    @staticmethod
    def _character(escape: re.Match[str]) -> str:
        if escape[2] is None:
            return "_" if escape[1] == "u" else "\\"
        digits = escape[2].lstrip("0") or "0"
        code = int(digits) if len(digits) < 8 else 0x110000
        return "\u3013" if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)


class Bpe:
    """A list of pieces, and merges of subword-nmt or fastBPE that cut words into them."""

    def __init__(self, content: bytes, unspelled: Iterable[int]):
        header, _, codes = content.partition(b"\n")
        table = json.loads(header)
        self._pieces, self._separator = table["bpe_pieces"], table["separator"]
        hidden = {0, 1, UNKNOWN, *unspelled}
        self._ids = {piece: number for number, piece in enumerate(self._pieces) if number not in hidden}
        lines = codes.replace(b"\r\n", b"\n").rstrip(b"\n").decode().split("\n")
        version = lines.pop(0).removeprefix("#version:").strip() if lines[0].startswith("#version:") else "0.1"
        pairs = [line.strip(" ").split(" ") for line in lines if line]
        has_counts = all(len(pair) == 3 and pair[2].isdecimal() for pair in pairs)
        self._marks_apart = version == "0.1" and not has_counts
        self._ranks = {tuple(pair[:2]): rank for rank, pair in reversed([*enumerate(pairs)])}
        self._ids_of = functools.lru_cache(1 << 16)(self._cut)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a text."""
        words = filter(None, re.split("[ \t\r\n\f\v\u3000]+", text))
        return [number for word in words for number in self._ids_of(word)]

    def _cut(self, word: str) -> list[int]:
        """Returns the ids of a word, whose first pair of neighbours on the list is joined as long as there is one."""
        pieces = [*word, "</w>"] if self._marks_apart else [*word[:-1], word[-1] + "</w>"]
        while ranked := [self._ranks[pair] for pair in pairwise(pieces) if pair in self._ranks]:
            best, joined, at = min(ranked), list[str](), 0
            while at < len(pieces):
                width = 1 + (self._ranks.get(tuple(pieces[at : at + 2])) == best)
                joined.append("".join(pieces[at : at + width]))
                at += width
            pieces = joined
        pieces = [*pieces[:-1], *filter(None, [pieces[-1].removesuffix("</w>")])]
        marked = [*(piece + self._separator for piece in pieces[:-1]), pieces[-1]]
        return [self._ids.get(piece, UNKNOWN) for piece in marked]

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids."""
        return "".join(f"{self._pieces[number]} " for number in ids).replace(f"{self._separator} ", "").rstrip()


def open_sentencepiece(model: bytes) -> Any:
    """Returns the `SentencePieceProcessor` of a model."""
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_proto=model)


VOCABULARIES = {
    "token": Words, "word_list": WordList, "byte": Bytes, "subword": Subwords, "bpe": Bpe, "sentencepiece": Pieces,
    "piece_table": PieceTable,
}  # fmt: skip
"""Kind of vocabulary -> class that reads it."""


def read_vocabulary(path: Path, unspelled: Sequence[int] = ()) -> Any:
    """Returns the vocabulary in a file, `vocab.<feature>.<kind>.<ending>`; no text has the ids `unspelled`."""
    return VOCABULARIES[path.name.split(".")[-2]](path.read_bytes(), frozenset(unspelled))
