"""Word lists in Tensor2Tensor's format, one word or BPE piece per line, as its `TokenTextEncoder` reads them."""

from collections.abc import Iterable, Sequence
from typing import Self

from t2t.errors import UserError
from t2t.text.encoder import lines_of_file
from t2t.text.token import WordEncoder, most_frequent_words

RESERVED = ("<pad>", "<EOS>")
UNKNOWN = ("UNK", "<UNK>", "<unk>")
"""Names of the unknown word; the first one that is on the list is used."""


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
                f"{' and '.join(RESERVED)}; put them first, or give another file"
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
        lines = lines_of_file(content, "word list", "give a text file")
        if not lines[-1]:
            lines.pop()
        return cls([line.strip() for line in lines])

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Keeps the most frequent words, those of equal frequency in code-point order, and adds `UNK`."""
        room = size - len(RESERVED) - 1
        if room < 1:
            raise UserError(f"word list of {size}: three ids are taken; ask for a size of 4 or more")
        words = most_frequent_words(lines, room, (*RESERVED, UNKNOWN[0]), "word list")
        return cls([*RESERVED, *words, UNKNOWN[0]])

    def _id(self, word: str) -> int:
        token_id = self._ids.get(word, self.unknown_id)
        if token_id is None:
            raise UserError(
                f"word list: {word!r} is not on it, and it has no {UNKNOWN[0]} for unknown words; add a line "
                f"{UNKNOWN[0]} at its end, or cut the text into the list's words first"
            )
        return token_id
