"""A cache of the ids of words: a few thousand distinct words make up most of any text."""

from collections.abc import Callable

import numpy as np

_MOST_WORDS = 1 << 16
"""Maximum number of cached words, some 15 MB."""
_LONGEST_WORD = 32
"""Maximum characters of a cached word; where spaces are rare, whole lines are words, which do not recur."""


class WordIds(dict[str, bytes]):
    """Word -> its ids as bytes of int32, which are fast to join; words that are missing are encoded and cached."""

    def __init__(self, encode: Callable[[str], list[int]]):
        super().__init__()
        self._encode = encode

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._encode(word), np.int32).tobytes()
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = ids
        return ids
