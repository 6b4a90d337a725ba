"""Word-level differences of two texts."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

Marked = list[tuple[str, bool]]
"""Segments of a text in order, to be joined by spaces, each with whether the other text lacks it there."""

MOST_STEPS = 20_000_000
"""Texts whose words may take more steps to compare are compared as wholes. Prose of a thousand words takes fewer."""


def word_changes(first: str, second: str) -> tuple[Marked, Marked]:
    """Marks in both texts the words that the other one lacks; words are separated by white space."""
    words = _units(first, second)
    blocks = SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()
    return (
        _marked(words[0], [(block.a, block.a + block.size) for block in blocks]),
        _marked(words[1], [(block.b, block.b + block.size) for block in blocks]),
    )


def _units(first: str, second: str) -> tuple[list[str], list[str]]:
    """Returns the words of two texts, or each text as one unit if that many words would take too long to compare."""
    words = first.split(), second.split()
    counts = Counter(words[1])
    # `SequenceMatcher` may go over the first text and all pairs of equal words for each block that it finds.
    steps = (len(words[0]) + sum(counts[word] for word in words[0])) * min(map(len, words))
    return ([" ".join(words[0])], [" ".join(words[1])]) if steps > MOST_STEPS else words


def _marked(words: Sequence[str], common: Sequence[tuple[int, int]]) -> Marked:
    """Splits words into segments: the ranges in `common`, in order, unmarked, and the marked ranges between them."""
    pieces, done = [], 0
    for start, end in common:
        pieces += [(" ".join(words[done:start]), True), (" ".join(words[start:end]), False)]
        done = end
    return [piece for piece in pieces if piece[0]]


def merged_changes(old: str, new: str) -> list[tuple[str, str]]:
    """Returns the changes from `old` to `new`: segments in order, each with `same`, `removed` or `added`."""
    words = _units(old, new)
    pieces = []
    for _, start, end, new_start, new_end in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        before, after = " ".join(words[0][start:end]), " ".join(words[1][new_start:new_end])
        pieces += [(before, "same")] if before == after else [(before, "removed"), (after, "added")]
    return [piece for piece in pieces if piece[0]]
