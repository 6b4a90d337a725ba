"""A kind of vocabulary: frequent words, and a few ids that all other words share by their hashes.

t2t-trainer --generate_data --vocab_kind=my_hashed_words --vocab_size=1000 ...
"""

import zlib

from t2t import register_vocabulary
from t2t.text.words import WordEncoder, most_frequent_words

OTHERS = 8
RESERVED = ("<pad>", "</s>", *(f"<other_{number}>" for number in range(OTHERS)))


@register_vocabulary  # the name is `kind`
class MyHashedWords(WordEncoder):
    """The most frequent words; any other word is one of 8 ids, always the same one."""

    kind, file_suffix = "my_hashed_words", ".hashed"

    def __init__(self, pieces):
        super().__init__(pieces)
        self._ids = {word: number for number, word in enumerate(pieces) if number >= len(RESERVED)}

    def encode(self, text):
        """Returns one id per word."""
        return [self._ids.get(word, 2 + zlib.crc32(word.encode()) % OTHERS) for word in text.split()]

    @classmethod
    def from_bytes(cls, content):
        """Reads what `to_bytes` of `WordEncoder` wrote: a word on each line."""
        return cls(content.decode().split("\n")[:-1])

    @classmethod
    def build(cls, lines, size):
        """Learns the words from text."""
        return cls([*RESERVED, *most_frequent_words(lines, size - len(RESERVED), RESERVED, "hashed words")])
