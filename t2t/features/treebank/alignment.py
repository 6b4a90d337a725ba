"""Aligns tags with words if a model wrote more tags than there are words, or fewer.

    The dog , however , ran .
    DT  NN  ,         , VBD .      one tag too few: `however` is left without, and no other word loses its own

If tags were assigned in order, a missing tag would put every later tag on the wrong word. Punctuation shows where it is
missing: in Penn treebanks the tags of punctuation are marks too, mostly the same ones (Santorini 1990, "Part-of-speech
tagging guidelines", section 2).
"""

import re
from collections.abc import Sequence

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


def places(tags: Sequence[str], words: Sequence[str]) -> list[int | None]:
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
