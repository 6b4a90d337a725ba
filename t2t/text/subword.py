r"""Pieces of words in Tensor2Tensor's `.subwords` format, with the ids of its `SubwordTextEncoder`.

    encoder = SubwordEncoder.load("vocab.translate_ende_wmt8k.8192.subwords")
    encoder.encode("Hello world.")

A text becomes tokens, each spelt so that only its last character is `_` (`t2t.text.subword_build`), and each spelling
is cut greedily from left to right, the longest piece first. How pieces are learnt: `t2t.text.subword_build`.

`decode(encode(text)) == text` for every valid Unicode text, white space of any kind included.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from t2t.errors import UserError
from t2t.registry import register_vocabulary
from t2t.text.encoder import TextEncoder, lines_of_file
from t2t.text.subword_build import (
    ESCAPE_CHARACTERS,
    RESERVED,
    Spelling,
    certain_spelling,
    detokenize,
    learn_pieces,
    tokenize,
    unspell,
)
from t2t.text.words import WordCache

logger = logging.getLogger("t2t")

_RESERVED_FORMS = (("<pad>_", "<pad>", ""), ("<EOS>_", "<EOS>", ""))
"""How files of Tensor2Tensor's versions name ids 0 and 1."""
_CACHED_TOKENS = 1 << 18
_CACHED_LENGTH = 64
"""Longer tokens seldom recur."""
_LEARNT_LENGTH = 1000
"""Characters of a token that pieces are learnt from; longer ones are not words, and would take hours to count."""


@register_vocabulary
class SubwordEncoder(TextEncoder):
    """Tensor2Tensor's subword vocabulary: ids 0 padding, 1 end of sequence, then pieces; no unknown id.

    Every text can be encoded: a character outside the alphabet is spelt by its number. If two ids have the same piece,
    the later one is used, and an empty piece is never used, as in the original.

    Args:
        pieces: by id; the first two are the reserved ones.
        cached_tokens: most tokens whose ids are cached.

    Raises:
        UserError: ids 0 and 1 are other pieces, or a character that escapes are written with is no piece.
    """

    kind = "subword"
    file_suffix = ".subwords"

    def __init__(self, pieces: Sequence[str], cached_tokens: int = _CACHED_TOKENS):
        self._pieces = tuple(pieces)
        _check_reserved(self._pieces)
        self._ids = {piece: token_id for token_id, piece in enumerate(self._pieces) if piece}
        missing = sorted(ESCAPE_CHARACTERS - self._ids.keys())
        if missing:
            raise UserError(
                f"subword vocabulary: {' '.join(missing)} must be pieces, so that any text can be written, and are not",
                "give a file that Tensor2Tensor or t2t-datagen built",
            )
        self._longest = max(map(len, self._ids))
        self._spelling = Spelling({character for piece in self._pieces for character in piece} | ESCAPE_CHARACTERS)
        self._cache = WordCache(self._segment, cached_tokens, _CACHED_LENGTH)

    @property
    def vocab_size(self) -> int:
        """Number of pieces, the reserved ones included."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a valid Unicode text."""
        return [token_id for token in tokenize(text) for token_id in self._cache[token]]

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the text; escapes that stand for no character become U+3013, since a model may write anything."""
        return self._text_of("".join(self._pieces[token_id] for token_id in ids))

    def _certain_text(self, ids: list[int]) -> str:
        return self._text_of(certain_spelling("".join(self._pieces[token_id] for token_id in ids)))

    def _text_of(self, spelt: str) -> str:
        return detokenize(filter(None, map(unspell, spelt.split("_"))))

    def piece(self, token_id: int) -> str:
        r"""Returns the piece as the file has it: `_` ends a token, `\u` is an underscore."""
        return self._pieces[token_id]

    def to_bytes(self) -> bytes:
        """Returns the file: UTF-8, one piece per line in single quotes; line numbers, from 0, are the ids."""
        return "".join(f"'{piece}'\n" for piece in self._pieces).encode("utf-8")

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads a file of Tensor2Tensor or of `to_bytes`: pieces in single or double quotes, or without quotes.

        White space around a piece without quotes is lost, as in the original.
        """
        lines = lines_of_file(content, "subword vocabulary", "give a text file of one piece a line")
        return cls([_unquoted(line.strip()) for line in lines])

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Learns about `size` pieces by Tensor2Tensor's algorithm and logs their number."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(token[:_LEARNT_LENGTH] for token in tokenize(line))
        if not counts:
            raise UserError("subword vocabulary: the training text is empty", "check the corpus")
        learnt = learn_pieces(counts, size)
        encoder = cls([*RESERVED, *learnt.pieces])
        near = abs(encoder.vocab_size - size) * 10 < size
        logger.log(
            logging.INFO if near else logging.WARNING,
            "subword vocabulary of %s pieces for %s asked: pieces seen %s times or more, and %s characters%s",
            f"{encoder.vocab_size:,}", f"{size:,}", f"{learnt.min_count:,}", f"{learnt.alphabet_size:,}",
            "" if near else "; the search found no nearer size",
        )  # fmt: skip
        return encoder

    def _segment(self, token: str) -> list[int]:
        """Returns the ids of one token.

        In a file without quotes, a character may be part of pieces without being a piece. If a token then cannot be
        cut, which is an error in the original, that character is spelt by its number.
        """
        spelling = self._spelling
        while True:
            spelt = spelling.spell(token)
            ids, stuck = self._cut(spelt)
            if not stuck:
                return ids
            spelling = Spelling(chr(code) for code in spelling.keys() - {ord(stuck)})

    def _cut(self, spelt: str) -> tuple[list[int], str]:
        """Returns the ids of the longest pieces from left to right, and the character at which none fits, if any."""
        ids = []
        start = 0
        while start < len(spelt):
            for end in range(min(len(spelt), start + self._longest), start, -1):
                token_id = self._ids.get(spelt[start:end])
                if token_id is not None:
                    ids.append(token_id)
                    start = end
                    break
            else:
                return [], spelt[start]
        return ids, ""

    def __getstate__(self) -> tuple[str, ...]:
        return self._pieces

    def __setstate__(self, pieces: tuple[str, ...]) -> None:
        SubwordEncoder.__init__(self, pieces)


def _check_reserved(pieces: tuple[str, ...]) -> None:
    found = pieces[:2]
    if len(found) < 2 or any(piece not in forms for piece, forms in zip(found, _RESERVED_FORMS, strict=True)):
        raise UserError(
            f"subword vocabulary: the file starts with {' '.join(found)[:60]!r}; its first two lines must be '<pad>_' "
            "and '<EOS>_', as Tensor2Tensor writes them",
            "give a file that Tensor2Tensor or t2t-datagen built",
        )


def _unquoted(line: str) -> str:
    quoted = any(line.startswith(quote) and line.endswith(quote) for quote in "'\"")
    return line[1:-1] if quoted else line
