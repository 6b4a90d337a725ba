"""Ranges of hparams: contents, refused ranges, and that the built-in ones fit their sets."""

import pytest

from t2t.hparams.ranges import RangedHParams
from t2t.hparams.transformer import transformer_base, transformer_tiny
from t2t.registry import HPARAMS, HPARAMS_RANGES, register_ranged_hparams
from tests.errors import refused
from tests.registrations import forgotten


def test_a_range_in_tensor2tensors_words():
    with forgotten(HPARAMS_RANGES), HPARAMS_RANGES.open():

        @register_ranged_hparams
        def some_range(rhp):
            """Some."""
            rhp.set_float("learning_rate", 0.01, 0.1, scale=rhp.LOG_SCALE)
            rhp.set_int("num_heads", 1, 8)
            rhp.set_discrete("hidden_size", [256, 64])
            rhp.set_categorical("norm_position", ["pre", "post"])

        ranged = RangedHParams()
        HPARAMS_RANGES.get("some_range")(ranged)
    ranged.check(transformer_tiny())
    assert [str(one) for one in ranged.ranges.values()] == [
        "learning_rate from 0.01 to 0.1, log scale", "num_heads from 1 to 8", "hidden_size of 64, 256",
        "norm_position of pre, post",
    ]  # fmt: skip
    held = ranged.ranges
    assert held["learning_rate"].holds(0.1)
    assert not held["learning_rate"].holds(0.2)
    assert held["hidden_size"].holds(64)
    assert not held["hidden_size"].holds(100)


@pytest.mark.parametrize("name", HPARAMS_RANGES.names())
def test_built_in_ranges_hold_what_their_set_takes(name):
    ranged = RangedHParams()
    HPARAMS_RANGES.get(name)(ranged)
    hparams_set = HPARAMS.get(name.removesuffix("_range"))()
    ranged.check(hparams_set)
    assert all(one.holds(getattr(hparams_set, one.name)) for one in ranged.ranges.values())


@pytest.mark.parametrize(("about", "make"), [
    (["range"], lambda rhp: None),
    (["'learning_rat'", "learning_rate"], lambda rhp: rhp.set_float("learning_rat", 0.1, 1.0)),
    (["learning_rate", "1.0", "0.1"], lambda rhp: rhp.set_float("learning_rate", 1.0, 0.1)),
    (["learning_rate", "0.0"], lambda rhp: rhp.set_float("learning_rate", 0.0, 0.1, scale=rhp.LOG_SCALE)),
    (["scale", "7"], lambda rhp: rhp.set_float("learning_rate", 0.1, 1.0, scale=7)),
    (["num_heads", "2.5", "set_float"], lambda rhp: rhp.set_int("num_heads", 1, 2.5)),
    (["num_heads=0"], lambda rhp: rhp.set_int("num_heads", 0, 4)),
    (["num_heads=0.5", "int"], lambda rhp: rhp.set_discrete("num_heads", [0.5, 1])),
    (["'1'", "set_categorical"], lambda rhp: rhp.set_discrete("num_heads", ["1"])),
    (["num_heads", "2"], lambda rhp: rhp.set_discrete("num_heads", [2, 2])),
    (["norm_position='middle'"], lambda rhp: rhp.set_categorical("norm_position", ["middle"])),
    (["num_heads"], lambda rhp: (rhp.set_int("num_heads", 1, 2), rhp.set_int("num_heads", 1, 4))),
    (["weight_decay", "optimizer=adam"], lambda rhp: rhp.set_float("weight_decay", 0.0, 0.1)),
    (["weight_decay", "sgd", "optimizer=adamw|lamb|muon|momentum"],
     lambda rhp: (rhp.set_float("weight_decay", 0.0, 0.1), rhp.set_categorical("optimizer", ["adam", "sgd"]))),
])  # fmt: skip
def test_a_range_that_cannot_be_searched_is_refused(about, make):
    ranged = RangedHParams()
    with refused(*about):
        make(ranged)
        ranged.check(transformer_base())


def test_what_another_range_switches_on_is_chosen_only_where_it_is_read():
    ranged = RangedHParams()
    ranged.set_float("weight_decay", 0.0, 0.1)
    ranged.set_categorical("optimizer", ["adam", "adamw"])
    ranged.set_int("num_heads", 1, 4)
    ranged.check(transformer_base())
    for optimizer, left_out in (("adam", "weight_decay"), ("adamw", "")):
        values = {"weight_decay": 0.1, "optimizer": optimizer, "num_heads": 2}
        found = ranged.choose(lambda one, values=values: values[one.name])
        assert list(found.items()) == [item for item in values.items() if item[0] != left_out]
