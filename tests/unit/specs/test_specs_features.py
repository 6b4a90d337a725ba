"""Specs of features, problems and mixtures."""

import dataclasses
import json
from types import MappingProxyType

import numpy as np
import pytest

from t2t.files.trust import read_record
from t2t.specs.features import (
    FeatureKind,
    FeatureSpec,
    ProblemSpec,
    merge_problem_entries,
    mixture_of,
    select_problem_entries,
    split_mixture,
)
from tests.errors import refused

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


@pytest.mark.parametrize("kind", ["features", "problems"])
def test_values_of_other_types_are_refused(kind):
    """Also if made in code: the written spec could not be read back."""
    changes = [
        {name: value} for name, values in (FEATURES if kind == "features" else PROBLEMS).items() for value in values
    ]
    for change in changes:
        data = LANGUAGE.to_dict()
        (data["features"]["targets"] if kind == "features" else data).update(change)
        with pytest.raises((ValueError, TypeError)):
            read_record(ProblemSpec, data)
        with pytest.raises((ValueError, TypeError)):
            dataclasses.replace(TEXT if kind == "features" else LANGUAGE, **change)


def test_what_code_gives_is_made_plain():
    """Lists, numpy numbers, names of kinds and mappings are converted, so that what is written can be read."""
    given = {"inputs": FeatureSpec(kind="image", shape=[np.int64(28), 28, np.uint8(1)]), "targets": LABEL}
    assert given["inputs"] == IMAGE
    assert FeatureSpec(kind=FeatureKind.LABEL, vocab_size=np.int32(10)) == LABEL
    picture = ProblemSpec(name="picture", features=MappingProxyType(given))
    for spec in (picture, ProblemSpec(name="two", members=[picture, TREES])):
        assert repr(read_record(ProblemSpec, json.loads(json.dumps(spec.to_dict())))) == repr(spec)


def test_names_are_taken_apart_and_put_together():
    assert split_mixture("algorithmic_copy_rev") == ("algorithmic_copy_rev",)
    assert split_mixture("b-a-c_2") == ("b", "a", "c_2")
    assert mixture_of(("b", "a", "c_2")) == "b-a-c_2"
    for name in ("a-b-a", "a-", "a--b"):
        with refused(f"--problems={name}:"):
            split_mixture(name)


def test_what_each_problem_has_is_told_apart_where_there_are_several():
    entries = {"a": {"inputs": 1, "targets": 2}, "ab": {"targets": 3}}
    assert merge_problem_entries(entries) == {"a.inputs": 1, "a.targets": 2, "ab.targets": 3}
    for problem, own in entries.items():
        assert select_problem_entries(merge_problem_entries(entries), problem) == own
    assert merge_problem_entries({"a": {"inputs": 1}}) == {"inputs": 1}


def test_the_spec_of_a_mixture_has_members_and_that_of_a_problem_is_as_before():
    both = ProblemSpec(name="translation-trees", members=(TRANSLATION, TREES))
    assert both.member("translation") == TRANSLATION
    assert both.inputs == TEXT
    assert set(TRANSLATION.to_dict()) == {"name", "features", "shared_vocabulary"}
