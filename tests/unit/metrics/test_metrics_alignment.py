"""Alignment error rate, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.metrics.alignment import alignment_error_rate

LINKS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8).map(tuple)


def test_a_hand_calculation():
    """Two sentences. A = {0-0, 1-2, 2-2} and {0-1}: 4 links. S = {0-0, 1-1} and {0-1, 1-0}: 4 links, of which A has
    0-0 and 0-1. P also has 1-2 of the first, so that A has 3 of it: 1 - (2 + 3) / (4 + 4) = 3/8.
    """
    gold = [(((0, 0), (1, 1)), ((1, 2),)), (((0, 1), (1, 0)), ())]
    found = alignment_error_rate(gold, [((0, 0), (1, 2), (2, 2)), ((0, 1),)])
    assert (found.value, found.detail["precision"], found.detail["recall"]) == (0.375, 0.75, 0.5)
    assert str(found) == "AER = 0.3750, precision = 0.7500, recall = 0.5000 (4 links found, 4 sure)"
    assert not found.higher_is_better


@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_it_is_the_definition(sentences):
    """Och and Ney 2003: 1 - (|A & S| + |A & P|) / (|A| + |S|), where P has the sure links, too; links count once."""
    sure, possible, found = ({(n, link) for n, one in enumerate(sentences) for link in one[side]} for side in range(3))
    wrong = alignment_error_rate([one[:2] for one in sentences], [one[2] for one in sentences])
    if sure or found:
        right = len(found & sure) + len(found & (sure | possible))
        assert wrong.value == pytest.approx(1 - right / (len(found) + len(sure)))


def test_no_links_on_a_side():
    sure = ((0, 0),)
    nothing_found = alignment_error_rate([(sure, ())], [()])
    assert (nothing_found.value, nothing_found.detail["recall"]) == (1.0, 0.0)
    assert math.isnan(nothing_found.detail["precision"])
    assert alignment_error_rate([((), sure)], [sure]).value == 0.0
    assert alignment_error_rate([((), ())], [()]).value == 0.0
