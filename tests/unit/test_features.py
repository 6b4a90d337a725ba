import dataclasses
import json

import pytest

from t2t.features import FeatureKind, FeatureSpec, ProblemSpec

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
        name="speech",
        features={"inputs": FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=16000), "targets": TEXT},
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_specs_come_back_from_json(spec):
    read = ProblemSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert read == spec
    assert all(isinstance(feature.kind, FeatureKind) for feature in read.features.values())
    assert all(isinstance(feature.shape, tuple) for feature in read.features.values())


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
        ProblemSpec.from_dict(data)
