"""Invalid samples from a plug-in: a one-line error that names the first of them."""

import pytest

from t2t.problems.base import Problem
from t2t.problems.samples import check_samples, samples_of
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text
from tests.errors import refused

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


class Many(Mood):
    name = "many"
    class_labels = tuple(map(str, range(300)))


class Waves(Mood):
    sample_fault = Problem.sample_fault


CLASSES = "class_labels (bad, good)"


@pytest.mark.parametrize(("problem", "sample", "names"), [
    (Pairs, {"inputs": "a", "tragets": "b"}, "inputs, tragets) 'targets' str"),
    (Pairs, {}, "none) 'inputs'"),
    (Pairs, {"inputs": None, "targets": "b"}, "inputs, targets) None 'inputs' NoneType"),
    (Pairs, GOOD | {"targets": 7}, "7 'targets' int"),
    (Pairs, GOOD | {"targets": ["b"] * 30, 3: 4}, "inputs, targets, 3) ['b', 'b',... 'targets' list"),
    (Pairs, GOOD | {"inputs": b"caf\xc3"}, r"bytes 'inputs' (b'caf\xc3')"),
    (Pairs, GOOD | {"targets": "caf\udcc3"}, "U+DCC3, 'targets'"),
    (Pairs, ("a", "b"), "tuple"),
    (Pairs, "a\tb", "str"),
    (Pairs, None, "NoneType"),
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
        check_samples(problem(), "dev", [good] * 3 + [sample, good], 12_001)


def test_samples_that_hold_more_than_is_needed_are_fine():
    check_samples(Pairs(), "train", [GOOD | {"source": 3}, {"inputs": "", "targets": "\0é中"}])
    check_samples(Alone(), "train", [{"targets": "a"}])
    check_samples(Mood(), "train", [{"inputs": "a", "targets": "bad"}])
    check_samples(Waves(), "dev", [{"wave": [0.5]}])


def test_learning_a_vocabulary_checks_the_samples_too(source):
    problem = Pairs()
    problem.rows = (GOOD, GOOD, {"inputs": "a", "target": "b"})
    with refused("pairs:", 3, "'train'", "'targets';"):
        problem.build_encoders(source)


def test_samples_may_be_a_list_but_not_nothing(source):
    class Returned(Pairs):
        def generate_samples(self, split, source):
            return self.rows

    problem = Returned()
    assert list(samples_of(problem, "dev", source)) == [GOOD]
    problem.rows = None  # as of a function without `yield`
    with refused("pairs:", "generate_samples", "NoneType", "'dev';"):
        samples_of(problem, "dev", source)
