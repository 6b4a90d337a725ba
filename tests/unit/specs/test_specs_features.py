import dataclasses
import json
from types import MappingProxyType

import numpy as np
import pytest

from t2t.files.trust import read_record
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

TEXT = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=100)
LABEL = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=10)
IMAGE = FeatureSpec(kind=FeatureKind.IMAGE, shape=(28, 28, 1))
STARTS = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=4, word_starts="0011")
SOUND = FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=16000)
LANGUAGE = ProblemSpec(name="language", features={"targets": TEXT})
TREES = ProblemSpec(name="trees", features={"inputs": TEXT, "targets": STARTS})
TRANSLATION = ProblemSpec(name="translation", features={"inputs": TEXT, "targets": TEXT}, shared_vocabulary=True)


@pytest.mark.parametrize("spec", [
    *(LANGUAGE, TREES, TRANSLATION),
    ProblemSpec(name="picture", features={"inputs": IMAGE, "targets": LABEL}),
    ProblemSpec(name="speech", features={"inputs": SOUND, "targets": TEXT}),
    ProblemSpec(name="trees-translation", members=(TREES, TRANSLATION)),
], ids=lambda spec: spec.name)  # fmt: skip
def test_specs_come_back_from_json(spec):
    read = read_record(ProblemSpec, json.loads(json.dumps(spec.to_dict())))
    assert read == spec
    assert repr(read) == repr(spec), "kinds, shapes and members have their types"


def test_sides_are_features_and_specs_do_not_change():
    assert (TRANSLATION.inputs, TRANSLATION.targets, LANGUAGE.inputs) == (TEXT, TEXT, None)
    written = TREES.to_dict()["features"]
    assert "word_starts" not in written["inputs"], "records of problems without them are unchanged"
    assert written["targets"]["word_starts"] == "0011"
    with pytest.raises(dataclasses.FrozenInstanceError):
        TEXT.vocab_size = 3


FEATURES = {
    "vocab_size": (True, 8.0, "8", None), "shape": ("12", [True], [1.0], [[1]], 3), "kind": (1, None, "smell"),
    "sample_rate": (None,), "word_starts": (None, "01", "2" * 100), "colour": ("red",),
}  # fmt: skip
PROBLEMS = {
    "name": (3, None), "shared_vocabulary": (1, "no"), "features": ([1], {"targets": 3}, {"targets": None}),
    "members": (3, ["x"], {"a": 1}),
}  # fmt: skip


def wrong_values(table):
    return pytest.mark.parametrize("change", [{name: value} for name, values in table.items() for value in values])


@wrong_values(FEATURES)
def test_features_of_other_types_are_refused(change):
    """Also if made in code: the written spec could not be read back."""
    data = LANGUAGE.to_dict()
    data["features"]["targets"] |= change
    with pytest.raises((ValueError, TypeError)):
        read_record(ProblemSpec, data)
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(TEXT, **change)


@wrong_values(PROBLEMS)
def test_specs_of_other_types_are_refused(change):
    with pytest.raises((ValueError, TypeError)):
        read_record(ProblemSpec, LANGUAGE.to_dict() | change)
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(LANGUAGE, **change)


def test_what_code_gives_is_made_plain():
    """Lists, numpy numbers, names of kinds and mappings are converted, so that what is written can be read."""
    given = {"inputs": FeatureSpec(kind="image", shape=[np.int64(28), 28, np.uint8(1)]), "targets": LABEL}
    assert given["inputs"] == IMAGE
    assert FeatureSpec(kind=FeatureKind.LABEL, vocab_size=np.int32(10)) == LABEL
    picture = ProblemSpec(name="picture", features=MappingProxyType(given))
    for spec in (picture, ProblemSpec(name="two", members=[picture, TREES])):
        assert repr(read_record(ProblemSpec, json.loads(json.dumps(spec.to_dict())))) == repr(spec)
