import pytest

from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.specs.mixture import merge_problem_entries, mixture_of, select_problem_entries, split_mixture
from tests.errors import refused


def test_names_are_taken_apart_and_put_together():
    assert split_mixture("algorithmic_copy_rev") == ("algorithmic_copy_rev",)
    assert split_mixture("b-a-c_2") == ("b", "a", "c_2")
    assert mixture_of(("b", "a", "c_2")) == "b-a-c_2"


@pytest.mark.parametrize("name", ["a-b-a", "a-", "a--b"])
def test_mixtures_that_are_none_are_refused(name):
    with refused(f"--problems={name}:"):
        split_mixture(name)


def test_what_each_problem_has_is_told_apart_where_there_are_several():
    entries = {"a": {"inputs": 1, "targets": 2}, "ab": {"targets": 3}}
    assert merge_problem_entries(entries) == {"a.inputs": 1, "a.targets": 2, "ab.targets": 3}
    for problem, own in entries.items():
        assert select_problem_entries(merge_problem_entries(entries), problem) == own
    assert merge_problem_entries({"a": {"inputs": 1}}) == {"inputs": 1}


def test_the_spec_of_a_mixture_has_members_and_that_of_a_problem_is_as_before():
    tokens = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=9)
    words = ProblemSpec(name="words", features={"inputs": tokens, "targets": tokens}, shared_vocabulary=True)
    both = ProblemSpec(name="words-others", members=(words, ProblemSpec(name="others", features=words.features)))
    assert both.member("words") == words
    assert both.inputs == tokens
    assert set(words.to_dict()) == {"name", "features", "shared_vocabulary"}
