"""Properties of every registered problem; newly registered problems are tested automatically."""

import dataclasses
import functools
import inspect
import itertools
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from t2t.data.columns import pack
from t2t.files.trust import read_record
from t2t.metrics import metric_names
from t2t.problems.base import Problem, Source, declared_spec
from t2t.problems.text_problems import TextProblem
from t2t.problems.variants import SUFFIXES
from t2t.registry import PROBLEMS
from t2t.runs.names import get_problem
from t2t.specs import DEV, EOS_ID, INPUTS, PAD_ID, SPLITS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind, ProblemSpec
from t2t.text.encoder import learned_classes
from t2t.text.words import TokenEncoder
from tests.errors import refused

NAMES = PROBLEMS.names()
SELF_MADE = [name for name in NAMES if not get_problem(name).requirements()]
"""Problems that need no files."""
KEPT = {"translate_ende_numbers"}
"""Problems whose samples come from files of the package, whatever the seed."""
FROM_FILES = [name for name in NAMES if name not in SELF_MADE and "Datasets" not in get_problem(name).requirements()]
"""Problems that need files from the user."""
TWO_TEXTS = [name for name in NAMES if getattr(get_problem(name), "text_features", ()) == (INPUTS, TARGETS)]
"""Problems with text on both sides."""
SAMPLES = 120
"""More than the size of the smallest dev split, 100, so that the end of a split is reached, too."""
VOCABULARY_SAMPLES = 2000


def draw(problem, split, tmp_path, seed=1, count=SAMPLES):
    return list(itertools.islice(problem.generate_samples(split, Source(tmp_path, random.Random(seed))), count))


