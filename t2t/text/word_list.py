"""Words of a list in Tensor2Tensor's format, one a line: what its `TokenTextEncoder` reads, BPE pieces included."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from t2t.errors import UserError
from t2t.text.encoder import TextEncoder, lines_of_file

RESERVED = ("<pad>", "<EOS>")
UNKNOWN = ("UNK", "<UNK>", "<unk>")
"""What lists call the unknown word; the first one that is on the list is taken."""


class WordListEncoder(TextEncoder):
    """Tensor2Tensor's token vocabulary: the number of a line, counted from 0, is the id of its word.

    Unlike a `token` vocabulary it has no fixed id for unknown words: they become `UNK` where the list has it, and are
    an error where it has not; so do `<pad>` and `<EOS>`, which in a text are words as any other and no end of it. Text
    comes back with single spaces between its words.

    Args:
        words: by id; the first two are `<pad>` and `<EOS>`. Of a word listed twice the later id is used.

    Raises:
        UserError: ids 0 and 1 are other words.
    """

    kind = "word_list"
    file_suffix = ".txt"
    lossless = False

    def __init__(self, words: Sequence[str]):
        self._words = tuple(words)
        if self._words[:2] != RESERVED:
            raise UserError(
                f"word list: the file starts with {' '.join(self._words[:2])[:60]!r}; its first two lines must be "
                f"{' and '.join(RESERVED)}; put them first, or give another file"
            )
        self._ids = {word: token_id for token_id, word in enumerate(self._words) if token_id >= len(RESERVED)}
        self.unknown_id = next((self._ids[word] for word in UNKNOWN if word in self._ids), None)

    @property
    def vocab_size(self) -> int:
        """Number of words and the reserved two."""
        return len(self._words)

    def encode(self, text: str) -> list[int]:
        """Returns one id per word.

        Raises:
            UserError: a word is not on the list, and the list has no unknown word.
        """
        return [self._id(word) for word in text.split()]

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the words with a space between each two."""
        return " ".join(self._words[token_id] for token_id in ids)

    def piece(self, token_id: int) -> str:
        """Returns the word."""
        return self._words[token_id]

    def to_bytes(self) -> bytes:
        """Returns the words in UTF-8, one a line."""
        return "".join(word + "\n" for word in self._words).encode("utf-8")

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads a file of Tensor2Tensor's or one of `to_bytes`; white space around a word is lost.

        Raises:
            UserError: it is not UTF-8; and see the class.
        """
        lines = lines_of_file(content, "word list", "give a text file")
        if not lines[-1]:
            lines.pop()
        return cls([line.strip() for line in lines])

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Keeps the most frequent words, those of one frequency in the order of their characters, and adds `UNK`.

        Args:
            lines: the text.
            size: number of ids at most, the reserved two and `UNK` included.

        Raises:
            UserError: there is no word in the text, or no room for one.
        """
        room = size - len(RESERVED) - 1
        if room < 1:
            raise UserError(f"word list of {size}: three ids are taken; ask for a size of 4 or more")
        counts = Counter(word for line in lines for word in line.split())
        for taken in (*RESERVED, UNKNOWN[0]):
            counts.pop(taken, None)
        if not counts:
            raise UserError("word list: the training text has no word; check the corpus")
        return cls([*RESERVED, *sorted(counts, key=lambda word: (-counts[word], word))[:room], UNKNOWN[0]])

    def _id(self, word: str) -> int:
        token_id = self._ids.get(word, self.unknown_id)
        if token_id is None:
            raise UserError(
                f"word list: {word!r} is not on it, and it has no {UNKNOWN[0]} for unknown words; add a line "
                f"{UNKNOWN[0]} at its end, or cut the text into the list's words first"
            )
        return token_id
