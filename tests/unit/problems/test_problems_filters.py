"""Filters of samples: by language, length, score and weight."""

import random
import sys

import pytest

from t2t.problems.filters import (
    BY_WEIGHT,
    EMPTY,
    FilterOptions,
    _load_identifier,
    draw_copies,
    drop_reasons,
    language_filters,
    length_filters,
    parse_score,
    parse_weights,
    score_filter,
    share_of_letters,
)
from t2t.problems.samples import SampleRecord
from t2t.problems.text_files import Text2TextFiles, TextFilesOptions
from t2t.runs.names import get_problem
from tests.errors import refused

ENGLISH = "The committee will meet again on Thursday to vote on the proposal."
GERMAN = "Der Ausschuss wird am Donnerstag erneut zusammentreten, um darüber abzustimmen."
CHINESE = "委员会将于星期四再次开会表决该提案。"
OPTIONS = TextFilesOptions()


def kept_by_language(pairs, source="en", target="de"):
    filters = list(language_filters(OPTIONS, {"inputs": source, "targets": target}))
    samples = [dict(zip(("inputs", "targets"), pair, strict=True)) for pair in pairs]
    return [pair for pair, sample in zip(pairs, samples, strict=True) if all(one.keeps(sample) for one in filters)]


def test_both_sides_must_be_in_their_language():
    pairs = [(ENGLISH, GERMAN), (ENGLISH, ENGLISH), (GERMAN, GERMAN), (GERMAN, ENGLISH), (CHINESE, GERMAN)]
    assert kept_by_language(pairs) == pairs[:1]
    assert kept_by_language(pairs, source="") == [pairs[0], pairs[2], pairs[4]]
    assert kept_by_language([(ENGLISH, 3)]) == [(ENGLISH, 3)], "what is no text passes"
    problem = Text2TextFiles(filter_language=True, source_language="en", target_language="de")
    reasons = [one.reason for one in problem.sample_filters()]
    assert reasons == ["with a source in another language than en", "with a target in another language than de"]
    # A script or country in a code does not count.
    assert kept_by_language([(CHINESE, GERMAN)], "zh-TW", "DE_at") == [(CHINESE, GERMAN)]


@pytest.mark.parametrize(("languages", "names"), [
    ({"inputs": "", "targets": ""}, "--source_language --target_language"),
    ({"targets": ""}, "--target_language"),
    ({"inputs": "en", "targets": "deu"}, "'deu' targets py3langid"),
])  # fmt: skip
def test_languages_that_cannot_be_told(languages, names):
    with refused("--filter_language:", *names.split()):
        list(language_filters(OPTIONS, languages))


@pytest.mark.parametrize(
    "problem", ["languagemodel_files", "classify_files", "speech_files", "speech_generate_files", "parsing_trees"]
)
def test_flags_that_a_problem_lacks_are_not_recommended(problem):
    with refused("--filter_language:") as raised:
        get_problem(problem, {"filter_language": True}).sample_filters()
    assert str(raised.value).count("--") == 1


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    _load_identifier.cache_clear()
    with refused("--filter_language:", "py3langid", "'t2t-keras[language]'"):
        list(language_filters(OPTIONS, {"targets": "de"}))
    _load_identifier.cache_clear()


def kept_by_length(pairs, features=("inputs", "targets"), **options):
    """The pairs that the one filter of some options keeps."""
    (one,) = length_filters(FilterOptions(**options), features)
    return [pair for pair in pairs if one.keeps(dict(zip(features, pair, strict=True)))]


@pytest.mark.parametrize(("options", "taken", "dropped"), [
    ({"filter_min_words": 2}, [("a b", "a b c"), ("a\tb", "a\u3000b c d")], [("a", "a b"), ("a b", " a ")]),
    ({"filter_max_words": 2}, [("a", "a b"), ("a b", " a ")], [("a b", "a b c"), ("a\tb", "a\u3000b c d")]),
    ({"filter_word_length": 4}, [("four", "äöüß"), ("ab cd ef", "gh ij")], [("four", "fiver"), ("a fiver", "b")]),
    (
        {"filter_length_ratio": 2},
        [("ab", "abcd"), ("  ab ", "abcd"), ("中文", "a bc")],
        [("abcde", "ab"), ("ab", "abcde")],
    ),
    ({"filter_length_ratio": 2.5}, [("abcde", "ab"), ("ab", "abcde")], []),
    ({"filter_letters": 0.5}, [("one 1", "eins 1"), ("ab12", "ab12")], [("10.30", "halb elf"), ("half past", "10:30")]),
    ({"filter_min_words": 2}, [("a b", 3)], []),  # a side that is no text
    ({"filters": "max_words=2"}, [("a", "a b"), ("a b", " a ")], [("a b", "a b c")]),  # by its registered name
])  # fmt: skip
def test_pairs_are_taken_by_words_and_characters_of_both_sides(options, taken, dropped):
    assert kept_by_length([*dropped, *taken], **options) == taken


@pytest.mark.parametrize(("text", "share"), [
    ("abc", 1), ("12:45", 0), ("a 1", 1 / 2), ("नमस्ते", 1), ("é!", 1 / 2), ("e\u0301", 1), ("中文1", 2 / 3), ("", 0),
])  # fmt: skip
def test_the_share_of_letters(text, share):
    assert share_of_letters(text) == pytest.approx(share)


