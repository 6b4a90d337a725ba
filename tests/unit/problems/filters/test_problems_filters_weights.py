import random

import pytest

from t2t.problems.filters.weights import BY_WEIGHT, COPIES, draw_copies, parse_weights
from tests.errors import refused


def test_a_weight_for_each_file():
    assert parse_weights("1, 0.5,20", ["a", "b", "c"]) == [1, 0.5, 20]


@pytest.mark.parametrize(("text", "names"), [
    ("1", "1 2 a.en b.en"),
    ("1,2,3", "3 2 a.en b.en"),
    *((f"1,{weight}", repr(weight)) for weight in ("two", "", "0", "inf")),
])  # fmt: skip
def test_other_weights_are_refused(text, names):
    with refused(f"--train_weights={text}:", *names.split()):
        parse_weights(text, ["a.en", "b.en"])


@pytest.mark.parametrize("weight", [1.0, 3.0, 0.25, 2.5])
def test_copies_are_the_weight_on_average_and_nearly_it_each_time(weight):
    rng = random.Random(5)
    copies = [draw_copies(weight, rng) for _ in range(20_000)]
    assert all(abs(one - weight) < 1 for one in copies)
    assert sum(copies) / len(copies) == pytest.approx(weight, abs=0.02)  # 5 standard deviations, at most 0.5 / sqrt(n)


def test_samples_without_a_copy_are_dropped():
    assert [BY_WEIGHT.keeps(sample) for sample in ({}, {COPIES: 2}, {COPIES: 0})] == [True, True, False]
