import pytest

from t2t.errors import UserError
from t2t.problems.filters.length import length_filters, share_of_letters
from t2t.problems.filters.options import FilterOptions


def kept(pairs, features=("inputs", "targets"), **options):
    """The pairs that the one filter of some options keeps."""
    (one,) = length_filters(FilterOptions(**options), features)
    return [pair for pair in pairs if one.keeps(dict(zip(features, pair, strict=True)))]


def test_no_filter_without_an_option():
    assert list(length_filters(FilterOptions(), ("inputs", "targets"))) == []


def test_words_are_counted_on_each_side():
    pairs = [("a b", "a b c"), ("a", "a b"), ("a b", " a "), ("a\tb", "a\u3000b c d")]
    assert kept(pairs, filter_min_words=2) == [("a b", "a b c"), ("a\tb", "a\u3000b c d")]
    assert kept(pairs, filter_max_words=2) == [("a", "a b"), ("a b", " a ")]
    assert kept(pairs, filter_max_words=3) == pairs[:3]


def test_a_word_is_as_long_as_its_characters():
    pairs = [("four", "äöüß"), ("four", "fiver"), ("a fiver", "b"), ("ab cd ef", "gh ij")]
    assert kept(pairs, filter_word_length=4) == [pairs[0], pairs[3]]


def test_the_ratio_is_of_characters_and_has_no_direction():
    pairs = [("ab", "abcd"), ("abcde", "ab"), ("ab", "abcde"), ("  ab ", "abcd"), ("中文", "a bc")]
    assert kept(pairs, filter_length_ratio=2) == [pairs[0], pairs[3], pairs[4]]
    assert kept(pairs, filter_length_ratio=2.5) == pairs


@pytest.mark.parametrize(
    ("text", "share"),
    [("abc", 1), ("12:45", 0), ("a 1", 1 / 2), ("नमस्ते", 1), ("é!", 1 / 2), ("e\u0301", 1), ("中文1", 2 / 3), ("", 0)],
)
def test_the_share_of_letters(text, share):
    assert share_of_letters(text) == pytest.approx(share)


def test_texts_with_few_letters_are_dropped_from_either_side():
    pairs = [("one 1", "eins 1"), ("10.30", "halb elf"), ("half past", "10:30"), ("ab12", "ab12")]
    assert kept(pairs, filter_letters=0.5) == [pairs[0], pairs[3]]


def test_a_text_alone_and_a_side_that_is_no_text():
    assert kept([("a b",), ("a",)], ("targets",), filter_min_words=2) == [("a b",)]
    assert kept([("a b", 3)], filter_min_words=2) == [("a b", 3)]


def test_every_reason_has_its_value():
    options = FilterOptions(
        filter_min_words=2, filter_max_words=1000, filter_word_length=40, filter_letters=0.5, filter_length_ratio=2.5
    )
    assert [one.reason for one in length_filters(options, ("inputs", "targets"))] == [
        "with fewer than 2 words", "with more than 1,000 words", "with a word of more than 40 characters",
        "with less than 0.5 letters", "with a length ratio above 2.5",
    ]  # fmt: skip


def test_a_ratio_needs_two_texts():
    with pytest.raises(UserError) as raised:
        list(length_filters(FilterOptions(filter_length_ratio=3), ("targets",)))
    assert str(raised.value) == (
        "--filter_length_ratio=3: it compares two texts, and an example of this problem has 1 (targets); leave it out"
    )


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("filter_length_ratio", -1.0, "it is at least 0"),
        ("filter_min_words", -1, "it is at least 0"),
        ("filter_letters", 1.5, "it is at most 1"),
        ("filter_duplicates", "both", "use one of , pair, source, target"),
        ("filter_language", "yes", "it is of type bool"),
    ],
)
def test_values_that_no_option_has(option, value, said):
    with pytest.raises(UserError, match=f"problem option {option}={value!r}: {said}"):
        FilterOptions(**{option: value})
