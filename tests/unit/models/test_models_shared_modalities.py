"""A model of several problems that share one embedding and one output layer."""

import dataclasses

import numpy as np

from t2t.models.transformer import Transformer
from t2t.specs.features import ProblemSpec
from tests.builders import tiny_hparams, tokens_spec
from tests.errors import refused


def spec_of(**sizes):
    members = tuple(dataclasses.replace(tokens_spec(size, size), name=name) for name, size in sizes.items())
    return ProblemSpec(name="-".join(sizes), members=members)


def test_the_model_of_each_problem_is_the_same_model():
    hparams = tiny_hparams().replace(shared_modalities=True)
    model = Transformer(hparams, spec_of(a=20, b=20))
    alone = Transformer(tiny_hparams(), tokens_spec(20, 20))
    assert {v.path: v.shape for v in model.variables} == {v.path: v.shape for v in alone.variables}
    features = {"inputs": np.array([[5, 6, 1]], np.int32), "targets": np.array([[7, 1]], np.int32)}
    views = [model.for_problem(name) for name in "ab"]
    assert [view.spec.name for view in views] == ["a", "b"]
    for v, own in zip(alone.variables, model.variables, strict=True):
        v.assign(own)
    for view in views:
        np.testing.assert_array_equal(view(features), alone(features))
    assert model.vocabulary_weights({"a.inputs", "a.targets"}) == alone.vocabulary_weights({"inputs", "targets"})


def test_without_it_each_problem_has_its_own():
    model = Transformer(tiny_hparams(), spec_of(a=20, b=20))
    a, b = (model.for_problem(name) for name in "ab")
    assert a.target_embedding is not b.target_embedding


def test_other_features_are_refused():
    with refused("shared_modalities=True", "20", "21", "--shared_vocab_file"):
        Transformer(tiny_hparams().replace(shared_modalities=True), spec_of(a=20, b=21))
