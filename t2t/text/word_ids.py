"""A cache of the ids of words: a few thousand distinct words make up most of any text."""

from collections.abc import Callable

import numpy as np

_MOST_WORDS = 1 << 16
"""Some 15 MB."""
_LONGEST_WORD = 32


class WordIds(dict[str, bytes]):
    """Word -> its ids as bytes of int32, which are fast to join; words that are missing are encoded and cached.

    Args:
        encode: returns the ids of a word.
        most_words: maximum number of cached words.
        longest_word: maximum characters of a cached word; where spaces are rare, whole lines are words, which do not
            recur.
    """

    def __init__(
        self, encode: Callable[[str], list[int]], most_words: int = _MOST_WORDS, longest_word: int = _LONGEST_WORD
    ):
        super().__init__()
        self._encode, self._most_words, self._longest_word = encode, most_words, longest_word

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._encode(word), np.int32).tobytes()
        if len(word) <= self._longest_word:
            if len(self) >= self._most_words:
                self.clear()
            self[word] = ids
        return ids
