"""Assignment of loaded weights to variables, of their rows to pieces, and which vocabularies belong together."""

from pathlib import Path

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.compatibility import (
    RowTransfer,
    check_same_vocabularies,
    counterparts,
    match,
    require_exact,
    require_some,
    vocabularies_state,
)
from t2t.text.vocabulary_files import describe_encoders
from t2t.text.words import TokenEncoder
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


def test_long_lists_are_cut_and_a_warm_start_that_takes_nothing_is_an_error():
    with refused(30, "v0", "v7", 22) as caught:
        require_exact({}, {f"v{index}": () for index in range(30)}, "checkpoint latest")
    assert "v8" not in str(caught.value)
    assert require_some(WEIGHTS, VARIABLES, "--warm_start_from=/runs/a").taken == ("body/kernel",)
    with refused("--warm_start_from=/runs/a", "z"):
        require_some(WEIGHTS, {"z": (1,)}, "--warm_start_from=/runs/a")


MOVES = RowTransfer(np.array([[0, 0], [3, 1]]), there=4, here=3)


def test_rows_of_a_table_and_of_a_bias_and_columns_of_a_kernel():
    theirs, ours = np.arange(8.0).reshape(4, 2), -np.ones((3, 2))
    np.testing.assert_array_equal(MOVES.transfer_rows("a/table", theirs, ours), [[0, 1], [6, 7], [-1, -1]])
    np.testing.assert_array_equal(MOVES.transfer_rows("a/bias", np.arange(4.0), np.zeros(3)), [0, 3, 0])
    np.testing.assert_array_equal(ours, -1.0)
    theirs, ours = np.arange(12.0).reshape(3, 4), np.zeros((3, 3))  # columns, also of a square kernel
    np.testing.assert_array_equal(MOVES.transfer_rows("a/kernel", theirs, ours), [[0, 3, 0], [4, 7, 0], [8, 11, 0]])
    assert MOVES.transfer_rows("a/table", np.zeros((4, 2)), np.zeros((3, 5))) is None
    assert MOVES.transfer_rows("a/table", np.zeros((5, 2)), np.zeros((3, 2))) is None


# === Vocabularies of a checkpoint and of a run ===
ALONE = ("inputs", "targets")
MIXTURE = ("a.inputs", "a.targets", "b.inputs", "b.targets")
ALL_SHARED = ("model/target_embedding/table", "model/body/kernel")
OF_EACH = ("model/a/target_embedding/table", "model/b/target_embedding/table", "model/body/kernel")
WORDS, OTHERS = TokenEncoder(["one", "two"]), TokenEncoder(["two", "one"])


@pytest.mark.parametrize(("ours", "shared_modalities", "theirs", "their_weights", "expected"), [
    (ALONE, False, ALONE, ALL_SHARED, dict(zip(ALONE, ALONE, strict=True))),
    (ALONE, False, MIXTURE, ALL_SHARED, {"inputs": "b.inputs", "targets": "b.targets"}),
    (ALONE, False, MIXTURE, OF_EACH, {}),
    (MIXTURE, True, ALONE, ALL_SHARED, {name: name[2:] for name in MIXTURE}),
    (MIXTURE, False, ALONE, ALL_SHARED, {}),
    (MIXTURE, True, ("c.inputs", "d.inputs"), ALL_SHARED, {"a.inputs": "d.inputs", "b.inputs": "d.inputs"}),
    (MIXTURE, False, ("b.inputs", "c.inputs"), OF_EACH, {"b.inputs": "b.inputs"}),
    (MIXTURE, False, MIXTURE, ("adapters/a/kernel",), dict(zip(MIXTURE, MIXTURE, strict=True))),
])  # fmt: skip
def test_features_whose_weights_have_the_same_paths_belong_together(
    ours, shared_modalities, theirs, their_weights, expected
):
    assert counterparts(ours, theirs, their_weights, shared_modalities) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "shared_modalities"), [("inputs", "a.inputs", False), ("b.inputs", "inputs", True)]
)
def test_a_mixture_that_shares_its_modalities_is_checked_against_a_single_problem(
    ours, theirs, shared_modalities, tmp_path
):
    folder = tmp_path / "run/checkpoints/step-00000001"
    weights = {path: np.zeros(2) for path in ALL_SHARED}
    checkpoint = Checkpoint(1, weights, state=vocabularies_state(describe_encoders({theirs: OTHERS})), folder=folder)
    check = (shared_modalities, Path("/runs/mine"), "--checkpoint=x")
    check_same_vocabularies(checkpoint, describe_encoders({ours: OTHERS}), *check)
    prints = [one.fingerprint[:12] for one in (OTHERS, WORDS)]
    with refused("--checkpoint=x", folder, "/runs/mine", ours, *prints):
        check_same_vocabularies(checkpoint, describe_encoders({ours: WORDS}), *check)
