import random
import re

import numpy as np
import pytest

from t2t.errors import UnknownNameError
from t2t.problems.base import Source
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text
from t2t.specs.features import FeatureKind

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


def ready(problem, tmp_path):
    return problem.with_encoders(problem.build_encoders(Source(tmp_path, random.Random(0))))


def test_text_to_text_shares_a_vocabulary_and_ends_each_side(tmp_path):
    problem = ready(Counting(), tmp_path)
    assert problem.encoders["inputs"] is problem.encoders["targets"]
    # Counts: one 2, two 2, eins 2, zwei 2, three 1, drei 1; ties by string; ids from 3.
    ids = {"eins": 3, "one": 4, "two": 5, "zwei": 6, "drei": 7, "three": 8}
    encoded = problem.encode_samples([{"inputs": one, "targets": two} for one, two in PAIRS])
    assert [e["inputs"].tolist() for e in encoded] == [
        [ids["one"], ids["two"], 1], [ids["two"], 1], [ids["three"], ids["one"], 1]
    ]  # fmt: skip
    assert [e["targets"].tolist() for e in encoded] == [
        [ids["eins"], ids["zwei"], 1], [ids["zwei"], 1], [ids["drei"], ids["eins"], 1]
    ]  # fmt: skip
    assert {array.dtype for e in encoded for array in e.values()} == {np.dtype("int32")}
    assert problem.decode_target([3, 6, 1, 7]) == "eins zwei"
    spec = problem.spec()
    assert (spec.name, spec.shared_vocabulary) == ("counting", True)
    assert [(f.kind, f.vocab_size) for f in spec.features.values()] == [(FeatureKind.TOKENS, 9)] * 2


def test_separate_vocabularies_know_their_own_side_only(tmp_path):
    problem = ready(Apart(), tmp_path)
    spec = problem.spec()
    assert not spec.shared_vocabulary
    assert (spec.inputs.vocab_size, spec.targets.vocab_size) == (3 + 3, 3 + 3)
    [example] = problem.encode_samples([{"inputs": "one eins", "targets": "one eins"}])
    assert example["inputs"].tolist() == [3, 2, 1]
    assert example["targets"].tolist() == [2, 3, 1]


def test_a_vocabulary_known_beforehand_is_not_learnt(tmp_path):
    problem = ready(Told(), tmp_path)
    assert problem.vocab_kind == "token"
    [example] = problem.encode_samples([{"inputs": "one two three", "targets": "zwei"}])
    assert (example["inputs"].tolist(), example["targets"].tolist()) == ([6, 5, 2, 1], [3, 1])


def test_options_change_kind_and_size(tmp_path):
    problem = Counting(vocab_kind="sentencepiece", vocab_size=280)
    assert problem.options.changed() == {"vocab_kind": "sentencepiece", "vocab_size": 280}
    assert ready(problem, tmp_path).spec().targets.vocab_size == 280
    assert ready(Counting(vocab_size=5), tmp_path).spec().targets.vocab_size == 5
    told = ready(Told(vocab_kind="byte"), tmp_path)
    assert told.spec().inputs.vocab_size == 258


@pytest.mark.parametrize(
    ("problem", "kind", "ids"),
    [(Told(vocab_size=50), "token", 7), (Counting(vocab_kind="byte", vocab_size=50), "byte", 258)],
)
def test_a_size_is_logged_that_a_vocabulary_cannot_have(tmp_path, caplog, problem, kind, ids):
    ready(problem, tmp_path)
    assert caplog.messages == [
        f"counting: --vocab_size=50 has no effect: its vocabulary, of kind {kind}, has {ids} ids whatever is asked for"
    ]
    caplog.clear()
    ready(type(problem)(vocab_kind=problem.options.vocab_kind), tmp_path)
    ready(Counting(vocab_size=5), tmp_path)
    assert not caplog.messages


def test_wrong_options_are_named():
    with pytest.raises(
        UnknownNameError, match="problem option 'vocab_sise': Counting has no such option; did you mean"
    ):
        Counting(vocab_sise=3)
    with pytest.raises(UnknownNameError, match="vocabulary kind 'bytes' does not exist; did you mean byte"):
        Counting(vocab_kind="bytes")


