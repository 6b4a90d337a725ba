import math

import pytest

from benchmarks.harness.load import Load


def test_percentiles_are_of_the_responses_with_a_status_in_milliseconds():
    load = Load(1.0, waits={200: [0.4, 0.1, 0.3, 0.2], 429: [0.05]})
    assert load.percentile(50) == pytest.approx(300)
    assert load.percentile(99) == pytest.approx(400)
    assert load.percentile(99, 429) == pytest.approx(50)


def test_without_such_a_response_there_is_no_percentile():
    assert math.isnan(Load(1.0, waits={0: [0.4]}).percentile(50))
    assert math.isnan(Load(1.0, waits={200: []}).percentile(50))
