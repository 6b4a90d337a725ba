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


@given(st.lists(st.tuples(LINKS, LINKS), min_size=1, max_size=4), st.data())
def test_between_the_sure_and_the_possible_links_nothing_is_wrong(gold, data):
    found = []
    for sure, possible in gold:
        more = data.draw(st.lists(st.sampled_from(possible), max_size=4)) if possible else []
        found.append((*sure, *more, *sure))  # a repeated link counts once
    assert alignment_error_rate(gold, found).value == 0.0


@given(st.lists(st.tuples(LINKS, LINKS), min_size=1, max_size=4))
def test_without_possible_links_it_is_one_minus_the_f_measure(pairs):
    found = alignment_error_rate([(sure, ()) for sure, _ in pairs], [links for _, links in pairs])
    sure, links = ({(n, link) for n, pair in enumerate(pairs) for link in pair[side]} for side in (0, 1))
    if sure and links:
        precision, recall = len(sure & links) / len(links), len(sure & links) / len(sure)
        f_measure = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        assert found.value == pytest.approx(1 - f_measure)


def test_no_links_on_a_side():
    sure = ((0, 0),)
    nothing_found = alignment_error_rate([(sure, ())], [()])
    assert (nothing_found.value, nothing_found.detail["recall"]) == (1.0, 0.0)
    assert math.isnan(nothing_found.detail["precision"])
    assert alignment_error_rate([((), sure)], [sure]).value == 0.0
    assert alignment_error_rate([((), ())], [()]).value == 0.0
