r"""Spells tokens for a `subword` vocabulary, and learns its pieces by Tensor2Tensor's algorithm, in the same order.

A text is cut where letters and digits (Unicode categories L and N) meet anything else. A token of a single space
between two others is left out, since it can be restored there. A token is spelt with `\\` for a backslash, `\u` for an
underscore, `\233;` for the character of code 233 if that is outside the alphabet, and `_` at its end. Both steps can be
undone on any text.

For a minimum count m, the first pieces are the characters of all tokens. Then, four times, every spelt token is cut
into pieces, and every string that begins at the start of a piece and stays within the token is counted, once per
occurrence of the token. Strings with a count of m or more are taken from the longest to the shortest: if the count is
still m or more, the string is kept, and its count is subtracted from all its prefixes. The new pieces are the kept
strings and all characters, sorted by count and then by string, both descending. The m for a requested size is found by
bisection of 1..1000.

Properties of the original that are kept:

- The size is seldom the requested one: the search stops within 1%, at the latest at m = 1 or 1000.
- It is never less than the alphabet: thousands of characters in Chinese text.
- m is at most 1000: a small vocabulary from a large corpus comes out larger than requested.
- The search assumes that sizes fall as m grows; where they do not, it may miss the closest one.
- A piece is at most 199 characters long, one less than `max_subtoken_length`.
- Characters of the reserved pieces and of escapes are always pieces, even if they do not occur.
- Counts are taken before the segmentation settles, so some pieces are never used by the greedy segmentation.

One thing differs: a line break, always spelt `\10;`, is no piece. In the original, a line break in the text becomes a
piece; as the file has one piece per line, it is then read back with other ids.

Strings are counted by length: those of n + 1 characters only if their first n are frequent, since a string is never
more frequent than its prefix. This gives the same counts with memory that grows with the text, not with the square of
its longest token.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

import numpy as np

LEAST_COUNT, GREATEST_COUNT = 1, 1000

MAX_SUBTOKEN_LENGTH = 200
"""Tensor2Tensor's bound; its pieces are shorter than that."""

ITERATIONS = 4

_DENSE = 2
"""Up to this many possible strings per position in the text are counted in a table; more are counted by sorting."""

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


@dataclasses.dataclass(frozen=True)
class LearntPieces:
    """The pieces for one least count."""

    pieces: tuple[str, ...]
    """Without the reserved ones, in the order of their ids."""
    min_count: int
    """Minimum count of a piece of several characters."""
    alphabet_size: int
    """How many of the pieces are single characters."""

    @property
    def vocab_size(self) -> int:
        """Number of pieces, the reserved ones included."""
        return len(self.pieces) + len(RESERVED)


def learn_pieces(
    counts: Mapping[str, int],
    size: int,
    least: int = LEAST_COUNT,
    greatest: int = GREATEST_COUNT,
    max_subtoken_length: int = MAX_SUBTOKEN_LENGTH,
) -> LearntPieces:
    """Returns the pieces whose number comes closest to `size`, among the minimum counts that a bisection tries.

    Args:
        counts: how often each token occurs; no token is spelt like a reserved piece.
        size: requested number of pieces, the reserved ones included.
        least: lower end of the interval, 1 or more.
        greatest: upper end of the interval.
        max_subtoken_length: pieces are shorter than this.
    """
    text = SpeltTokens(counts)
    best: LearntPieces | None = None
    while True:
        min_count = (least + greatest) // 2
        found = pieces_at(text, min_count, max_subtoken_length)
        # Of two equally close sizes, the first one found is kept, as in the recursion of the original.
        if best is None or abs(found.vocab_size - size) < abs(best.vocab_size - size):
            best = found
        near = abs(found.vocab_size - size) * 100 < size
        if near or least >= greatest or min_count < 2:
            return best
        if found.vocab_size > size:
            least = min_count + 1
        else:
            greatest = min_count - 1


class SpeltTokens:
    """The spellings of all distinct tokens, concatenated, in arrays.

    Legend: N characters of all spelt tokens, A characters of the alphabet.

    Args:
        counts: how often each token occurs.
    """

    def __init__(self, counts: Mapping[str, int]):
        alphabet = set().union(ESCAPE_CHARACTERS, *RESERVED, *counts) - {"\n"}
        self.alphabet = sorted(alphabet)
        spelling = Spelling(alphabet)
        spelt = [spelling.spell(token) for token in counts]
        lengths = np.fromiter(map(len, spelt), dtype=np.int64, count=len(spelt))
        codes_N = np.frombuffer("".join(spelt).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        alphabet_codes_A = np.array([ord(character) for character in self.alphabet], dtype=np.uint32)
        self.symbols_N = np.searchsorted(alphabet_codes_A, codes_N)
        """int64, indices in the alphabet."""
        self.left_N = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(codes_N))
        """int64, characters from here to the end of the token."""
        self.weights_N = np.repeat(np.fromiter(counts.values(), dtype=np.float64, count=len(spelt)), lengths)
        """float64, occurrences of the token; whole numbers, whose sums are exact up to 2^53."""


