"""Converts trees to sequences of labels, the targets of parsing problems, and back.

    (TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))   over   A dog runs   is   S NP DT NN /NP VP VBZ /VP /S

A phrase is written as its label, its contents, and its label after a slash; a word is written as its tag. The form is
that of Tensor2Tensor, the idea that of Vinyals et al. 2015, "Grammar as a foreign language", section 2.

Aligns tags with words if a model wrote more tags than there are words, or fewer.

    The dog , however , ran .
    DT  NN  ,         , VBD .      one tag too few: `however` is left without, and no other word loses its own

If tags were assigned in order, a missing tag would put every later tag on the wrong word. Punctuation shows where it is
missing: in Penn treebanks the tags of punctuation are marks too, mostly the same ones (Santorini 1990, "Part-of-speech
tagging guidelines", section 2).
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Container, Sequence

from t2t.features.treebank_trees import ParseTree, Part, inner_phrases, write_tree
from t2t.text.words import split_words

OUTER = "TOP"
"""Label of the node around a sentence."""

UNKNOWN_TAG = "XX"
"""Tag of a word to which the model gave none, unless it is punctuation; the Penn Treebank's tag of unknown words."""

_BRACKETS = {"(": "-LRB-", ")": "-RRB-"}


@dataclasses.dataclass(frozen=True)
class Restored:
    """A tree over given words, made from a model's output."""

    tree: ParseTree
    repaired: bool
    """Whether brackets had to be closed or dropped, or words added, or tags dropped."""

    def __str__(self) -> str:
        """Returns the tree in brackets, on one line."""
        return write_tree(self.tree)


def words_of(text: str) -> list[str]:
    """Returns the words of a sentence; escapes brackets in them as treebanks do, since these delimit trees."""
    return [re.sub(r"[()]", lambda found: _BRACKETS[found[0]], word) for word in split_words(text)]


def linearised(tree: ParseTree) -> str:
    """Returns the labels of a tree, without those of the outer node, separated by spaces."""
    written: list[str] = []
    for phrase in inner_phrases(tree):
        opened: list[int] = []
        for part, text in phrase.walk():
            if part is Part.OPEN:
                opened.append(len(written))
                written.append(text)
            elif part is Part.CLOSE and opened.pop() < len(written) - 1:  # a tag has nothing after it, and no end
                written.append("/" + text)
    return " ".join(written)


def restored(words: Sequence[str], text: str, phrases: Container[str] = ()) -> Restored:
    """Returns a tree over exactly these words, whatever the text: adds missing labels and drops surplus ones.

    If the numbers of tags and words differ, `word_indices` decides which tags are surplus, or which words have none.

    Args:
        words: at least one.
        text: labels, separated by white space.
        phrases: labels of phrases, in addition to all those with an end (`/NP`) in the text.
    """
    tokens = text.split()
    ends = {token[1:] for token in tokens if is_end(token)}
    opened = {token for token in set(tokens) if token in ends or token in phrases}
    tags = [token for token in tokens if token not in opened and not is_end(token)]
    builder, index = _Builder(words), iter(word_indices(tags, words))
    for token in tokens:
        if is_end(token):
            builder.close(token[1:])
        elif token in opened:
            builder.open(token)
        else:
            builder.tag(token, next(index))
    return builder.finish()


def is_end(token: str) -> bool:
    """Returns whether a label ends a phrase."""
    return token.startswith("/") and len(token) > 1


