"""Trees over a given number of words."""

import dataclasses
from collections.abc import Sequence
from typing import Self

from t2t.specs.constraints.constraint import OutputConstraint

MAX_DEPTH = 64
"""Maximum number of open phrases at any point of a tree. Treebanks have up to about 40."""


@dataclasses.dataclass(frozen=True)
class TreeLabels:
    """Ids of the labels of trees, see `t2t.features.treebank.linearisation`."""

    tags: tuple[int, ...]
    """Each stands for one word."""
    phrases: tuple[tuple[int, int], ...]
    """(opening id, closing id) of each kind of phrase."""


@dataclasses.dataclass(frozen=True)
class TreeConstraint(OutputConstraint):
    """Trees over `words` words: one tag for each, every phrase closed by its own label, no empty phrase."""

    labels: TreeLabels
    words: int

    def shortest(self, prefix: Sequence[int] = ()) -> int | None:
        """See the base class: the prefix, a tag per remaining word, an end per open phrase, and end of sequence."""
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
        """Returns a constraint to at most `longest` - 1 words; the rest of the input is dropped."""
        return dataclasses.replace(self, words=min(self.words, longest - 1))
