import pytest

from t2t.errors import UserError
from t2t.files.trust import read_record
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.specs.mixture import merge_problem_entries, mixture_of, select_problem_entries, split_mixture


def test_names_are_taken_apart_and_put_together():
    assert split_mixture("algorithmic_copy_rev") == ("algorithmic_copy_rev",)
    assert split_mixture("b-a-c_2") == ("b", "a", "c_2")
    assert mixture_of(("b", "a", "c_2")) == "b-a-c_2"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a-b-a", "--problems=a-b-a: a is in it twice; name each problem once"),
        ("a-", "--problems=a-: a name is missing; give names of problems with one - between two"),
        ("a--b", "--problems=a--b: a name is missing; give names of problems with one - between two"),
    ],
)
def test_mixtures_that_are_none_are_refused(name, text):
    with pytest.raises(UserError) as error:
        split_mixture(name)
    assert str(error.value) == text


def test_what_each_problem_has_is_told_apart_where_there_are_several():
    entries = {"a": {"inputs": 1, "targets": 2}, "ab": {"targets": 3}}
    assert merge_problem_entries(entries) == {"a.inputs": 1, "a.targets": 2, "ab.targets": 3}
    for problem, own in entries.items():
        assert select_problem_entries(merge_problem_entries(entries), problem) == own
    assert merge_problem_entries({"a": {"inputs": 1}}) == {"inputs": 1}


def test_the_spec_of_a_mixture_comes_back_from_json_and_that_of_a_problem_is_as_before():
    tokens, label = (FeatureSpec(kind=kind, vocab_size=9) for kind in (FeatureKind.TOKENS, FeatureKind.LABEL))
    words = ProblemSpec(name="words", features={"inputs": tokens, "targets": tokens}, shared_vocabulary=True)
    classes = ProblemSpec(name="classes", features={"inputs": tokens, "targets": label})
    both = ProblemSpec(name="words-classes", members=(words, classes))
    assert read_record(ProblemSpec, both.to_dict()) == both
    assert both.member("classes") == classes
    assert both.inputs == tokens
    assert set(words.to_dict()) == {"name", "features", "shared_vocabulary"}
