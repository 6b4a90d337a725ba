"""Problems of text: their vocabularies, options and features, and invalid samples."""

import numpy as np
import pytest

from t2t.errors import UnknownNameError
from t2t.problems.base import declared_spec, nominal_spec
from t2t.problems.samples import SampleRecord, check_samples, samples_of
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text, TextProblem
from t2t.registry import PROBLEMS
from t2t.runs.names import get_problem
from t2t.specs.features import FeatureKind
from t2t.text.words import TokenEncoder
from tests.errors import refused

PAIRS = [("one two", "eins zwei"), ("two", "zwei"), ("three one", "drei eins")]


class Counting(Text2Text):
    name = "counting"
    vocab_kind = "token"

    def generate_samples(self, split, source):
        for english, german in PAIRS * (3 if split == "train" else 1):
            yield {"inputs": english, "targets": german}


class Apart(Counting):
    shared_vocabulary = False


class Told(Counting):
    vocabulary = ("zwei", "eins", "two", "one")


class Alone(Text2Self):
    name = "alone"
    vocab_kind = "byte"
    generate_samples = None


class Mood(Text2Class):
    name = "mood"
    vocab_kind = "byte"
    class_labels = ("bad", "good")
    generate_samples = None


def ready(problem, source):
    return problem.with_encoders(problem.build_encoders(source))


def test_text_to_text_shares_a_vocabulary_and_ends_each_side(source):
    problem = ready(Counting(), source)
    assert problem.encoders["inputs"] is problem.encoders["targets"]
    # Counts: one 2, two 2, eins 2, zwei 2, three 1, drei 1; ties by string; ids from 3.
    ids = {"eins": 3, "one": 4, "two": 5, "zwei": 6, "drei": 7, "three": 8}
    encoded = problem.encode_samples([{"inputs": one, "targets": two} for one, two in PAIRS])
    for example, pair in zip(encoded, PAIRS, strict=True):
        assert [array.tolist() for array in example.values()] == [[*map(ids.get, text.split()), 1] for text in pair]
    assert {array.dtype for e in encoded for array in e.values()} == {np.dtype("int32")}
    assert problem.decode_target([3, 6, 1, 7]) == "eins zwei"
    spec = problem.spec()
    assert (spec.name, spec.shared_vocabulary) == ("counting", True)
    assert [(f.kind, f.vocab_size) for f in spec.features.values()] == [(FeatureKind.TOKENS, 9)] * 2


def test_separate_vocabularies_know_their_own_side_only(source):
    problem = ready(Apart(), source)
    spec = problem.spec()
    assert not spec.shared_vocabulary
    assert (spec.inputs.vocab_size, spec.targets.vocab_size) == (3 + 3, 3 + 3)
    [example] = problem.encode_samples([{"inputs": "one eins", "targets": "one eins"}])
    assert example["inputs"].tolist() == [3, 2, 1]
    assert example["targets"].tolist() == [2, 3, 1]


def test_options_change_kind_and_size(source):
    problem = Counting(vocab_kind="sentencepiece", vocab_size=280)
    assert problem.options.changed() == {"vocab_kind": "sentencepiece", "vocab_size": 280}
    assert ready(problem, source).spec().targets.vocab_size == 280
    assert ready(Counting(vocab_size=5), source).spec().targets.vocab_size == 5
    assert ready(Told(vocab_kind="byte"), source).spec().inputs.vocab_size == 258
    told = ready(Told(), source)  # whose vocabulary is known beforehand, and not learnt
    assert told.vocab_kind == "token"
    [example] = told.encode_samples([{"inputs": "one two three", "targets": "zwei"}])
    assert (example["inputs"].tolist(), example["targets"].tolist()) == ([6, 5, 2, 1], [3, 1])


@pytest.mark.parametrize(("problem", "kind", "ids"), [
    (Told(vocab_size=50), "token", 7),
    (Counting(vocab_kind="byte", vocab_size=50), "byte", 258),
    (get_problem("speech_generate_files", {"vocab_size": 50}), "byte", 258),
])  # fmt: skip
def test_a_size_is_logged_that_a_vocabulary_cannot_have(source, caplog, problem, kind, ids):
    ready(problem, source)
    (said,) = caplog.messages
    assert all(str(name) in said for name in (problem.name, "--vocab_size=50", kind, ids))
    caplog.clear()
    ready(type(problem)(vocab_kind=problem.options.vocab_kind), source)
    ready(Counting(vocab_size=5), source)
    assert not caplog.messages


