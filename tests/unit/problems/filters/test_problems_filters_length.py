import pytest

from t2t.problems.filters.length import length_filters, share_of_letters
from t2t.problems.filters.options import FilterOptions
from t2t.problems.filters.selection import EMPTY, drop_reasons
from t2t.runs.names import get_problem
from tests.errors import refused


def kept(pairs, features=("inputs", "targets"), **options):
    """The pairs that the one filter of some options keeps."""
    (one,) = length_filters(FilterOptions(**options), features)
    return [pair for pair in pairs if one.keeps(dict(zip(features, pair, strict=True)))]


def test_no_filter_without_an_option():
    assert list(length_filters(FilterOptions(), ("inputs", "targets"))) == []


@pytest.mark.parametrize(
    ("options", "taken", "dropped"),
    [
        ({"filter_min_words": 2}, [("a b", "a b c"), ("a\tb", "a\u3000b c d")], [("a", "a b"), ("a b", " a ")]),
        ({"filter_max_words": 2}, [("a", "a b"), ("a b", " a ")], [("a b", "a b c"), ("a\tb", "a\u3000b c d")]),
        ({"filter_word_length": 4}, [("four", "äöüß"), ("ab cd ef", "gh ij")], [("four", "fiver"), ("a fiver", "b")]),
        (
            {"filter_length_ratio": 2},
            [("ab", "abcd"), ("  ab ", "abcd"), ("中文", "a bc")],
            [("abcde", "ab"), ("ab", "abcde")],
        ),
        ({"filter_length_ratio": 2.5}, [("abcde", "ab"), ("ab", "abcde")], []),
        (
            {"filter_letters": 0.5},
            [("one 1", "eins 1"), ("ab12", "ab12")],
            [("10.30", "halb elf"), ("half past", "10:30")],
        ),
        ({"filter_min_words": 2}, [("a b", 3)], []),  # a side that is no text
    ],
)
def test_pairs_are_taken_by_words_and_characters_of_both_sides(options, taken, dropped):
    assert kept([*dropped, *taken], **options) == taken


@pytest.mark.parametrize(
    ("text", "share"),
    [("abc", 1), ("12:45", 0), ("a 1", 1 / 2), ("नमस्ते", 1), ("é!", 1 / 2), ("e\u0301", 1), ("中文1", 2 / 3), ("", 0)],
)
def test_the_share_of_letters(text, share):
    assert share_of_letters(text) == pytest.approx(share)


def test_a_problem_may_have_one_text():
    assert kept([("a b",), ("a",)], ("targets",), filter_min_words=2) == [("a b",)]
    with refused("--filter_length_ratio=3:", 1, "(targets)"):
        list(length_filters(FilterOptions(filter_length_ratio=3), ("targets",)))


@pytest.mark.parametrize("problem", ["parsing_trees", "speech_generate_files"])
def test_filters_are_of_the_words_of_trees_and_recordings_alone(problem):
    (most,) = get_problem(problem, {"filter_max_words": 3}).sample_filters()
    assert most.keeps({"inputs": "A dog runs", "targets": "S NP DT NN /NP VP VBZ /VP /S"})
    assert not most.keeps({"inputs": "A dog runs fast", "targets": "S"})
    with refused("--filter_length_ratio=3:", 1, "(inputs)"):
        get_problem(problem, {"filter_length_ratio": 3.0}).sample_filters()


def test_every_reason_has_its_value():
    options = FilterOptions(
        filter_min_words=2, filter_max_words=1000, filter_word_length=40, filter_letters=0.5, filter_length_ratio=2.5
    )
    assert [one.reason for one in length_filters(options, ("inputs", "targets"))] == [
        "with fewer than 2 words", "with more than 1,000 words", "with a word of more than 40 characters",
        "with less than 0.5 letters", "with a length ratio above 2.5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        *(("filter_length_ratio", -1.0, 0), ("filter_min_words", -1, 0), ("filter_letters", 1.5, 1)),
        *(("filter_duplicates", "both", "source"), ("filter_language", "yes", "bool")),
    ],
)
def test_values_that_no_option_has(option, value, allowed):
    with refused(f"{option}={value!r}:", allowed):
        FilterOptions(**{option: value})


def test_a_sample_is_empty_by_its_features_alone():
    """Samples may have more than the features: notes, or the inputs of a corpus for a language model."""
    given = [
        {"inputs": "a", "targets": "b", "note": ""},
        {"inputs": "a", "targets": " "},
        {"inputs": "", "targets": "b"},
    ]
    assert drop_reasons(get_problem("translate_ende_wmt32k"), given) == [None, EMPTY, EMPTY]
    assert drop_reasons(get_problem("languagemodel_ptb10k"), given) == [None, EMPTY, None]
