import numpy as np
import pytest

from t2t.errors import UnknownNameError
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text
from t2t.runs.names import get_problem
from t2t.specs.features import FeatureKind
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

    def generate_samples(self, split, source):
        yield {"targets": "ab"}


class Mood(Text2Class):
    name = "mood"
    vocab_kind = "byte"
    class_labels = ("bad", "good")

    def generate_samples(self, split, source):
        yield {"inputs": "ok", "targets": "good"}


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


def test_a_vocabulary_known_beforehand_is_not_learnt(source):
    problem = ready(Told(), source)
    assert problem.vocab_kind == "token"
    [example] = problem.encode_samples([{"inputs": "one two three", "targets": "zwei"}])
    assert (example["inputs"].tolist(), example["targets"].tolist()) == ([6, 5, 2, 1], [3, 1])


def test_options_change_kind_and_size(source):
    problem = Counting(vocab_kind="sentencepiece", vocab_size=280)
    assert problem.options.changed() == {"vocab_kind": "sentencepiece", "vocab_size": 280}
    assert ready(problem, source).spec().targets.vocab_size == 280
    assert ready(Counting(vocab_size=5), source).spec().targets.vocab_size == 5
    told = ready(Told(vocab_kind="byte"), source)
    assert told.spec().inputs.vocab_size == 258


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
def test_what_is_known_of_the_features_without_vocabularies(problem, kinds):
    declared = problem().declared_spec()
    assert declared.name == problem.name
    assert {name: feature.kind.value for name, feature in declared.features.items()} == kinds


def test_text_alone(source):
    problem = ready(Alone(), source)
    spec = problem.spec()
    assert (spec.inputs, spec.targets.vocab_size) == (None, 258)
    [example] = problem.encode_samples([{"targets": "ab"}])
    assert {name: array.tolist() for name, array in example.items()} == {"targets": [99, 100, 1]}


def test_text_to_class(source):
    problem = ready(Mood(), source)
    spec = problem.spec()
    assert (spec.targets.kind, spec.targets.vocab_size, spec.inputs.vocab_size) == (FeatureKind.LABEL, 2, 258)
    assert not spec.shared_vocabulary
    good, bad = problem.encode_samples([{"inputs": "ab", "targets": "good"}, {"inputs": "", "targets": "bad"}])
    assert (good["inputs"].tolist(), bad["inputs"].tolist()) == ([99, 100, 1], [1])
    assert (int(good["targets"]), int(bad["targets"])) == (1, 0)
    assert (good["targets"].shape, good["targets"].dtype) == ((), np.int32)
    assert problem.decode_target(good["targets"]) == "good"
