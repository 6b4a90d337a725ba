r"""The steps around the pieces of a `subword` vocabulary: cutting a text into tokens, and spelling a token.

A text is cut where letters and digits (Unicode categories L and N) meet anything else. A token of a single space
between two others is left out, since it can be restored there. A token is spelt with `\\` for a backslash, `\u` for an
underscore, `\233;` for the character of code 233 if that is outside the alphabet, and `_` at its end. Both steps are
those of Tensor2Tensor, and both can be undone on any text.
"""

import re
from collections.abc import Iterable

RESERVED = ("<pad>_", "<EOS>_")
"""Pieces of ids 0 and 1 in vocabularies built here; no token is spelt so."""
ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
"""Characters that escapes are written with: part of every alphabet, so that anything can be spelt."""
UNDEFINED = "\u3013"
"""Decoded text of an escape whose number is no character."""

_RUNS = re.compile(r"[^\W_]+|[\W_]+")
_ESCAPES = re.compile(r"\\u|\\\\|\\([0-9]+);")
_WHOLE_PARTS = re.compile(r"(?:[^\\]|\\u|\\\\|\\[0-9]+;|\\(?=[^u\\0-9])|\\[0-9]+(?=[^0-9;]))*")


def tokenize(text: str) -> list[str]:
    """Returns the runs of letters and digits and the runs of anything else, single spaces within left out."""
    runs = _RUNS.findall(text)
    if len(runs) < 3:
        return runs
    return [runs[0], *(run for run in runs[1:-1] if run != " "), runs[-1]]


def detokenize(tokens: Iterable[str]) -> str:
    """Undoes `tokenize`: joins the tokens, with a space between two that begin with a letter or digit."""
    parts: list[str] = []
    after_word = False
    for token in tokens:
        word = token[0].isalnum()
        if word and after_word:
            parts.append(" ")
        parts.append(token)
        after_word = word
    return "".join(parts)


class Spelling(dict[int, str]):
    """How each character of a token is written; a mapping for `str.translate`.

    Args:
        alphabet: the characters that are written as they are, `ESCAPE_CHARACTERS` and line breaks excepted.
    """

    def __init__(self, alphabet: Iterable[str]):
        super().__init__({ord(character): character for character in alphabet})
        self.update({ord("\\"): "\\\\", ord("_"): "\\u", ord("\n"): "\\10;"})

    def __missing__(self, code: int) -> str:
        return f"\\{code};"

    def spell(self, token: str) -> str:
        """Returns the token with its escapes and the `_` at its end."""
        return token.translate(self) + "_"


def unspell(spelt: str) -> str:
    """Undoes `Spelling.spell`, with or without the `_` at the end.

    A number beyond Unicode, or half of a surrogate pair, which only a model writes, becomes U+3013.
    """
    return _ESCAPES.sub(_character, spelt.removesuffix("_"))


def certain_spelling(spelt: str) -> str:
    """Returns a spelling as far as nothing that follows can change it: without an incomplete escape at its end."""
    beginning = _WHOLE_PARTS.match(spelt)
    return beginning[0] if beginning else ""


def _character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return "_" if escape[0] == "\\u" else "\\"
    digits = escape[1].lstrip("0") or "0"
    code = int(digits) if len(digits) < 8 else 0x110000
    return UNDEFINED if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)
