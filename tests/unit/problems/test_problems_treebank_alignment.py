"""Which word a tag belongs to: by hand, and against trying every way."""

import functools

import hypothesis
import hypothesis.strategies as st
import pytest

from t2t.problems.treebank.alignment import is_mark, places, tag_of_mark

SIDE = st.lists(st.sampled_from(["a", "b", ",", "."]), max_size=6)


def test_marks_and_their_tags_are_the_penn_treebanks():
    assert [text for text in [",", ".", "''", "--", "-LRB-", "-RCB-", "(", "$", "…"] if not is_mark(text)] == []
    assert [text for text in ["a", "7", "wild-type", "NN", "-NONE-", "HYPH", "é"] if is_mark(text)] == []
    assert [tag_of_mark(word) for word in ["?", ";", ",", "-LRB-", "dog"]] == [".", ":", ",", "-LRB-", None]


@pytest.mark.parametrize(("tags", "words", "found"), [
    ("DT NN , , VBD .", "The dog , however , ran .", [0, 1, 2, 4, 5, 6]),
    ("DT NN NN , RB , VBD .", "The dog , however , ran .", [0, 1, None, 2, 3, 4, 5, 6]),
    ("DT NN", "The dog ran", [0, 1]),
    ("DT NN VBD RB", "The dog ran", [0, 1, 2, None]),
    (", NN", "The dog", [0, 1]),  # as many tags as words go in order, whatever they are
    ("", "The dog", []),
    ("DT", "", [None]),
    ("CD HYPH", "5 - HT", [0, 1]),  # a tag of marks, though it has letters
    ("CD SYM", "5 - HT", [0, 2]),  # `-` alone costs 1; `-` with SYM, and HT alone, 2
])  # fmt: skip
def test_places_by_hand(tags, words, found):
    assert places(tags.split(), words.split()) == found


def cost_of(found, tags, words):
    """Returns the cost of an alignment: words without tag, tags without word, punctuation aligned with none."""
    pairs = [(tag, words[place]) for tag, place in zip(tags, found, strict=True) if place is not None]
    unlike = sum(is_mark(tag) != is_mark(word) for tag, word in pairs)
    return len(words) - len(pairs) + len(tags) - len(pairs) + unlike


def least_cost(tags, words):
    """Returns the least cost of all alignments, by brute force."""

    @functools.cache
    def from_here(tag, word):
        if tag == len(tags) or word == len(words):
            return len(tags) - tag + len(words) - word
        return min(
            from_here(tag + 1, word + 1) + (is_mark(tags[tag]) != is_mark(words[word])),
            from_here(tag + 1, word) + 1,
            from_here(tag, word + 1) + 1,
        )

    return from_here(0, 0)


@hypothesis.given(SIDE, SIDE)
def test_places_rise_and_leave_out_least(tags, words):
    found = places(tags, words)
    taken = [place for place in found if place is not None]
    assert taken == sorted(set(taken))
    assert all(0 <= place < len(words) for place in taken)
    if len(tags) != len(words):
        assert cost_of(found, tags, words) == least_cost(tags, words)


def test_very_many_tags_are_taken_in_order():
    assert places(["NN"] * 1001, ["a"] * 1000) == [*range(1000), None]
