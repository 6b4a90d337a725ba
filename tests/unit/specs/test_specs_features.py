import dataclasses
import json
from types import MappingProxyType

import numpy as np
import pytest

from t2t.files.trust import read_record
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

TEXT = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=100)
SPECS = [
    ProblemSpec(name="translation", features={"inputs": TEXT, "targets": TEXT}, shared_vocabulary=True),
    ProblemSpec(name="language", features={"targets": TEXT}),
    ProblemSpec(
        name="picture",
        features={
            "inputs": FeatureSpec(kind=FeatureKind.IMAGE, shape=(28, 28, 1)),
            "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=10),
        },
    ),
    ProblemSpec(
        name="trees",
        features={
            "inputs": TEXT,
            "targets": FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=4, word_starts="0011"),
        },
    ),
    ProblemSpec(
        name="speech",
        features={"inputs": FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=16000), "targets": TEXT},
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_specs_come_back_from_json(spec):
    read = read_record(ProblemSpec, json.loads(json.dumps(spec.to_dict())))
    assert read == spec
    assert all(isinstance(feature.kind, FeatureKind) for feature in read.features.values())
    assert all(isinstance(feature.shape, tuple) for feature in read.features.values())


def test_word_starts_are_written_where_there_are_some():
    """So that records of problems without them are unchanged."""
    features = next(spec for spec in SPECS if spec.name == "trees").to_dict()["features"]
    assert "word_starts" not in features["inputs"]
    assert features["targets"]["word_starts"] == "0011"


def test_sides():
    assert SPECS[0].inputs is TEXT
    assert SPECS[0].targets is TEXT
    assert SPECS[1].inputs is None


def test_specs_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TEXT.vocab_size = 3


@pytest.mark.parametrize("change", [{"kind": "smell"}, {"colour": "red"}])
def test_what_is_no_spec_is_refused(change):
    data = SPECS[1].to_dict()
    data["features"]["targets"] |= change
    with pytest.raises((ValueError, TypeError)):
        read_record(ProblemSpec, data)


@pytest.mark.parametrize(
    "change",
    [
        *({"vocab_size": size} for size in (True, 8.0, "8", None)),
        *({"shape": shape} for shape in ("12", [True], [1.0], [[1]], 3)),
        *({"kind": kind} for kind in (1, None, "smell")),
        {"sample_rate": None},
        *({"word_starts": starts} for starts in (None, "01", "2" * 100)),
    ],
)
def test_features_of_other_types_are_refused(change):
    """Also if made in code: the written spec could not be read back."""
    data = SPECS[1].to_dict()
    data["features"]["targets"] |= change
    with pytest.raises((ValueError, TypeError)):
        read_record(ProblemSpec, data)
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(TEXT, **change)


@pytest.mark.parametrize(
    "change",
    [
        *({"name": name} for name in (3, None)),
        *({"shared_vocabulary": shared} for shared in (1, "no")),
        *({"features": features} for features in ([1], {"targets": 3}, {"targets": None})),
        *({"members": members} for members in (3, ["x"], {"a": 1})),
    ],
)
def test_specs_of_other_types_are_refused(change):
    with pytest.raises((ValueError, TypeError)):
        read_record(ProblemSpec, SPECS[1].to_dict() | change)
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(SPECS[1], **change)


def test_what_code_gives_is_made_plain():
    """Lists, numpy numbers, names of kinds and mappings are converted: a spec read back equals the written one."""
    picture = FeatureSpec(kind="image", shape=[np.int64(28), 28, np.uint8(1)])
    assert picture == FeatureSpec(kind=FeatureKind.IMAGE, shape=(28, 28, 1))
    label = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=np.int32(10))
    one = ProblemSpec(name="one", features=MappingProxyType({"inputs": picture, "targets": label}))
    for spec in (one, ProblemSpec(name="one-two", members=[one, SPECS[0]])):
        read = read_record(ProblemSpec, json.loads(json.dumps(spec.to_dict())))
        assert read == spec
        assert repr(read) == repr(spec)