def test_the_vocabulary_is_learnt_from_a_spread_sample(tmp_path, caplog):
    caplog.set_level("INFO", "t2t")

    class Long(Counting):
        vocab_sample_bytes = 1000

        def generate_samples(self, split, source):
            for i in range(2000):
                yield {"inputs": f"s{i}", "targets": f"t{i}"}

    encoder = ready(Long(), tmp_path).encoders["inputs"]
    said = r"the vocabulary of inputs and targets is learnt from \d+ of 4,000 lines \(0.0 MB\), one of every 32 of"
    assert re.search(said + " the training text: 8,192 ids of kind token", caplog.text)
    assert re.search(r"counting: the vocabulary of inputs and targets took \d+\.\d s to learn", caplog.text)
    words = [encoder.piece(i) for i in range(3, encoder.vocab_size)]
    assert 100 < len(words) < 400
    assert min(sum(word[0] == side for word in words) for side in "st") > len(words) / 3
    assert {int(word[1:]) // 500 for word in words} == {0, 1, 2, 3}


def test_learning_tells_how_much_has_been_read_and_a_kind_that_needs_no_text_says_nothing(tmp_path, caplog):
    caplog.set_level("INFO", "t2t")

    class Many(Counting):
        shared_vocabulary = False

        def generate_samples(self, split, source):
            yield from ({"inputs": "a", "targets": "b"} for _ in range(2500))

    told = []
    Many().build_encoders(Source(tmp_path, random.Random(0), progress=lambda *news: told.append(news)))
    assert told == [("vocabulary", 1000), ("vocabulary", 2000), ("vocabulary", 2500)] * 2
    size = "all 2,500 lines (0.0 MB) of the training text: 8,192 ids of kind token"
    assert [re.sub(r"\d+\.\d s", "T", line) for line in caplog.messages] == [
        f"counting: the vocabulary of inputs is learnt from {size}",
        "counting: the vocabulary of inputs took T to learn",
        f"counting: the vocabulary of targets is learnt from {size}",
        "counting: the vocabulary of targets took T to learn",
    ]
    caplog.clear()
    Alone().build_encoders(Source(tmp_path, random.Random(0), progress=lambda *news: told.append(news)))
    assert (len(told), caplog.messages) == (6, [])


def test_what_is_known_of_the_features_without_vocabularies():
    for problem in (Counting(), Alone(), Mood()):
        declared = problem.declared_spec()
        assert declared.name == problem.name
        kinds = {name: feature.kind.value for name, feature in declared.features.items()}
        assert (
            kinds
            == {
                "counting": {"inputs": "tokens", "targets": "tokens"},
                "alone": {"targets": "tokens"},
                "mood": {"inputs": "tokens", "targets": "label"},
            }[problem.name]
        )


def test_text_alone(tmp_path):
    problem = ready(Alone(), tmp_path)
    spec = problem.spec()
    assert (spec.inputs, spec.targets.vocab_size) == (None, 258)
    [example] = problem.encode_samples([{"targets": "ab"}])
    assert {name: array.tolist() for name, array in example.items()} == {"targets": [99, 100, 1]}


def test_text_to_class(tmp_path):
    problem = ready(Mood(), tmp_path)
    spec = problem.spec()
    assert (spec.targets.kind, spec.targets.vocab_size, spec.inputs.vocab_size) == (FeatureKind.LABEL, 2, 258)
    assert not spec.shared_vocabulary
    good, bad = problem.encode_samples([{"inputs": "ab", "targets": "good"}, {"inputs": "", "targets": "bad"}])
    assert (good["inputs"].tolist(), bad["inputs"].tolist()) == ([99, 100, 1], [1])
    assert (int(good["targets"]), int(bad["targets"])) == (1, 0)
    assert (good["targets"].shape, good["targets"].dtype) == ((), np.int32)
    assert problem.decode_target(good["targets"]) == "good"