class _Builder:
    """Builds a tree from left to right; drops or adds labels where they do not fit, and then sets `repaired`."""

    def __init__(self, words: Sequence[str]):
        self._words = list(words)
        self._next = 0
        self._open: list[tuple[str, list[ParseTree | str]]] = [(OUTER, [])]
        self._open_labels: Counter[str] = Counter()
        self.repaired = False

    def open(self, label: str) -> None:
        """Begins a phrase."""
        self._open.append((_atom(label), []))
        self._open_labels[_atom(label)] += 1

    def tag(self, label: str, index: int | None) -> None:
        """Adds the word at index `index` with a tag, after all words before it; drops the tag if `index` is None."""
        if index is None:
            self.repaired = True
            return
        self._fill(index)
        self._add(label)

    def close(self, label: str) -> None:
        """Closes the innermost phrase of a label and those inside it; does nothing if no such phrase is open."""
        if not self._open_labels[_atom(label)]:
            self.repaired = True
            return
        while True:
            closed = self._close_innermost()
            if closed == _atom(label):
                return
            self.repaired = True

    def finish(self) -> Restored:
        """Adds the remaining words, with tags, to the outermost open phrase, and closes all phrases."""
        while len(self._open) > 2:
            self.repaired = True
            self._close_innermost()
        self._fill(len(self._words))
        while len(self._open) > 1:
            self.repaired = True
            self._close_innermost()
        return Restored(ParseTree(OUTER, tuple(self._open[0][1])), self.repaired)

    def _fill(self, index: int) -> None:
        """Adds the words before index `index`, which have no tag, to the innermost phrase."""
        while self._next < index:
            self.repaired = True
            self._add(tag_of_mark(self._words[self._next]) or UNKNOWN_TAG)

    def _add(self, label: str) -> None:
        self._open[-1][1].append(ParseTree(_atom(label), (self._words[self._next],)))
        self._next += 1

    def _close_innermost(self) -> str:
        label, children = self._open.pop()
        self._open_labels[label] -= 1
        if children:
            self._open[-1][1].append(ParseTree(label, tuple(children)))
        else:
            self.repaired = True  # a phrase over no word
        return label


def _atom(label: str) -> str:
    return re.sub(r"[()]", lambda found: _BRACKETS[found[0]], label)


_MOST_CELLS = 1_000_000
"""Limit on tags times words, about a second of work; beyond it tags are assigned in order."""

_BRACKET = re.compile(r"-[LR][RSC]B-")
_TAGS_OF_MARKS = {"?": ".", "!": ".", ";": ":", "--": ":", "...": ":", '"': "''"}
_TAGS_OF_MARKS |= {mark: mark for mark in (",", ".", ":", "``", "''", "$", "#", "-LRB-", "-RRB-")}

_LETTERED_TAGS = ("HYPH", "NFP")
"""Tags with letters for punctuation in later English treebanks: hyphens, and marks that are not part of a sentence."""

_BOTH, _WORD_ALONE, _TAG_ALONE = range(3)


def is_mark(text: str) -> bool:
    """Returns whether a word or tag is punctuation: has no letters or digits, or is an escaped bracket (`-LRB-`)."""
    return not any(map(str.isalnum, text)) or _BRACKET.fullmatch(text) is not None


def tag_of_mark(word: str) -> str | None:
    """Returns the Penn Treebank's tag of a punctuation mark (Marcus et al. 1993, table 2); None for other words."""
    return _TAGS_OF_MARKS.get(word)


def word_indices(tags: Sequence[str], words: Sequence[str]) -> list[int | None]:
    """Returns the index of the word of each tag, ascending, or None for surplus tags.

    Equal numbers of tags and words are paired in order. Otherwise the alignment has the least cost (Wagner and Fischer
    1974, "The string-to-string correction problem"): 1 for each word without a tag, for each tag without a word, and
    for each pair in which only one is punctuation. Ties are broken in favour of early pairs and late omissions.
    """
    if len(tags) == len(words):
        return list(range(len(words)))
    if len(tags) * len(words) > _MOST_CELLS:
        return [number if number < len(words) else None for number in range(len(tags))]
    steps = _steps([tag in _LETTERED_TAGS or is_mark(tag) for tag in tags], [is_mark(word) for word in words])
    found: list[int | None] = []
    word = 0
    while len(found) < len(tags):
        step = steps[len(found)][word]
        if step == _WORD_ALONE:
            word += 1
        else:
            found.append(word if step == _BOTH else None)
            word += step == _BOTH
    return found


def _steps(tag_marks: Sequence[bool], word_marks: Sequence[bool]) -> list[list[int]]:
    """Returns the best step from each state, `[tags done][words done]`."""
    words = len(word_marks)
    below = list(range(words, -1, -1))  # all tags are done: each word left costs 1
    rows: list[list[int]] = []
    for tags_left, tag_mark in enumerate(reversed(tag_marks), start=1):
        costs, steps = [0] * words + [tags_left], [0] * words + [_TAG_ALONE]
        for word in range(words - 1, -1, -1):
            both = below[word + 1] + (tag_mark != word_marks[word])
            costs[word], steps[word] = min(
                (both, _BOTH), (costs[word + 1] + 1, _WORD_ALONE), (below[word] + 1, _TAG_ALONE)
            )
        below = costs
        rows.append(steps)
    return rows[::-1]