def test_wrong_options_are_named():
    with refused("'vocab_sise':", "vocab_size", by=UnknownNameError):
        Counting(vocab_sise=3)
    with refused("'bytes'", "byte", by=UnknownNameError):
        Counting(vocab_kind="bytes")
    for known in ({"vocab_kind": "byte"}, {"vocab_size": 50}):
        with refused("/x.spm:", "--vocab_file", "--vocab_kind", "--vocab_size"):
            Counting(vocab_file="x.spm", **known)


def test_the_vocabulary_is_learnt_from_a_spread_sample(source, caplog):
    caplog.set_level("INFO", "t2t")

    class Long(Counting):
        vocab_sample_bytes = 1000

        def generate_samples(self, split, source):
            for i in range(2000):
                yield {"inputs": f"s{i}", "targets": f"t{i}"}

    encoder = Long().build_encoders(source)["inputs"]
    assert all(said in caplog.text for said in ("counting", " of 4,000 lines ", " 32 "))
    words = [encoder.piece(i) for i in range(3, encoder.vocab_size)]
    assert 100 < len(words) < 400
    assert min(sum(word[0] == side for word in words) for side in "st") > len(words) / 3
    assert {int(word[1:]) // 500 for word in words} == {0, 1, 2, 3}


def test_learning_tells_how_much_has_been_read_and_a_kind_that_needs_no_text_says_nothing(source, caplog):
    caplog.set_level("INFO", "t2t")

    class Many(Counting):
        shared_vocabulary = False

        def generate_samples(self, split, source):
            yield from ({"inputs": "a", "targets": "b"} for _ in range(2500))

    told = []
    source.progress = lambda *news: told.append(news)
    Many().build_encoders(source)
    assert told == [("vocabulary", 1000), ("vocabulary", 2000), ("vocabulary", 2500)] * 2
    assert [side for line in caplog.messages for side in ("inputs", "targets") if side in line] == [
        "inputs", "inputs", "targets", "targets",
    ]  # fmt: skip
    caplog.clear()
    Alone().build_encoders(source)
    assert (len(told), caplog.messages) == (6, [])


@pytest.mark.parametrize(("problem", "kinds"), [
    (Counting, {"inputs": "tokens", "targets": "tokens"}),
    (Alone, {"targets": "tokens"}),
    (Mood, {"inputs": "tokens", "targets": "label"}),
])  # fmt: skip
def test_what_is_known_of_the_features_without_vocabularies_and_with_them(source, problem, kinds):
    declared = declared_spec(problem())
    assert declared.name == problem.name
    assert {name: feature.kind.value for name, feature in declared.features.items()} == kinds
    assert {name: feature.kind.value for name, feature in ready(problem(), source).spec().features.items()} == kinds


def test_text_alone_and_text_to_class(source):
    alone, mood = ready(Alone(), source), ready(Mood(), source)
    assert [alone.spec().targets.vocab_size, mood.spec().inputs.vocab_size, mood.spec().targets.vocab_size] == [
        258,
        258,
        2,
    ]
    assert not mood.spec().shared_vocabulary
    [example] = alone.encode_samples([{"targets": "ab"}])
    assert {name: array.tolist() for name, array in example.items()} == {"targets": [99, 100, 1]}
    good, bad = mood.encode_samples([{"inputs": "ab", "targets": "good"}, {"inputs": "", "targets": "bad"}])
    assert (good["inputs"].tolist(), bad["inputs"].tolist()) == ([99, 100, 1], [1])
    assert (int(good["targets"]), int(bad["targets"])) == (1, 0)
    assert (good["targets"].shape, good["targets"].dtype) == ((), np.int32)
    assert mood.decode_target(good["targets"]) == "good"


# === Invalid samples ===
GOOD = {"inputs": "a", "targets": "b"}


class Checked(Text2Text):
    name = "pairs"
    vocab_kind = "token"
    rows = (GOOD,)

    def generate_samples(self, split, source):
        yield from self.rows


class Many(Mood):
    name = "many"
    class_labels = tuple(map(str, range(300)))


class Waves(Mood):
    features = {}


def check(problem, split, samples, first=1):
    check_samples(problem, split, list(map(SampleRecord, samples)), first)


CLASSES = "class_labels (bad, good)"


@pytest.mark.parametrize(("problem", "sample", "names"), [
    (Checked, {"inputs": "a", "tragets": "b"}, "inputs, tragets) 'targets' str"),
    (Checked, {}, "none) 'inputs'"),
    (Checked, {"inputs": None, "targets": "b"}, "inputs, targets) None 'inputs' NoneType"),
    (Checked, GOOD | {"targets": 7}, "7 'targets' int"),
    (Checked, GOOD | {"targets": ["b"] * 30, 3: 4}, "inputs, targets, 3) ['b', 'b',... 'targets' list"),
    (Checked, GOOD | {"inputs": b"caf\xc3"}, r"bytes 'inputs' (b'caf\xc3')"),
    (Checked, GOOD | {"targets": "caf\udcc3"}, "U+DCC3, 'targets'"),
    (Checked, ("a", "b"), "tuple"),
    (Checked, "a\tb", "str"),
    (Checked, None, "NoneType"),
    (Alone, {"inputs": "a"}, "inputs) 'targets' str"),
    (Mood, {"inputs": "a"}, f"inputs) 'targets' {CLASSES}"),
    (Mood, {"inputs": "a", "targets": "fine"}, f"'fine' 'targets' {CLASSES}"),
    (Mood, {"inputs": "a", "targets": ["good"]}, f"['good'] 'targets' {CLASSES}"),
    (Mood, {"inputs": None, "targets": "good"}, f"None 'inputs' NoneType {CLASSES}"),
    (Many, {"inputs": "a", "targets": "x"}, "class_labels (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)"),
    (Waves, [0.5], "list dict"),
])  # fmt: skip
def test_a_wrong_sample_is_named_by_its_number_and_what_is_wrong(problem, sample, names):
    good = {"inputs": "a", "targets": problem.class_labels[0]} if issubclass(problem, Mood) else GOOD
    with refused(problem.name, "12,004", "'dev'", "generate_samples", *names.split()):
        check(problem(), "dev", [good] * 3 + [sample, good], 12_001)


def test_samples_that_hold_more_than_is_needed_are_fine_and_learning_a_vocabulary_checks_them_too(source):
    check(Checked(), "train", [GOOD | {"source": 3}, {"inputs": "", "targets": "\0é中"}])
    check(Alone(), "train", [{"targets": "a"}])
    check(Mood(), "train", [{"inputs": "a", "targets": "bad"}])
    check(Waves(), "dev", [{"wave": [0.5]}])
    problem = Checked()
    problem.rows = (GOOD, GOOD, {"inputs": "a", "target": "b"})
    with refused("pairs:", 3, "'train'", "'targets';"):
        problem.build_encoders(source)


def test_samples_may_be_a_list_but_not_nothing(source):
    class Returned(Checked):
        def generate_samples(self, split, source):
            return self.rows

    problem = Returned()
    assert list(samples_of(problem, "dev", source)) == [SampleRecord(GOOD)]
    problem.rows = None  # as of a function without `yield`
    with refused("pairs:", "generate_samples", "NoneType", "'dev';"):
        samples_of(problem, "dev", source)


# === Before there is data: nominal sizes of vocabularies ===
FROM_DATA = ("classify_files", "speech_classify_files")
"""Their classes are collected from their files."""


@pytest.mark.parametrize("name", PROBLEMS.names())
def test_every_problem_but_those_of_unknown_classes_has_sizes(name):
    spec = nominal_spec(get_problem(name))
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
    assert nominal_spec(problem) == problem.with_encoders(encoders).spec()


@pytest.mark.parametrize("name", ["languagemodel_lm1b_characters_rev", "image_mnist_plain_gen_copy", "image_mnist_rev"])
def test_variants_without_a_text_to_swap_are_refused_before_there_is_data_as_after(name, source):
    problem = get_problem(name)
    with refused(f"{name}:", "'inputs'") as before:
        nominal_spec(problem)
    with refused() as after:
        problem.with_encoders(problem.stored.build_encoders(source))
    assert str(before.value) == str(after.value)


def test_sizes_are_those_that_were_asked_for(tmp_path):
    assert nominal_spec(get_problem("text2text_files", {"vocab_size": 123})).inputs.vocab_size == 123
    TokenEncoder(["a", "b", "c"]).save(tmp_path / "words.token")
    given = nominal_spec(get_problem("wmt_ende_tokens_32k", {"vocab_file": f"{tmp_path}/words.token"}))
    assert given.targets.vocab_size == 6
    assert given.shared_vocabulary
    for problem in (Counting, Apart):
        spec = nominal_spec(problem())
        assert spec.shared_vocabulary == (problem is Counting)
        assert spec.inputs.vocab_size == spec.targets.vocab_size == TextProblem.vocab_size
