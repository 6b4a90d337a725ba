"""Which word each tag belongs to, where a model wrote more tags than there are words, or fewer.

    The dog , however , ran .
    DT  NN  ,         , VBD .      one tag too few: `however` is left without, and no other word loses its own

Taken in order, one tag too few would put every later tag on the wrong word. Marks tell where it was: Penn treebanks tag
them by marks, mostly by themselves (Santorini 1990, "Part-of-speech tagging guidelines", section 2).
"""

import re
from collections.abc import Sequence

_MOST_CELLS = 1_000_000
"""Tags times words beyond which tags are taken in order: a second's work."""

_BRACKET = re.compile(r"-[LR][RSC]B-")
_TAGS_OF_MARKS = {"?": ".", "!": ".", ";": ":", "--": ":", "...": ":", '"': "''"}
_TAGS_OF_MARKS |= {mark: mark for mark in (",", ".", ":", "``", "''", "$", "#", "-LRB-", "-RRB-")}

_LETTERED_TAGS = ("HYPH", "NFP")
"""Tags of marks that later English treebanks have besides: hyphens, and marks that belong to no sentence."""

_BOTH, _WORD_ALONE, _TAG_ALONE = range(3)


def is_mark(text: str) -> bool:
    """Returns whether a word or a tag is punctuation: without letter or digit, or a bracket as treebanks write it."""
    return not any(map(str.isalnum, text)) or _BRACKET.fullmatch(text) is not None


def tag_of_mark(word: str) -> str | None:
    """Returns the Penn Treebank's tag of a mark (Marcus et al. 1993, table 2); None for any other word."""
    return _TAGS_OF_MARKS.get(word)


def places(tags: Sequence[str], words: Sequence[str]) -> list[int | None]:
    """Returns for each tag the number of its word, rising, or None for one too many.

    As many tags as words go in order. Otherwise the way is taken that leaves out least (Wagner and Fischer 1974, "The
    string-to-string correction problem"): 1 for each word without tag, for each tag without word, and for each mark
    that meets no mark. Of several such ways it is the one that pairs first and leaves out last.
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
    """Returns the best step from each place: `[tags done][words done]`."""
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
