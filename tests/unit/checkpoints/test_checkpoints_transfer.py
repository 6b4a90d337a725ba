"""Assignment of loaded weights to variables, and the reports on it."""

import numpy as np
import pytest

from t2t.checkpoints.transfer import match, require_exact, require_some
from tests.errors import refused

WEIGHTS = {"embed": np.zeros((100, 8)), "body/kernel": np.zeros((8, 8)), "old": np.zeros(3)}
VARIABLES = {"body/kernel": (8, 8), "embed": (120, 8), "new/bias": (8,)}


def test_names_are_sorted_into_what_is_taken_and_what_is_not():
    report = match(WEIGHTS, VARIABLES)
    assert report.taken == ("body/kernel",)
    assert report.missing == ("new/bias",)
    assert report.unused == ("old",)
    assert report.mismatched == {"embed": ((100, 8), (120, 8))}
    assert not report.is_exact
    assert str(report) == (
        "1 of 3 variables taken; 1 of another shape: embed ((100, 8) there, (120, 8) here); "
        "1 missing from the checkpoint: new/bias; 1 in the checkpoint only: old"
    )


def test_the_same_names_and_shapes_in_any_order_are_exact():
    variables = {path: array.shape for path, array in reversed(WEIGHTS.items())}
    assert match(WEIGHTS, variables).is_exact
    assert str(match(WEIGHTS, variables)) == "3 of 3 variables taken"
    require_exact(WEIGHTS, variables, "checkpoint step-00000001")


FITTING = {"embed": (100, 8), "body/kernel": (8, 8), "old": (3,)}


@pytest.mark.parametrize(("variables", "about"), [
    ({"embed": (100, 8), "body/kernel": (8, 8)}, ["old"]),
    (FITTING | {"x": ()}, ["x"]),
    (FITTING | {"old": (3, 1)}, ["old", "(3,)", "1)"]),
])  # fmt: skip
def test_an_inexact_checkpoint_is_named(variables, about):
    with refused("best", *about):
        require_exact(WEIGHTS, variables, "checkpoint best")


def test_long_lists_are_cut():
    with refused(30, "v0", "v7", 22) as caught:
        require_exact({}, {f"v{index}": () for index in range(30)}, "checkpoint latest")
    assert "v8" not in str(caught.value)


def test_a_warm_start_that_takes_nothing_is_an_error():
    assert require_some(WEIGHTS, VARIABLES, "--warm_start_from=/runs/a").taken == ("body/kernel",)
    with refused("--warm_start_from=/runs/a", "z"):
        require_some(WEIGHTS, {"z": (1,)}, "--warm_start_from=/runs/a")
