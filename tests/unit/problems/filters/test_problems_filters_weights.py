import random

import pytest

from t2t.errors import UserError
from t2t.problems.filters.weights import BY_WEIGHT, COPIES, draw_copies, parse_weights


def test_a_weight_for_each_file():
    assert parse_weights("1, 0.5,20", ["a", "b", "c"]) == [1, 0.5, 20]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1", "--train_weights=1: 1 weight for 2 training files (a.en, b.en); give one for each"),
        ("1,2,3", "--train_weights=1,2,3: 3 weights for 2 training files (a.en, b.en); give one for each"),
        ("1,two", "--train_weights=1,two: 'two' is no weight, which is a number above 0; correct it"),
        ("1,", "--train_weights=1,: '' is no weight, which is a number above 0; correct it"),
        ("1,0", "--train_weights=1,0: '0' is no weight, which is a number above 0; correct it"),
        ("1,inf", "--train_weights=1,inf: 'inf' is no weight, which is a number above 0; correct it"),
    ],
)
def test_other_weights_are_refused(text, said):
    with pytest.raises(UserError) as raised:
        parse_weights(text, ["a.en", "b.en"])
    assert str(raised.value) == said


@pytest.mark.parametrize("weight", [1.0, 3.0, 0.25, 2.5])
def test_copies_are_the_weight_on_average_and_nearly_it_each_time(weight):
    rng = random.Random(5)
    copies = [draw_copies(weight, rng) for _ in range(20_000)]
    assert all(abs(one - weight) < 1 for one in copies)
    assert sum(copies) / len(copies) == pytest.approx(weight, abs=0.02)  # 5 standard deviations, at most 0.5 / sqrt(n)


def test_samples_without_a_copy_are_dropped():
    assert [BY_WEIGHT.keeps(sample) for sample in ({}, {COPIES: 2}, {COPIES: 0})] == [True, True, False]
