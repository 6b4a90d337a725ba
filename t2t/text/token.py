"""Text as words separated by white space, for problems with few words: digits, trees, tokenised corpora."""

from collections import Counter
from collections.abc import Iterable
from typing import Self

from t2t.errors import UserError
from t2t.specs.constants import EOS_ID, PAD_ID, UNK_ID
from t2t.text.encoder import TextEncoder, lines_of_file

_RESERVED = ("<pad>", "</s>", "<unk>")


class WordEncoder(TextEncoder):
    """A vocabulary of words; a decoded text has single spaces between its words.

    Args:
        pieces: words by id, the reserved ones included.
    """

    lossless = False

    def __init__(self, pieces: Iterable[str]):
        self._pieces = tuple(pieces)

    @property
    def vocab_size(self) -> int:
        """Number of words, the reserved ones included."""
        return len(self._pieces)

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the words, joined by spaces."""
        return " ".join(self._pieces[token_id] for token_id in ids)

    def piece(self, token_id: int) -> str:
        """Returns the word."""
        return self._pieces[token_id]

    def to_bytes(self) -> bytes:
        """Returns the words in UTF-8, one per line; line numbers, from 0, are the ids."""
        return "".join(piece + "\n" for piece in self._pieces).encode("utf-8")


def most_frequent_words(lines: Iterable[str], most: int, taken: Iterable[str], what: str) -> list[str]:
    """Returns the most frequent words of a text, those of equal frequency in code-point order.

    Args:
        lines: the text.
        most: maximum number of words.
        taken: words that are left out.
        what: name of the vocabulary in messages.

    Raises:
        UserError: there is no word in the text.
    """
    counts = Counter(word for line in lines for word in line.split())
    for word in taken:
        counts.pop(word, None)
    if not counts:
        raise UserError(f"{what}: the training text has no word; check the corpus")
    return sorted(counts, key=lambda word: (-counts[word], word))[:most]


class TokenEncoder(WordEncoder):
    """Words of a fixed list: ids 0 padding, 1 end of sequence, 2 unknown, then the words in the order given.

    Words that are not on the list are decoded as `<unk>`.

    Args:
        words: the list; each word once and without white space.
    """

    kind = "token"
    file_suffix = ".tokens"
    unknown_id = UNK_ID

    def __init__(self, words: Iterable[str]):
        words = tuple(words)
        for word in words:
            if word.split() != [word]:
                raise UserError(f"token vocabulary: {word!r} is empty or has white space in it; each word is one token")
            if word in _RESERVED:
                raise UserError(
                    f"token vocabulary: {word!r} is reserved, its id is {_RESERVED.index(word)}; leave it out"
                )
        twice = [word for word, count in Counter(words).items() if count > 1]
        if twice:
            raise UserError(f"token vocabulary: {twice[0]!r} is listed more than once; list every word once")
        super().__init__(_RESERVED + words)
        self._ids = {word: position for position, word in enumerate(words, start=len(_RESERVED))}

    def encode(self, text: str) -> list[int]:
        """Returns one id per word; a word that is not on the list is UNK_ID."""
        return [self._ids.get(word, UNK_ID) for word in text.split()]

    def word_starts(self) -> str:
        """Returns 1 for each word, which padding and end of sequence are not."""
        return "".join(str(int(number not in (PAD_ID, EOS_ID))) for number in range(self.vocab_size))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote."""
        pieces = lines_of_file(content, "token vocabulary")
        if tuple(pieces[: len(_RESERVED)]) != _RESERVED:
            raise UserError(
                f"token vocabulary: the file starts with {' '.join(pieces[:3])[:60]!r}; its first three lines must be "
                f"{', '.join(_RESERVED)}; generate the data again"
            )
        if pieces[-1]:
            raise UserError(f"token vocabulary: the file ends within the line {pieces[-1]!r}; generate the data again")
        return cls(pieces[len(_RESERVED) : -1])

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Keeps the most frequent words, those of equal frequency in code-point order."""
        room = size - len(_RESERVED)
        if room < 1:
            raise UserError(f"token vocabulary of {size}: three ids are reserved; ask for a size of 4 or more")
        return cls(most_frequent_words(lines, room, _RESERVED, "token vocabulary"))
