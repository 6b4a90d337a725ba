"""LSTMs with mixtures of experts against one in numpy (tests/reference/lstm_moe.py), their size, and in decoding."""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.lstm_moe import LstmMoeHParams, lstm_moe_tiny
from t2t.models.lstm_moe import LstmMoe
from tests.builders import batch, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.lstm_moe import LstmMoe as Reference

SOURCES, TARGETS, LAYERS, CHOSEN = (5, 1, 7), (4, 6, 2), 3, 2
MIXTURES = {"flat": {"num_experts": 5}, "two levels": {"num_experts": 12, "expert_groups": 3}}


def tiny(dtype="float32", **changes):
    """A model of 3+2 layers of 6 units without dropout, its weights random."""
    sizes = {"hidden_size": 6, "num_hidden_layers": LAYERS, "filter_size": 7, "dropout": 0.0, "num_experts": 5}
    return randomise(LstmMoe(LstmMoeHParams(**(sizes | changes)), tokens_spec(), dtype=dtype))


def reference(weights, groups=0):
    return Reference(weights, LAYERS, CHOSEN, groups)


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("units", [0, 10])
def test_logits_are_those_of_an_independent_model_whatever_the_padding(units, mixture):
    model = tiny(cell_units=units, **MIXTURES[mixture])
    plain = reference(weights_of(model), model.hparams.expert_groups)
    check_logits(model, plain, SOURCES, TARGETS, 9)


@pytest.mark.slow
@pytest.mark.parametrize("mixture", MIXTURES)
def test_gradients_are_those_of_finite_differences_of_the_independent_model(mixture):
    """Without the cost of uneven use of experts."""
    model = tiny(label_smoothing=0.0, expert_balance=0.0, cell_units=10, **MIXTURES[mixture])
    features = batch(sources=SOURCES, targets=TARGETS, widths=(9, 8))
    loss = loss_of_reference(lambda weights: reference(weights, model.hparams.expert_groups), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3, err_msg=path)


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [
        ({"cell_units": 10}, "float32"),
        ({"cell_units": 10, **MIXTURES["two levels"]}, "float32"),
        ({"cell": "gru"}, "float32"),
        ({"cell_units": 10}, "mixed_bfloat16"),
    ],
)
def test_steps_of_several_beams_are_teacher_forcing(changes, dtype):
    check_steps_of_beams(tiny(dtype, **changes), dtype, SOURCES, length=6)


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))


def test_both_mixtures_cost_what_they_are_used_unevenly_and_padding_does_not():
    """Doubling the weight doubles the cost, and padding positions change nothing."""
    narrow, wide = batch(), batch(widths=(13, 11))
    once, twice = (tiny(expert_balance=balance) for balance in (0.25, 0.5))
    costs = [float(model.body(features).cost_per_target) for model, features in ((once, narrow), (twice, narrow))]
    assert costs[0] > 0.0
    np.testing.assert_allclose(costs[1], 2 * costs[0], rtol=1e-5)
    np.testing.assert_allclose(float(once.body(wide).cost_per_target), costs[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"num_hidden_layers": 1}, "hparam num_hidden_layers=1: experts are between two layers of the encoder; give"),
        ({"cell": "gru", "cell_units": 8}, "hparam cell_units=8: cell=gru has no projection; give 0"),
        ({"experts_per_token": 4}, "hparam experts_per_token=4: there are num_experts=4; it must be smaller"),
        ({"expert_groups": 3}, "hparam expert_groups=3: give a divisor of num_experts=4 that makes groups, and expert"),
        ({"expert_groups": 2}, "hparam expert_groups=2: give a divisor .* more than experts_per_token=2"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, complaint):
    with pytest.raises(UserError, match=complaint):
        lstm_moe_tiny().replace(**changes).freeze()
