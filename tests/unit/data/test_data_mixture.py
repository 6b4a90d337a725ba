"""The problem of each update, and the batches of several problems in one sequence.

Legend: P problems.
"""

import itertools

import numpy as np
import pytest

from t2t.data.mixture import MixedBatches, ProblemSchedule, shares_by_size
from tests.errors import refused


def test_each_problem_comes_as_often_as_its_weight_says():
    schedule = ProblemSchedule([3, 0, 1], seed=5)
    counts = np.bincount([schedule(update) for update in range(1, 4001)], minlength=3)
    assert counts[1] == 0
    np.testing.assert_allclose(counts / 4000, [0.75, 0, 0.25], atol=0.03)  # four standard deviations


def test_the_problem_of_an_update_is_a_function_of_seed_and_update():
    one, again, other = (ProblemSchedule([1, 1], seed) for seed in (5, 5, 6))
    backwards = [one(update) for update in range(100, 0, -1)][::-1]
    assert backwards == [again(update) for update in range(1, 101)]
    assert backwards != [other(update) for update in range(1, 101)]


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, [0.8, 0.2]), (2.0, [2 / 3, 1 / 3]), (1e9, [0.5, 0.5])])
def test_shares_by_size(temperature, expected):
    """400 and 100 examples; their square roots are 20 and 10."""
    found = ProblemSchedule(shares_by_size([400, 100], temperature), seed=0).shares
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class Counted:
    """Batches 0, 1, 2, ... with the next number as state."""

    def __init__(self, name):
        self.name, self.next = name, 0

    def state(self):
        return {"batch": self.next}

    def seek(self, state):
        self.next = state["batch"]

    def __next__(self):
        self.next += 1
        return f"{self.name}{self.next}", self.state()


def mixed(per_update=2):
    return MixedBatches({"a": Counted("a"), "b": Counted("b")}, ProblemSchedule([1, 1], seed=1), per_update)


def test_all_batches_of_an_update_are_of_its_problem_and_none_is_left_out():
    batches = [batch for batch, _ in itertools.islice(mixed(), 40)]
    schedule = ProblemSchedule([1, 1], seed=1)
    assert [batch[0] for batch in batches] == ["ab"[schedule(update)] for update in range(1, 21) for _ in range(2)]
    for name in "ab":
        own = [batch for batch in batches if batch[0] == name]
        assert own == [f"{name}{number + 1}" for number in range(len(own))]
        assert len(own) > 10


def test_going_on_from_the_state_after_an_update_is_exact():
    whole = mixed()
    batches = list(itertools.islice(whole, 40))
    _, state = batches[13]
    assert state["updates"] == 7
    resumed = mixed()
    resumed.seek(state)
    assert resumed.state() == state
    assert list(itertools.islice(resumed, 26)) == batches[14:]


@pytest.mark.parametrize("state", [
    {}, {"updates": 1}, {"updates": "1", "a": {"batch": 0}, "b": {"batch": 0}}, {"updates": 1, "a": 0, "b": 0},
])  # fmt: skip
def test_what_is_no_state_is_refused(state):
    with refused("updates", "a", "b"):
        mixed().seek(state)
