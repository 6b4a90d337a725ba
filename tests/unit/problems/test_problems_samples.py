"""Invalid samples from a plug-in: a one-line error that names the first of them."""

import random

import pytest

from t2t.errors import UserError
from t2t.problems.base import Problem, Source
from t2t.problems.samples import check_samples, samples_of
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text

GOOD = {"inputs": "a", "targets": "b"}


class Pairs(Text2Text):
    name = "pairs"
    vocab_kind = "token"
    rows = (GOOD,)

    def generate_samples(self, split, source):
        yield from self.rows


class Alone(Pairs, Text2Self):
    name = "alone"


class Mood(Text2Class):
    name = "mood"
    class_labels = ("bad", "good")

    def generate_samples(self, split, source):
        yield {"inputs": "ok", "targets": "good"}


NEEDED = "it must be a dict with a str for 'inputs' and 'targets'; correct its generate_samples"


def refusal(problem, samples, split="train", first=1):
    with pytest.raises(UserError) as raised:
        check_samples(problem, split, samples, first)
    return str(raised.value)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"inputs": "a", "tragets": "b"}, " (keys: inputs, tragets) has no 'targets'"),
        ({}, " (keys: none) has no 'inputs'"),
        ({"inputs": None, "targets": "b"}, " (keys: inputs, targets) has None for 'inputs', of type NoneType"),
        (GOOD | {"targets": 7}, " (keys: inputs, targets) has 7 for 'targets', of type int"),
        (GOOD | {"targets": ["b"] * 30, 3: 4},
         " (keys: inputs, targets, 3) has ['b', 'b', 'b', 'b', 'b', 'b', 'b', 'b',... for 'targets', of type list"),
        (GOOD | {"inputs": b"caf\xc3"},
         r" (keys: inputs, targets) has bytes for 'inputs' (b'caf\xc3'), which must be decoded first"),
        (GOOD | {"targets": "caf\udcc3"},
         " (keys: inputs, targets) has a lone surrogate, U+DCC3, in 'targets', which is no valid Unicode"),
        (("a", "b"), " is of type tuple"),
        ("a\tb", " is of type str"),
        (None, " is of type NoneType"),
    ],
)  # fmt: skip
def test_a_wrong_sample_of_text_to_text(sample, said):
    good = [GOOD] * 3
    assert refusal(Pairs(), [*good, sample, *good]) == f"problem pairs: sample 4 of split 'train'{said}; {NEEDED}"


def test_samples_are_counted_from_the_first_one_of_the_split():
    assert refusal(Pairs(), [GOOD, {}], split="dev", first=12_001).startswith(
        "problem pairs: sample 12,002 of split 'dev' (keys: none) has no 'inputs'; "
    )


def test_samples_that_hold_more_than_is_needed_are_fine():
    check_samples(Pairs(), "train", [GOOD | {"source": 3}, {"inputs": "", "targets": "\0é中"}])
    check_samples(Alone(), "train", [{"targets": "a"}])
    check_samples(Mood(), "train", [{"inputs": "a", "targets": "bad"}])


def test_text_alone_needs_its_targets():
    assert refusal(Alone(), [{"inputs": "a"}]) == (
        "problem alone: sample 1 of split 'train' (keys: inputs) has no 'targets'; it must be a dict with a str for "
        "'targets'; correct its generate_samples"
    )


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"inputs": "a"}, "(keys: inputs) has no 'targets'; it must be one of its class_labels (bad, good)"),
        ({"inputs": "a", "targets": "fine"},
         "(keys: inputs, targets) has 'fine' for 'targets', which is none of its class_labels (bad, good)"),
        ({"inputs": "a", "targets": ["good"]},
         "(keys: inputs, targets) has ['good'] for 'targets', which is none of its class_labels (bad, good)"),
        ({"inputs": None, "targets": "good"},
         "(keys: inputs, targets) has None for 'inputs', of type NoneType; it must be a dict with a str for 'inputs' "
         "and one of its class_labels (bad, good) for 'targets'"),
    ],
)  # fmt: skip
def test_a_wrong_sample_of_text_to_class(sample, said):
    assert refusal(Mood(), [sample]) == (
        f"problem mood: sample 1 of split 'train' {said}; correct its generate_samples"
    )


def test_of_many_classes_ten_are_named():
    class Many(Mood):
        name = "many"
        class_labels = tuple(map(str, range(300)))

    assert "class_labels (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)" in refusal(Many(), [{"inputs": "a", "targets": "x"}])


def test_a_problem_of_another_kind_yields_dicts_at_least():
    class Waves(Mood):
        sample_fault = Problem.sample_fault

    check_samples(Waves(), "dev", [{"wave": [0.5]}])
    assert refusal(Waves(), [[0.5]], "dev") == (
        "problem mood: sample 1 of split 'dev' is of type list; it must be a dict; correct its generate_samples"
    )


def test_learning_a_vocabulary_checks_the_samples_too(tmp_path):
    problem = Pairs()
    problem.rows = (GOOD, GOOD, {"inputs": "a", "target": "b"})
    with pytest.raises(
        UserError, match=r"^problem pairs: sample 3 of split 'train' \(keys: inputs, target\) has no 't"
    ):
        problem.build_encoders(Source(tmp_path, random.Random(0)))


def test_generate_samples_that_yields_nothing_because_it_is_no_generator(tmp_path):
    class Forgetful(Pairs):
        def generate_samples(self, split, source):
            return None

    with pytest.raises(UserError) as raised:
        samples_of(Forgetful(), "dev", Source(tmp_path, random.Random(0)))
    assert str(raised.value) == (
        "problem pairs: generate_samples returned NoneType for split 'dev'; it must yield a dict for each sample"
    )


def test_samples_may_be_a_list(tmp_path):
    class Listed(Pairs):
        def generate_samples(self, split, source):
            return [GOOD]

    assert list(samples_of(Listed(), "dev", Source(tmp_path, random.Random(0)))) == [GOOD]
