"""Curves thinned to fewer points that look the same on a chart; means by hand."""

import numpy as np
import pytest

from t2t.serving.insight.thinning import running_mean, thin


@pytest.mark.parametrize("count", [1, 4, 5, 11, 100, 101, 999, 5000])
@pytest.mark.parametrize("most", [4, 5, 10, 100, 101, 4999])
def test_few_points_are_kept_the_ends_and_every_extreme_among_them(count, most):
    values = np.random.default_rng(count).normal(size=count)
    kept = thin(values, most)
    assert len(kept) <= max(most, 4)
    assert (np.diff(kept) > 0).all()
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert values[kept].min() == values.min() or values.argmin() in (0, count - 1)
    assert values[kept].max() == values.max()
    if count <= most:
        assert len(kept) == count


def test_no_spike_is_lost_wherever_it_is():
    for place in range(1000):
        values = np.zeros(1000)
        values[place] = -1.0 if place % 2 else 1.0
        assert place in thin(values, 20)


def test_a_running_mean_is_of_the_neighbours_and_narrows_at_the_ends():
    np.testing.assert_allclose(running_mean(np.array([1.0, 2.0, 6.0, 3.0, 8.0]), 3), [1, 3, 11 / 3, 17 / 3, 8])
    values = np.random.default_rng(0).normal(size=200)
    by_hand = [values[i - min(5, i, 199 - i) : i + min(5, i, 199 - i) + 1].mean() for i in range(200)]
    np.testing.assert_allclose(running_mean(values, 11), by_hand)


@pytest.mark.parametrize("place", [0, 40, 299])
def test_a_very_large_value_is_in_no_mean_but_those_of_its_neighbours(place):
    """Such as a perplexity before training has begun."""
    values = np.full(300, 2.5)
    values[place] = np.exp(60.0)
    means, far = running_mean(values, 21), np.abs(np.arange(300) - place) > 10
    np.testing.assert_allclose(means[far], 2.5)
    np.testing.assert_allclose(means[place], values[place] / (1 if place in (0, 299) else 21))


@pytest.mark.parametrize("count", range(8))
def test_a_window_wider_than_the_curve_takes_what_there_is(count):
    values = np.random.default_rng(count).normal(size=count)
    by_hand = [values[max(0, 2 * i - count + 1) : 2 * i + 1].mean() for i in range(count)]
    np.testing.assert_allclose(running_mean(values, 100), by_hand)


def test_a_mean_of_one_point_is_the_point():
    values = np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(running_mean(values, 1), values)
