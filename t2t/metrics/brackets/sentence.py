"""A bracketed line as EVALB reads it: its words with their tags, and its brackets as spans of words.

EVALB reads a line character by character and continues after most faults. Its report depends on how it reads a broken
line, so this reader does the same. For reading trees, see `t2t.features.treebank_trees`.
"""

import dataclasses
import enum
import re
import string

from t2t.metrics.brackets.parameters import Parameters

TWO_ELEMENTS = "More than two elements in a bracket"
UNREADABLE = "Reading sentence"
TOO_MANY_CLOSED = "Bracketing unbalance (too many close bracket)"
STILL_OPEN = "Bracketing is unbalanced (too many open bracket)"

_QUOTATION_MARKS = ("'", '"', "/")
_OPENING = re.compile(r"\(([^\s()]*)(?:\s+([^\s()]*))?", re.ASCII)


class Result(enum.IntEnum):
    """What became of a word's tag or of a bracket; the numbers are those of EVALB's debug output."""

    WRONG = 0
    RIGHT = 1
    DELETED = 5
    UNDECIDED = 9


@dataclasses.dataclass(slots=True)
class Word:
    """A word that counts."""

    word: str
    tag: str
    result: Result = Result.UNDECIDED


@dataclasses.dataclass(slots=True)
class Bracket:
    """A node above words, and the words under it: those from `start` up to, not including, `end`."""

    label: str
    start: int
    text_start: int
    """Index in the line, after the label."""
    end: int = -1
    """-1 where it is never closed."""
    text_end: int = 0
    """Index in the line of the closing bracket."""
    result: Result = Result.UNDECIDED


@dataclasses.dataclass(slots=True)
class Quote:
    """A quotation mark, deleted or not, and where it stands."""

    word: str
    tag: str
    index: int
    """Number of words that count before it."""
    bracket: int
    """Number of brackets opened before it."""
    around: tuple[int, ...]
    """Brackets that are open around it."""


@dataclasses.dataclass
class Sentence:
    """One line read."""

    text: str
    words: list[Word] = dataclasses.field(default_factory=list)
    brackets: list[Bracket] = dataclasses.field(default_factory=list)
    """In the order in which they open."""
    quotes: list[Quote] = dataclasses.field(default_factory=list)
    length: int = 0
    """Number of words that count for the length."""
    faults: list[str] = dataclasses.field(default_factory=list)
    """EVALB's messages about faults of the line, in the order found."""
    stuck: bool = False
    """Whether EVALB gets no further in the line and repeats its last complaint for ever."""


def read_sentence(text: str, parameters: Parameters) -> Sentence:
    """Reads one line; errors in it become faults of the sentence, not exceptions."""
    return _Reader(text, parameters).read()


class _Reader:
    def __init__(self, text: str, parameters: Parameters):
        self._text = text
        self._parameters = parameters
        self._sentence = Sentence(text)
        self._stack: dict[int, int] = {}
        """Index in EVALB's stack -> index of an open bracket."""
        self._top = 0
        """Below zero after surplus closing brackets: EVALB then uses the memory before its stack."""

    def read(self) -> Sentence:
        place = 0
        while place < len(self._text):
            if self._text[place] in string.whitespace:
                place += 1
            elif self._text[place] == "(":
                place = self._opened(place)
            elif self._text[place] == ")":
                self._closed(place)
                place += 1
            else:
                self._sentence.faults.append(UNREADABLE)
                self._sentence.stuck = True
                return self._sentence
        if self._top != 0:
            self._sentence.faults.append(STILL_OPEN)
        return self._sentence

    def _opened(self, place: int) -> int:
        """Reads `(TAG word)`, or `(LABEL` alone; returns the index after it."""
        found = _OPENING.match(self._text, place)
        assert found is not None, "a bracket opens here"
        label, word = found.groups()
        if word is not None:
            following = self._text[found.end() : found.end() + 1]
            if following == ")":
                self._tagged(label, word)
                return found.end() + 1
            if following != "(" and word:
                self._sentence.faults.append(TWO_ELEMENTS)
        sentence = self._sentence
        self._stack[self._top] = len(sentence.brackets)
        self._top += 1
        sentence.brackets.append(Bracket(label, start=len(sentence.words), text_start=found.end(1)))
        return found.end(1)

    def _tagged(self, tag: str, word: str) -> None:
        sentence, parameters = self._sentence, self._parameters
        if tag not in parameters.delete_labels_for_length:
            sentence.length += 1
        if tag in parameters.quote_labels and word in _QUOTATION_MARKS:
            around = tuple(self._stack[place] for place in range(self._top))
            sentence.quotes.append(Quote(word, tag, len(sentence.words), len(sentence.brackets), around))
        if tag not in parameters.delete_labels:
            sentence.words.append(Word(word, tag))

    def _closed(self, place: int) -> None:
        # The first surplus bracket goes unnoticed until the end of the line; memory before the stack is taken for zero.
        number = self._stack.get(self._top - 1, 0)
        if self._top < 0:
            self._sentence.faults.append(TOO_MANY_CLOSED)
        self._top -= 1
        if self._sentence.brackets:
            bracket = self._sentence.brackets[number]
            bracket.end, bracket.text_end = len(self._sentence.words), place
