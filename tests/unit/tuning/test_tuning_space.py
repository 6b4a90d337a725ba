"""From choices of Optuna to hparams: bounds, scales, the first trial, the grid."""

import math
import statistics

import optuna
import pytest
from optuna.samplers import RandomSampler

from t2t.hparams.override import format_overrides
from t2t.hparams.ranges import RangedHParams
from t2t.hparams.transformer import transformer_tiny
from t2t.tuning.space import FixedSampler, grid, own_values, suggest
from tests.errors import refused


@pytest.fixture
def ranged():
    found = RangedHParams()
    found.set_float("learning_rate", 0.001, 1.0, scale=found.LOG_SCALE)
    found.set_float("optimizer_adam_beta2", 0.9, 1.0, scale=found.REVERSE_LOG_SCALE)
    found.set_float("layer_prepostprocess_dropout", 0.0, 0.5)
    found.set_int("num_heads", 1, 8)
    found.set_discrete("hidden_size", [64, 128])
    found.set_categorical("norm_position", ["pre", "post"])
    return found


def chosen(ranged, count=300, seed=1):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=RandomSampler(seed))
    return [suggest(study.ask(), ranged) for _ in range(count)]


def test_choices_lie_in_their_ranges_by_their_scales_and_are_the_sets_to_hold(ranged):
    """A third of the decades has a third of the choices; uniform ones have their mean in the middle."""
    found = chosen(ranged)
    for values in found[:50]:
        assert all(ranged.ranges[name].holds(value) for name, value in values.items())
        transformer_tiny().replace(**values)
        assert values["learning_rate"] == float(f"{values['learning_rate']:.4g}")  # four digits
    logs = [math.log10(values["learning_rate"]) for values in found]
    assert statistics.fmean(logs) == pytest.approx(-1.5, abs=0.15)
    dropouts = [values["layer_prepostprocess_dropout"] for values in found]
    assert statistics.fmean(dropouts) == pytest.approx(0.25, abs=0.03)


def test_the_reverse_scale_is_the_log_scale_from_the_other_end():
    one = RangedHParams()
    one.set_float("learning_rate", 0.001, 1.0, scale=one.LOG_SCALE)
    other = RangedHParams()
    other.set_float("learning_rate", 0.001, 1.0, scale=other.REVERSE_LOG_SCALE)
    for a, b in zip(chosen(one, 20), chosen(other, 20), strict=True):
        assert b["learning_rate"] == pytest.approx(1.001 - a["learning_rate"], rel=1e-3)


def test_the_first_trial_has_the_sets_own_values_where_they_are_in_the_range(ranged):
    hparams = transformer_tiny().replace(learning_rate=0.02, hidden_size=32, optimizer_adam_beta2=0.98)
    own = own_values(ranged, hparams)
    assert "hidden_size" not in own
    study = optuna.create_study(sampler=FixedSampler(ranged, own, RandomSampler(1)))
    values = suggest(study.ask(), ranged)
    assert values["hidden_size"] in (64, 128)
    assert {name: values[name] for name in own} == {
        "learning_rate": 0.02, "optimizer_adam_beta2": 0.98, "layer_prepostprocess_dropout": 0.1, "num_heads": 4,
        "norm_position": "post",
    }  # fmt: skip


def test_the_grid_has_all_combinations_once_and_none_twice_for_what_nothing_reads(ranged):
    small = RangedHParams()
    small.set_int("num_heads", 1, 3)
    small.set_categorical("optimizer", ["adam", "adamw"])
    small.set_discrete("weight_decay", [0.01, 0.1])
    small.check(transformer_tiny())
    found = grid(small, 0)
    read = [("adam",), ("adamw", 0.01), ("adamw", 0.1)]
    assert sorted(tuple(one.values()) for one in found) == sorted((n, *rest) for n in (1, 2, 3) for rest in read)
    assert grid(small, 0) == found != grid(small, 1)
    with refused("--sampler=grid", "learning_rate", 0.001, 1.0):  # real numbers
        grid(ranged, 0)


@pytest.fixture
def dependent():
    """Ranges of which some depend on others, and come before them."""
    found = RangedHParams()
    found.set_discrete("weight_decay", [0.01, 0.1])
    found.set_categorical("optimizer", ["adam", "adamw"])
    found.set_float("learning_rate_minimum", 0.0, 0.5)
    found.set_categorical("learning_rate_schedule", ["noam", "cosine"])
    found.check(transformer_tiny())
    return found


def test_every_choice_of_ranges_that_depend_on_each_other_can_be_trained_also_the_first_trial(dependent):
    found = chosen(dependent, 40)
    for values in found:
        transformer_tiny().override(format_overrides(values)).freeze()
    decays = [values.get("weight_decay") for values in found if values["optimizer"] == "adamw"]
    assert set(decays) == {0.01, 0.1}
    own = own_values(dependent, transformer_tiny())
    values = suggest(optuna.create_study(sampler=FixedSampler(dependent, own, RandomSampler(1))).ask(), dependent)
    assert values == {"optimizer": "adam", "learning_rate_schedule": "noam"}