@functools.cache
def drawn(name, split):
    """The samples of a problem without files, drawn once."""
    return draw(get_problem(name), split, Path("no files"))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_problem_does_is_in_few_classes(name):
    above = type(get_problem(name)).__mro__[1:]
    assert len([cls for cls in above if cls.__module__.startswith("t2t.")]) <= 4


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Returns a problem with a vocabulary learnt from its first samples; each is prepared once."""
    found = {}

    def prepare(name):
        if name not in found:
            problem, sampling = get_problem(name), get_problem(name)
            sampling.generate_samples = lambda split, source: itertools.islice(
                problem.generate_samples(split, source), VOCABULARY_SAMPLES
            )
            encoders = sampling.build_encoders(Source(tmp_path_factory.mktemp("raw"), random.Random(1)))
            found[name] = problem.with_encoders(encoders)
        return found[name]

    return prepare


@pytest.mark.parametrize("name", NAMES)
def test_declares_what_exists(name):
    problem = get_problem(name)
    assert isinstance(problem, Problem)
    assert problem.name == PROBLEMS.entry(name).name
    assert {TRAIN, DEV} <= set(problem.splits) <= set(SPLITS)
    assert problem.metrics
    assert set(problem.metrics) <= set(metric_names())
    assert problem.max_length > 1
    assert not isinstance(problem, TextProblem) or problem.vocab_kind in learned_classes()
    assert PROBLEMS.entry(name).summary.endswith(".")
    assert problem.options.changed() == {}
    documentation = inspect.getmodule(type(problem)).__doc__
    for word in ("inputs", "targets", "licence"):  # an instance, the source
        assert word in documentation.lower()


@pytest.mark.parametrize("name", NAMES)
def test_declares_its_features_before_there_is_data(name):
    problem = get_problem(name)
    spec = declared_spec(problem)
    assert spec.name == problem.name
    assert TARGETS in spec.features
    assert set(spec.features) <= {INPUTS, TARGETS}
    texts = {feature for feature, one in spec.features.items() if one.kind == FeatureKind.TOKENS}
    assert texts == set(getattr(problem, "text_features", ()))
    for feature in spec.features.values():
        assert len(feature.shape) == {FeatureKind.IMAGE: 3, FeatureKind.VIDEO: 3}.get(feature.kind, 0)
        assert bool(feature.sample_rate) == (feature.kind == FeatureKind.AUDIO)
    assert problem.sample_fault({})
    assert problem.sample_fault([])


@pytest.mark.parametrize("name", FROM_FILES)
def test_says_which_files_it_needs_and_refuses_to_go_on_without(name, tmp_path):
    problem = get_problem(name)
    assert re.search(r"--\w+", problem.requirements())
    with refused():
        draw(problem, TRAIN, tmp_path)


@pytest.mark.parametrize("name", SELF_MADE)
def test_samples_are_a_function_of_seed_and_split_and_hold_the_declared_features(name, tmp_path):
    problem = get_problem(name)
    for split in problem.splits:
        first = drawn(name, split)
        assert len(first) == min(SAMPLES, getattr(problem, f"{split}_size", SAMPLES))
        assert draw(problem, split, tmp_path, count=40) == first[:40]
        assert (draw(problem, split, tmp_path, seed=2, count=20) == first[:20]) == (name in KEPT)
        for sample in first:
            assert set(sample) == set(problem.text_features)
            assert all(text and text == text.strip() and "\n" not in text for text in sample.values())
    assert drawn(name, TRAIN) != drawn(name, DEV)


@pytest.mark.parametrize("name", SELF_MADE)
def test_encoding_gives_ids_of_the_vocabulary_that_decode_to_the_text(name, prepared):
    problem = prepared(name)
    spec = problem.spec()
    for split in problem.splits:
        samples = drawn(name, split)
        for sample, encoded in zip(samples, problem.encode_samples(samples), strict=True):
            assert set(encoded) == set(spec.features)
            for feature, ids in encoded.items():
                assert spec.features[feature].kind == FeatureKind.TOKENS
                assert ids.dtype == np.int32
                assert ids[-1] == EOS_ID
                assert ids.min() > PAD_ID
                assert ids.max() < spec.features[feature].vocab_size
                assert EOS_ID not in ids[:-1]
                assert problem.encoders[feature].decode(ids) == sample[feature]
            assert problem.decode_target(encoded[TARGETS]) == sample[TARGETS]
            if split == TRAIN:
                assert max(map(len, encoded.values())) <= problem.max_length


def example_of(spec, rng):
    """A random value of a feature, as `encode_samples` would return it."""
    if spec.kind == FeatureKind.IMAGE:
        return rng.integers(256, size=spec.shape).astype(np.uint8)
    if spec.kind == FeatureKind.TOKENS:
        return np.append(rng.integers(2, 100, size=rng.integers(1, 20)), EOS_ID).astype(np.int32)
    if spec.kind == FeatureKind.LABEL:
        return np.array(rng.integers(2), np.int32)
    if spec.kind == FeatureKind.VIDEO:
        return rng.integers(256, size=(rng.integers(1, 9), *spec.shape)).astype(np.uint8)
    return rng.normal(size=(rng.integers(400, 900), *spec.shape)).astype(np.float32)


@pytest.mark.parametrize("name", [name for name in NAMES if get_problem(name).preprocessors()])
def test_preprocessors_keep_kinds_dtypes_and_bounds_and_are_functions_of_their_generator(name):
    problem, rng = get_problem(name), np.random.default_rng(0)
    features = declared_spec(problem).features
    for preprocessor in problem.preprocessors():
        for number in range(20):
            example = {feature: example_of(features[feature], rng) for feature in preprocessor.features}
            before = {feature: array.copy() for feature, array in example.items()}
            made, again = (preprocessor(example, np.random.default_rng(number)) for _ in range(2))
            assert set(made) == set(example)
            for feature, array in made.items():
                assert np.array_equal(array, again[feature])
                assert np.array_equal(example[feature], before[feature])  # the caller's arrays are not changed
                assert array.dtype == example[feature].dtype
                assert preprocessor.changes_lengths or array.shape == example[feature].shape
                spec = dataclasses.replace(features[feature], vocab_size=features[feature].vocab_size or 100)
                pack([array], spec, feature, name)  # raises if it is not a valid value of the feature


@pytest.mark.parametrize("name", SELF_MADE)
def test_sampled_pieces_are_of_the_same_text(name, prepared):
    problem = prepared(name)
    if {encoder.kind for encoder in problem.encoders.values()} != {"sentencepiece"}:
        return
    (sampling,) = get_problem(name, {"subword_sampling": 0.3}).with_encoders(problem.encoders).preprocessors()
    samples = drawn(name, TRAIN)
    for number, (sample, encoded) in enumerate(zip(samples, problem.encode_samples(samples), strict=True)):
        made = sampling(encoded, np.random.default_rng(number))
        assert {feature: problem.encoders[feature].decode(ids) for feature, ids in made.items()} == sample
        for feature, ids in made.items():
            pack([ids], problem.spec().features[feature], feature, name)


@pytest.mark.parametrize("name", SELF_MADE)
def test_spec_is_plain_json(name, prepared):
    spec = prepared(name).spec()
    assert spec.name == PROBLEMS.entry(name).name
    assert read_record(ProblemSpec, json.loads(json.dumps(spec.to_dict()))) == spec
    assert spec.targets.vocab_size > 2


RENAMED = {"_rev": (TARGETS, INPUTS), "_copy": (INPUTS, INPUTS), "_masked": (TARGETS, TARGETS)}
"""By suffix of the variant: the sides of the base problem that become inputs and targets."""


@pytest.mark.parametrize("name", TWO_TEXTS)
def test_variants_rename_the_sides(name):
    base = get_problem(name)
    encoders = {INPUTS: TokenEncoder(("a",)), TARGETS: TokenEncoder(("b", "c"))}
    base.with_encoders(encoders)
    languages = {INPUTS: base.source_language, TARGETS: base.target_language}
    for suffix in SUFFIXES:
        varied, sides = get_problem(name + suffix).with_encoders(encoders), RENAMED[suffix]
        assert varied.name == base.name + suffix
        assert varied.stored.name == base.name
        assert varied.stored.name == base.stored.name
        assert (varied.spec().inputs, varied.spec().targets) == tuple(base.spec().features[side] for side in sides)
        assert varied.spec().shared_vocabulary == (sides[0] == sides[1])
        assert (varied.source_language, varied.target_language) == tuple(languages[side] for side in sides)


def test_the_problems_that_tensor2tensor_users_ask_for_are_there():
    assert {
        "algorithmic_reverse_decimal40", "algorithmic_addition_binary40", "wmt_ende_tokens_32k", "wmt_enfr_tokens_32k",
        "translate_ende_multi30k", "text2text_files", "translate_ende_numbers",
        "image_mnist", "image_cifar10", "languagemodel_lm1b32k", "languagemodel_wikitext103", "sentiment_imdb",
        "librispeech", "common_voice", "squad_text2text", "summarize_cnn_dailymail32k", "babi_qa_concat_task20_10k",
    } <= set(NAMES)  # fmt: skip
