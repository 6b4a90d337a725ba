"""White space between words, for texts in which each word counts."""

import re

SPACES = "[ \\t\\r\\n\\f\\v\u3000]+"
"""Regular expression of what separates words; other spaces, such as U+00A0, are part of a word.

U+3000 is the space of Chinese and Japanese keyboards.
"""

_SPACES = re.compile(SPACES)


def split_words(text: str) -> list[str]:
    """Returns the words of a text."""
    return [word for word in _SPACES.split(text) if word]


def single_spaced(text: str) -> str:
    """Returns the words of a text with one space between two of them."""
    return " ".join(split_words(text))
