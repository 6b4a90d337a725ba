"""Features of a problem before it has data, with the nominal sizes of its vocabularies."""

import pytest

from t2t.problems.text_problems import Text2Text, TextProblem
from t2t.registry import PROBLEMS
from t2t.runs.names import get_problem
from t2t.specs.features import FeatureKind
from t2t.text.token import TokenEncoder
from tests.errors import refused

FROM_DATA = ("classify_files", "speech_classify_files")
"""Their classes are collected from their files."""


@pytest.mark.parametrize("name", PROBLEMS.names())
def test_every_problem_but_those_of_unknown_classes_has_sizes(name):
    spec = get_problem(name).nominal_spec()
    assert (spec is None) == (name in FROM_DATA)
    for feature in spec.features.values() if spec else ():
        assert (feature.vocab_size > 0) == (feature.kind in (FeatureKind.TOKENS, FeatureKind.LABEL))


@pytest.mark.parametrize("name", [
    "algorithmic_addition_decimal40", "algorithmic_addition_decimal40_rev", "tiny_algo_copy", "image_mnist",
    "image_mnist_gen", "image_cifar10_plain_gen", "speech_generate_files", "wmt_ende_characters",
    "sentiment_imdb_characters",
])  # fmt: skip
def test_known_vocabularies_have_their_sizes(name, source):
    """The same sizes as in `spec()` once the encoders exist, which these problems build without data."""
    problem = get_problem(name)
    encoders = problem.stored.build_encoders(source)
    assert problem.nominal_spec() == problem.with_encoders(encoders).spec()


@pytest.mark.parametrize("name", ["languagemodel_lm1b_characters_rev", "image_mnist_plain_gen_copy", "image_mnist_rev"])
def test_variants_without_a_text_to_swap_are_refused_before_there_is_data_as_after(name, source):
    problem = get_problem(name)
    with refused(f"{name}:", "'inputs'") as before:
        problem.nominal_spec()
    with refused() as after:
        problem.with_encoders(problem.stored.build_encoders(source))
    assert str(before.value) == str(after.value)


def test_sizes_are_those_that_were_asked_for(tmp_path):
    assert get_problem("text2text_files", {"vocab_size": 123}).nominal_spec().inputs.vocab_size == 123
    TokenEncoder(["a", "b", "c"]).save(tmp_path / "words.token")
    given = get_problem("wmt_ende_tokens_32k", {"vocab_file": f"{tmp_path}/words.token"}).nominal_spec()
    assert given.targets.vocab_size == 6
    assert given.shared_vocabulary


@pytest.mark.parametrize("shared", [False, True])
def test_one_vocabulary_or_two(shared):
    class Pairs(Text2Text):
        shared_vocabulary = shared
        generate_samples = None

    spec = Pairs().nominal_spec()
    assert spec.shared_vocabulary == shared
    assert spec.inputs.vocab_size == spec.targets.vocab_size == TextProblem.vocab_size
