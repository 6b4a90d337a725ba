"""Text as words separated by white space, for problems with few words: digits, trees, tokenised corpora.

`token` has a fixed id for unknown words; `word_list` is Tensor2Tensor's format, one word or BPE piece per line, as its
`TokenTextEncoder` reads them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeVar

import numpy as np

from t2t.errors import UserError
from t2t.registry import register_vocabulary
from t2t.specs import EOS_ID, PAD_ID, UNK_ID
from t2t.text.encoder import TextEncoder, lines_of_file

SPACES = "[ \\t\\r\\n\\f\\v\u3000]+"
"""Regular expression of what separates words; other spaces, such as U+00A0, are part of a word.

U+3000 is the space of Chinese and Japanese keyboards.
"""

_SPACES = re.compile(SPACES)

_MOST_WORDS = 1 << 16
"""Some 15 MB."""

_LONGEST_WORD = 32

_RESERVED = ("<pad>", "</s>", "<unk>")

RESERVED = ("<pad>", "<EOS>")

UNKNOWN = ("UNK", "<UNK>", "<unk>")
"""Names of the unknown word; the first one that is on the list is used."""


def split_words(text: str) -> list[str]:
    """Returns the words of a text."""
    return [word for word in _SPACES.split(text) if word]


def single_spaced(text: str) -> str:
    """Returns the words of a text with one space between two of them."""
    return " ".join(split_words(text))


T = TypeVar("T")


class WordCache(dict[str, T]):
    """Word -> what is made of it; words that are missing are made and cached.

    Args:
        make: makes it.
        most_words: maximum number of cached words.
        longest_word: maximum characters of a cached word; where spaces are rare, whole lines are words, which do not
            recur.
    """

    def __init__(self, make: Callable[[str], T], most_words: int = _MOST_WORDS, longest_word: int = _LONGEST_WORD):
        super().__init__()
        self._make, self._most_words, self._longest_word = make, most_words, longest_word

    def __missing__(self, word: str) -> T:
        made = self._make(word)
        if len(word) <= self._longest_word:
            if len(self) >= self._most_words:
                self.clear()
            self[word] = made
        return made


class WordIds(WordCache[bytes]):
    """Word -> its ids as bytes of int32, which are fast to join; `encode` returns the ids of a word."""

    def __init__(self, encode: Callable[[str], list[int]], **limits: int):
        super().__init__(self._encoded, **limits)
        self._encode = encode

    def _encoded(self, word: str) -> bytes:
        return np.array(self._encode(word), np.int32).tobytes()


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
        raise UserError(f"{what}: the training text has no word", "check the corpus")
    return sorted(counts, key=lambda word: (-counts[word], word))[:most]


@register_vocabulary
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
                raise UserError(
                    f"token vocabulary: {word!r} is empty or has white space in it", "each word is one token"
                )
            if word in _RESERVED:
                raise UserError(
                    f"token vocabulary: {word!r} is reserved, its id is {_RESERVED.index(word)}", "leave it out"
                )
        twice = [word for word, count in Counter(words).items() if count > 1]
        if twice:
            raise UserError(f"token vocabulary: {twice[0]!r} is listed more than once", "list every word once")
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
        pieces = lines_of_file(content, "token vocabulary", is_ours=True)
        if tuple(pieces[: len(_RESERVED)]) != _RESERVED:
            raise UserError(
                f"token vocabulary: the file starts with {' '.join(pieces[:3])[:60]!r}; its first three lines must be "
                f"{', '.join(_RESERVED)}",
                "generate the data again",
            )
        return cls(pieces[len(_RESERVED) :])

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Keeps the most frequent words, those of equal frequency in code-point order."""
        room = size - len(_RESERVED)
        if room < 1:
            raise UserError(f"token vocabulary of {size}: three ids are reserved", "ask for a size of 4 or more")
        return cls(most_frequent_words(lines, room, _RESERVED, "token vocabulary"))


@register_vocabulary
class WordListEncoder(WordEncoder):
    """Tensor2Tensor's token vocabulary: the number of a line, from 0, is the id of its word.

    Unlike a `token` vocabulary it has no fixed id for unknown words: they become `UNK` if the list has it, and raise an
    error otherwise. The words `<pad>` and `<EOS>` in a text are unknown, too.

    Args:
        words: by id; the first two are `<pad>` and `<EOS>`. If a word is listed twice, its later id is used.

    Raises:
        UserError: ids 0 and 1 are other words.
    """

    kind = "word_list"
    file_suffix = ".txt"

    def __init__(self, words: Sequence[str]):
        super().__init__(words)
        if self._pieces[:2] != RESERVED:
            raise UserError(
                f"word list: the file starts with {' '.join(self._pieces[:2])[:60]!r}; its first two lines must be "
                f"{' and '.join(RESERVED)}",
                "put them first, or give another file",
            )
        self._ids = {word: token_id for token_id, word in enumerate(self._pieces) if token_id >= len(RESERVED)}
        self.unknown_id = next((self._ids[word] for word in UNKNOWN if word in self._ids), None)

    def encode(self, text: str) -> list[int]:
        """Returns one id per word.

        Raises:
            UserError: a word is not on the list, and the list has no unknown word.
        """
        return [self._id(word) for word in text.split()]

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads a file of Tensor2Tensor or of `to_bytes`; white space around a word is removed."""
        return cls([line.strip() for line in lines_of_file(content, "word list", "give a text file")])

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Keeps the most frequent words, those of equal frequency in code-point order, and adds `UNK`."""
        room = size - len(RESERVED) - 1
        if room < 1:
            raise UserError(f"word list of {size}: three ids are taken", "ask for a size of 4 or more")
        words = most_frequent_words(lines, room, (*RESERVED, UNKNOWN[0]), "word list")
        return cls([*RESERVED, *words, UNKNOWN[0]])

    def _id(self, word: str) -> int:
        token_id = self._ids.get(word, self.unknown_id)
        if token_id is None:
            raise UserError(
                f"word list: {word!r} is not on it, and it has no {UNKNOWN[0]} for unknown words",
                f"add a line {UNKNOWN[0]} at its end, or cut the text into the list's words first",
            )
        return token_id
