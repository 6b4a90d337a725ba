"""The ids of words, each found once: a few thousand different words make most of any text."""

from collections.abc import Callable

import numpy as np

_MOST_WORDS = 1 << 16
"""Words remembered at a time, some 15 MB."""
_LONGEST_WORD = 32
"""Characters of a word that is remembered; where spaces are rare, whole lines are words, which do not come again."""


class WordIds(dict[str, bytes]):
    """By word, its ids as the bytes of int32, which join fast: looked up, or else found and remembered."""

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