def test_a_problem_may_have_one_text():
    assert kept_by_length([("a b",), ("a",)], ("targets",), filter_min_words=2) == [("a b",)]
    with refused("--filter_length_ratio=3:", 1, "(targets)"):
        list(length_filters(FilterOptions(filter_length_ratio=3), ("targets",)))


@pytest.mark.parametrize("problem", ["parsing_trees", "speech_generate_files"])
def test_filters_are_of_the_words_of_trees_and_recordings_alone(problem):
    (most,) = get_problem(problem, {"filter_max_words": 3}).sample_filters()
    assert most.keeps({"inputs": "A dog runs", "targets": "S NP DT NN /NP VP VBZ /VP /S"})
    assert not most.keeps({"inputs": "A dog runs fast", "targets": "S"})
    with refused("--filter_length_ratio=3:", 1, "(inputs)"):
        get_problem(problem, {"filter_length_ratio": 3.0}).sample_filters()


def test_every_option_has_its_filter_whose_reason_has_its_value():
    assert list(length_filters(FilterOptions(), ("inputs", "targets"))) == []
    options = FilterOptions(
        filter_min_words=2, filter_max_words=1000, filter_word_length=40, filter_letters=0.5, filter_length_ratio=2.5
    )
    assert [one.reason for one in length_filters(options, ("inputs", "targets"))] == [
        "with fewer than 2 words", "with more than 1,000 words", "with a word of more than 40 characters",
        "with less than 0.5 letters", "with a length ratio above 2.5",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["letters", "letters=much", "letters=0.1,letters=0.2", "letters=nan", "letters=1;a=2"])
def test_registered_filters_are_given_once_with_a_number(text):
    with refused(f"--filters={text}:", "name=0.3"):
        list(length_filters(FilterOptions(filters=text), ("targets",)))


def test_a_filter_that_is_not_registered_is_refused_with_a_near_name():
    with refused("filter", "'lettres'", "letters", "--registry_help;"):
        list(length_filters(FilterOptions(filters="lettres=1"), ("targets",)))


@pytest.mark.parametrize(("option", "value", "allowed"), [
    *(("filter_length_ratio", -1.0, 0), ("filter_min_words", -1, 0), ("filter_letters", 1.5, 1.0)),
    *(("filter_duplicates", "both", "source"), ("filter_language", "yes", "True")),
])  # fmt: skip
def test_values_that_no_option_has(option, value, allowed):
    with refused(f"{option}={value!r}:", allowed):
        FilterOptions(**{option: value})


def test_a_score_is_a_column_of_a_line_and_the_threshold_itself_is_kept():
    assert parse_score("0.25", 1, "f") == 0.25
    assert parse_score("a b\tc d\t-1e-3\tmore", 3, "f") == -0.001
    assert parse_score(" 7 ", 1, "f") == 7
    one = score_filter(0.5)
    assert [score for score in (0.4, 0.5, 0.6) if one.keeps_record(SampleRecord({}, score))] == [0.5, 0.6]
    assert one.reason == "with a score below 0.5"


@pytest.mark.parametrize(("line", "column", "found"), [
    ("a\tb", 3, 2), ("0.5", 2, 1), ("a\tb", 2, "'b'"), ("", 1, "''"), ("nan", 1, "'nan'"),
    ("x" * 50, 1, f"'{'x' * 40}'"),
])  # fmt: skip
def test_lines_without_a_score_are_named(line, column, found):
    with refused("scores.txt,", "1,234,", found, "--train_score_column"):
        parse_score(line, column, "scores.txt, line 1,234")


@pytest.mark.parametrize(("text", "names"), [
    ("1", "1 2 a.en b.en"),
    ("1,2,3", "3 2 a.en b.en"),
    *((f"1,{weight}", repr(weight)) for weight in ("two", "", "0", "inf")),
])  # fmt: skip
def test_each_file_has_one_weight_above_zero(text, names):
    with refused(f"--train_weights={text}:", *names.split()):
        parse_weights(text, ["a.en", "b.en"])
    assert parse_weights("1, 0.5,20", ["a", "b", "c"]) == [1, 0.5, 20]


@pytest.mark.parametrize("weight", [1.0, 3.0, 0.25, 2.5])
def test_copies_are_the_weight_on_average_and_nearly_it_each_time(weight):
    rng = random.Random(5)
    copies = [draw_copies(weight, rng) for _ in range(20_000)]
    assert all(abs(one - weight) < 1 for one in copies)
    assert sum(copies) / len(copies) == pytest.approx(weight, abs=0.02)  # 5 standard deviations, at most 0.5 / sqrt(n)


def test_samples_without_a_copy_are_dropped():
    assert [BY_WEIGHT.keeps_record(SampleRecord({}, copies=copies)) for copies in (1, 2, 0)] == [True, True, False]


# === Empty samples ===
def test_a_sample_is_empty_by_its_features_alone():
    """Samples may have more than the features: notes, or the inputs of a corpus for a language model."""
    given = [
        {"inputs": "a", "targets": "b", "note": ""},
        {"inputs": "a", "targets": " "},
        {"inputs": "", "targets": "b"},
    ]
    given = [SampleRecord(sample) for sample in given]
    assert drop_reasons(get_problem("text2text_files"), given) == [None, EMPTY, EMPTY]
    assert drop_reasons(get_problem("languagemodel_files"), given) == [None, EMPTY, None]
