import sys

import pytest

from t2t.problems.filters import language
from t2t.problems.filters.language import language_filters
from t2t.problems.text_files import TextFilesOptions
from t2t.runs.names import get_problem
from tests.errors import refused

ENGLISH = "The committee will meet again on Thursday to vote on the proposal."
GERMAN = "Der Ausschuss wird am Donnerstag erneut zusammentreten, um darüber abzustimmen."
CHINESE = "委员会将于星期四再次开会表决该提案。"
OPTIONS = TextFilesOptions()


def kept(pairs, source="en", target="de"):
    filters = list(language_filters(OPTIONS, {"inputs": source, "targets": target}))
    samples = [dict(zip(("inputs", "targets"), pair, strict=True)) for pair in pairs]
    return [pair for pair, sample in zip(pairs, samples, strict=True) if all(one.keeps(sample) for one in filters)]


def test_both_sides_must_be_in_their_language():
    pairs = [(ENGLISH, GERMAN), (ENGLISH, ENGLISH), (GERMAN, GERMAN), (GERMAN, ENGLISH), (CHINESE, GERMAN)]
    assert kept(pairs) == pairs[:1]
    assert kept(pairs, source="") == [pairs[0], pairs[2], pairs[4]]
    assert kept([(ENGLISH, 3)]) == [(ENGLISH, 3)], "what is no text passes"


def test_a_script_or_country_in_a_code_does_not_count():
    assert kept([(CHINESE, GERMAN)], "zh-TW", "DE_at") == [(CHINESE, GERMAN)]


def test_reasons_name_side_and_language():
    reasons = [one.reason for one in language_filters(OPTIONS, {"inputs": "en", "targets": "de"})]
    assert reasons == ["with a source in another language than en", "with a target in another language than de"]


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
    language._load_identifier.cache_clear()
    with refused("--filter_language:", "py3langid", "'t2t-keras[language]'"):
        list(language_filters(OPTIONS, {"targets": "de"}))
    language._load_identifier.cache_clear()