@dataclasses.dataclass
class Strings:
    """The frequent strings of one length, in the order of their keys; those of length 1 are the whole alphabet."""

    keys: np.ndarray
    """int64, A * (index of the string without its last character, among those one shorter) + the last character."""
    counts: np.ndarray
    """float64, occurrences; after `_keep`, without those of longer pieces."""
    kept: np.ndarray
    """bool, whether the string is a piece."""


def pieces_at(
    text: SpeltTokens, min_count: int, max_subtoken_length: int = MAX_SUBTOKEN_LENGTH, dense: float = _DENSE
) -> LearntPieces:
    """Returns the pieces for one least count; `dense` chooses between two ways to count, not the result."""
    starts = np.arange(len(text.symbols_N))
    for iteration in range(ITERATIONS):
        by_length = _frequent_strings(text, starts, min_count, max_subtoken_length - 1, dense)
        _keep(by_length, len(text.alphabet), min_count)
        if iteration < ITERATIONS - 1:
            starts = _piece_starts(text, by_length)
    ranked = sorted(_list_pieces(by_length, text.alphabet), reverse=True)
    return LearntPieces(tuple(piece for _, piece in ranked), min_count, len(text.alphabet))


def _frequent_strings(
    text: SpeltTokens, starts: np.ndarray, min_count: int, longest: int, dense: float
) -> list[Strings]:
    """Counts the strings that begin at `starts`; returns the frequent ones, by length from 1."""
    size = len(text.alphabet)
    inverse = text.symbols_N[starts]
    keys = np.arange(size)
    by_length: list[Strings] = []
    while True:
        counts = np.bincount(inverse, weights=text.weights_N[starts], minlength=len(keys))
        frequent = counts >= min_count
        if by_length and not frequent.any():
            return by_length
        recorded = frequent if by_length else np.ones(size, dtype=bool)
        by_length.append(Strings(keys[recorded], counts[recorded], np.zeros(recorded.sum(), dtype=bool)))
        length = len(by_length)
        going_on = frequent[inverse] & (text.left_N[starts] > length)
        if length == longest or not going_on.any():
            return by_length
        indices = np.cumsum(recorded) - 1
        starts, inverse = starts[going_on], inverse[going_on]
        joined = indices[inverse] * size + text.symbols_N[starts + length]
        possible = len(by_length[-1].keys) * size
        in_table = possible <= dense * len(joined)
        keys, inverse = (np.arange(possible), joined) if in_table else np.unique(joined, return_inverse=True)


def _keep(by_length: list[Strings], size: int, min_count: int) -> None:
    """Marks the pieces, longest first, and subtracts the count of each from its prefixes."""
    taken: np.ndarray = np.zeros(len(by_length[-1].keys))
    for length in range(len(by_length), 0, -1):
        strings = by_length[length - 1]
        strings.counts = strings.counts - taken
        strings.kept = strings.counts >= min_count
        if length > 1:
            passed_on = taken + np.where(strings.kept, strings.counts, 0)
            taken = np.bincount(strings.keys // size, weights=passed_on, minlength=len(by_length[length - 2].keys))
    by_length[0].kept[:] = True


def _piece_starts(text: SpeltTokens, by_length: list[Strings]) -> np.ndarray:
    """Returns where the pieces begin when each token is cut into the longest ones from left to right."""
    lengths = np.ones(len(text.symbols_N), dtype=np.int64)
    positions = np.arange(len(text.symbols_N))
    indices = text.symbols_N
    for length, strings in enumerate(by_length[1:], start=2):
        inside = text.left_N[positions] >= length
        positions, indices = positions[inside], indices[inside]
        wanted = indices * len(text.alphabet) + text.symbols_N[positions + length - 1]
        indices = np.searchsorted(strings.keys, wanted)
        found = strings.keys[np.minimum(indices, len(strings.keys) - 1)] == wanted
        positions, indices = positions[found], indices[found]
        lengths[positions[strings.kept[indices]]] = length
    steps = lengths.tolist()
    starts = []
    position = 0
    while position < len(steps):
        starts.append(position)
        position += steps[position]
    return np.array(starts, dtype=np.int64)


def _list_pieces(by_length: list[Strings], alphabet: list[str]) -> list[tuple[float, str]]:
    """Returns the count and the text of each piece."""
    found = []
    for length, strings in enumerate(by_length, start=1):
        for index in np.flatnonzero(strings.kept).tolist():
            characters = []
            here = index
            for shorter in range(length - 1, -1, -1):
                here, symbol = divmod(int(by_length[shorter].keys[here]), len(alphabet))
                characters.append(alphabet[symbol])
            found.append((float(strings.counts[index]), "".join(reversed(characters))))
    return found
