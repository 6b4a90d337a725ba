"""Sets with Tensor2Tensor's values, compared with the raw values and formulas of its source."""

import math

import pytest

from t2t.registry import tensor2tensor
from t2t.runs.names import get_hparams
from t2t.training.schedules import learning_rate
from tests.reference.tensor2tensor_hparams import OTHERWISE, THEIRS, expected_values, learning_rate_of, raw_values

COSINES = [name for name, raw in THEIRS.items() if raw.get("scheme") == "cosine"]
OWN_RATES = [name for name, otherwise in OTHERWISE.items() if "learning_rate" in otherwise]
THEIR_RATES = [name for name in THEIRS if name not in {*COSINES, *OWN_RATES}]


@pytest.mark.parametrize("name", THEIRS)
def test_a_set_has_the_values_of_tensor2tensors_but_where_it_says_otherwise(name):
    expected, otherwise = expected_values(name), OTHERWISE.get(name, {})
    assert {field: getattr(get_hparams(name), field) for field in expected} == expected
    assert not otherwise.items() & raw_values(name).items(), "it is theirs"


def test_every_alias_of_tensor2tensors_is_compared_and_a_rate_that_is_otherwise_is_another():
    assert tensor2tensor.HPARAMS.aliases.keys() <= THEIRS.keys()
    for name in OWN_RATES:
        assert OTHERWISE[name]["learning_rate"] > 5 * learning_rate_of(raw_values(name), 100_000)


@pytest.mark.parametrize("name", COSINES)
def test_a_cosine_is_tensor2tensors_but_for_its_warm_up(name):
    """Their cosine falls from the first update on; the factor 0.002 applies only to Adam."""
    hparams, raw = get_hparams(name), raw_values(name)
    peak = raw["learning_rate"] * (0.002 if raw["optimizer"] == "adam" else 1.0)
    for part in (0.2, 0.5, 0.8, 1.0):
        update = round(part * hparams.train_steps)
        found = learning_rate(hparams, update)
        assert found == pytest.approx(peak * 0.5 * (1 + math.cos(math.pi * part)), abs=0.1 * peak)


@pytest.mark.parametrize("name", THEIR_RATES)
def test_a_rate_is_what_tensor2tensors_comes_to(name):
    """Its Adam multiplies every rate by 0.002, and `noam` by 5000. Warm-up of other schedules is exponential."""
    hparams, raw = get_hparams(name), raw_values(name)
    warmup = raw["learning_rate_warmup_steps"]
    for update in (1, warmup // 2, warmup, warmup + 1, 2 * warmup, 100_000):
        if raw["scheme"] == "noam" or update > warmup:
            found = learning_rate(hparams, update)
            assert found == pytest.approx(learning_rate_of(raw, update - 1), rel=1e-9), update
