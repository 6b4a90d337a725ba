"""Trees over a given number of words."""

import dataclasses
from collections.abc import Sequence
from typing import Self

from t2t.specs.constraints.constraint import OutputConstraint

MAX_DEPTH = 64
"""Phrases that may be open at a time in a tree. Treebanks have up to about 40."""


@dataclasses.dataclass(frozen=True)
class TreeLabels:
    """Ids of the labels of trees, see `t2t.problems.treebank.linearisation`."""

    tags: tuple[int, ...]
    """Each stands for one word."""
    phrases: tuple[tuple[int, int], ...]
    """What begins a phrase, and what ends it."""


@dataclasses.dataclass(frozen=True)
class TreeConstraint(OutputConstraint):
    """Trees over so many words: as many tags, every phrase ended by its own label, none over no word."""

    labels: TreeLabels
    words: int

    def shortest(self, prefix: Sequence[int] = ()) -> int | None:
        """Returns the length: of the prefix, a tag for each other word, an end for each open phrase, and one more."""
        tags, ends = set(self.labels.tags), dict(self.labels.phrases)
        words, opened, is_empty = self.words, list[int](), False
        for token in prefix:
            if token in ends:
                opened.append(ends[token])
            elif token in tags:
                words -= 1
            elif is_empty or not opened or token != opened.pop():
                return None
            is_empty = token in ends
        possible = words > 0 if is_empty else words >= 0
        return len(prefix) + words + len(opened) + 1 if possible and len(opened) <= MAX_DEPTH else None

    def fitted(self, longest: int) -> Self:
        """Returns a constraint to the first words, where there are more than `longest` ids have room for."""
        return dataclasses.replace(self, words=min(self.words, longest - 1))
