"""Which vocabularies of a checkpoint and of a run belong to the same weights."""

from pathlib import Path

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.vocabularies import check_same_vocabularies, counterparts, to_state
from t2t.text.token import TokenEncoder
from t2t.text.vocabulary_files import describe_encoders
from tests.errors import refused

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
    checkpoint = Checkpoint(1, weights, state=to_state(describe_encoders({theirs: OTHERS})), folder=folder)
    check = (shared_modalities, Path("/runs/mine"), "--checkpoint=x")
    check_same_vocabularies(checkpoint, describe_encoders({ours: OTHERS}), *check)
    prints = [one.fingerprint[:12] for one in (OTHERS, WORDS)]
    with refused("--checkpoint=x", folder, "/runs/mine", ours, *prints):
        check_same_vocabularies(checkpoint, describe_encoders({ours: WORDS}), *check)
