"""Parse trees, as the sequence of their labels."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from t2t.errors import UserError
from t2t.features.feature import Finished
from t2t.features.text import Text
from t2t.features.treebank_linearisation import is_end, restored, words_of
from t2t.features.treebank_reading import has_two_uses, labels_of_output, main_uses, uses_as_known
from t2t.registry import register_feature
from t2t.specs import TRAIN, UNK_ID
from t2t.specs.constraints import TreeConstraint, TreeLabels
from t2t.specs.features import FeatureSpec
from t2t.text.encoder import TextEncoder
from t2t.text.words import TokenEncoder


@register_feature
@dataclasses.dataclass(frozen=True)
class Tree(Text):
    """A constituency tree over the words of the inputs: samples have its labels, outputs are in brackets.

    `size` is about the number of labels, ends of phrases included: the vocabulary lists those that occur.
    """

    is_free: ClassVar[bool] = False
    finishes: ClassVar[bool] = True
    vocabulary: str = "token"
    size: int = 128
    shared: bool = dataclasses.field(default=False, kw_only=True)
    single_spaces: bool = dataclasses.field(default=True, kw_only=True)
    tells_words: bool = dataclasses.field(default=True, kw_only=True)
    keeps_annotations: bool = dataclasses.field(default=False, kw_only=True)
    """Whether given trees keep traces, empty elements and function tags."""

    def with_options(self, options: Any) -> "Tree":
        """The option `keep_annotations`."""
        return dataclasses.replace(self, keeps_annotations=getattr(options, "keep_annotations", self.keeps_annotations))

    def spec(self, encoder: TextEncoder | None = None) -> FeatureSpec:
        """Tokens; words begin with the tags."""
        spec = super().spec(encoder)
        if encoder is None or not self.tells_words:
            return spec
        tags = set(tree_labels(encoder).tags)
        starts = "".join(str(int(label in tags)) for label in range(encoder.vocab_size))
        return dataclasses.replace(spec, word_starts=starts)

    def list_labels(self, splits: Sequence[str], read: Callable[[str], Iterator[str]], problem: str) -> TextEncoder:
        """Returns the labels of the training trees, most frequent first, then those that only other splits have.

        No label is left out: a word list cannot spell unknown labels, and a tree with one could not be written. But a
        label is either of phrases or of words; trees with the rarer use are skipped.

        Args:
            splits: names of all splits.
            read: returns the linearised trees of a split; it may be called twice.
            problem: its name, for messages.

        Raises:
            UserError: there is no label.
        """
        counts = _count_labels(splits, read)
        total = sum(counts.values(), Counter())
        if has_two_uses(total):
            known = main_uses(total)
            counts = _count_labels(splits, lambda split: (tree for tree in read(split) if uses_as_known(tree, known)))
        train = counts.pop(TRAIN)
        if not train:
            raise UserError(f"problem {problem}: the training trees have no label", "check the files")
        others = set().union(*counts.values()) - set(train)
        return TokenEncoder([*sorted(train, key=lambda label: (-train[label], label)), *sorted(others)])

    def finish(self, source: str, output: str, encoder: TextEncoder | None = None) -> Finished:
        """Returns a tree in brackets over exactly the words of the source, for any labels in the output."""
        words = words_of(source)
        if not words:
            return Finished("")
        labels = self.require(encoder)
        phrases = {labels.piece(begin) for begin, _ in tree_labels(labels).phrases}
        tree = restored(words, output, phrases)
        return Finished(str(tree), tree.repaired)

    def read_output(self, text: str, source: str | None = None) -> str:
        """Returns the labels of a tree in brackets; labels stay as they are."""
        return labels_of_output(text, source, self.keeps_annotations) if text.lstrip().startswith("(") else text

    def constraint(self, source: str, encoder: TextEncoder | None = None) -> TreeConstraint:
        """Constrains the output to the labels of a tree over exactly the words of the source."""
        return TreeConstraint(tree_labels(self.require(encoder)), len(words_of(source)))


@functools.lru_cache(maxsize=8)
def tree_labels(encoder: TextEncoder) -> TreeLabels:
    """Returns the labels of a vocabulary: those with an end (`/NP`) in it are of phrases, the others are tags."""
    ids = {encoder.piece(number): number for number in range(UNK_ID + 1, encoder.vocab_size)}
    phrases = {ids[piece[1:]]: number for piece, number in ids.items() if is_end(piece) and piece[1:] in ids}
    others = {number for piece, number in ids.items() if is_end(piece)} | phrases.keys()
    return TreeLabels(tuple(number for number in ids.values() if number not in others), tuple(phrases.items()))


def _count_labels(splits: Sequence[str], read: Callable[[str], Iterator[str]]) -> dict[str, Counter[str]]:
    return {split: Counter(label for tree in read(split) for label in tree.split()) for split in splits}
