"""LSTMs with mixtures of experts: the cost of their uneven use."""

import numpy as np

from tests.builders import batch
from tests.unit.models.references import tiny


def test_both_mixtures_cost_what_they_are_used_unevenly_and_padding_does_not():
    """Doubling the weight doubles the cost, and padding positions change nothing."""
    narrow, wide = batch(), batch(widths=(13, 11))
    once, twice = (tiny("lstm_moe", expert_balance=balance) for balance in (0.25, 0.5))
    costs = [float(model.body(narrow).cost_per_target) for model in (once, twice)]
    assert costs[0] > 0.0
    np.testing.assert_allclose(costs[1], 2 * costs[0], rtol=1e-5)
    np.testing.assert_allclose(float(once.body(wide).cost_per_target), costs[0], rtol=1e-4)
