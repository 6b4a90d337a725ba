"""What every model inherits, and models of several problems."""

import dataclasses

import numpy as np
import pytest

from t2t.hparams.transformer import TransformerHParams
from t2t.layers.mode import Costed
from t2t.models.classics.xception import Xception, XceptionHParams
from t2t.models.transformer import Transformer
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import batch, numpy, tiny_hparams, tiny_transformer, tokens_spec, weights_of
from tests.errors import refused
from tests.kinds import SPECS
from tests.unit.models.references import reference_of, tiny


# === Every model ===
class Silent(Transformer):
    """A model, for example of a plug-in, that declares only the layers of its targets."""

    vocabulary_layers = {"targets": ("target_embedding",)}


def test_a_model_that_does_not_say_which_weights_belong_to_a_vocabulary_is_named():
    model = Silent(tiny_hparams(), tokens_spec(shared=False))
    assert model.vocabulary_weights(["targets"]) == {"silent/target_embedding/table"}
    assert model.vocabulary_weights([]) == set()
    with refused("Silent", "inputs", "vocabulary_layers"):
        model.vocabulary_weights(["inputs", "targets"])


@pytest.mark.parametrize("targets", [(4, 6, 2), (1, 1)])
def test_costs_are_part_of_the_loss_and_not_of_the_logits(targets):
    """A cost per target is added to the mean loss, whatever the number of targets."""
    model, features = tiny_transformer(), batch(sources=(5,) * len(targets), targets=targets)
    hidden = model.body(features)
    loss, tokens = model.loss_sum(hidden, features["targets"])
    for cost, dearer in (
        (2.5, Costed(hidden, np.float32(2.5))), (0.25 * sum(targets), Costed(hidden, cost_per_target=np.float32(0.25))),
    ):  # fmt: skip
        found, as_many = model.loss_sum(dearer, features["targets"])
        assert float(found) == pytest.approx(float(loss) + cost)
        assert float(as_many) == float(tokens) == sum(targets)
        np.testing.assert_array_equal(numpy(model.logits(dearer)), numpy(model.logits(hidden)))


@pytest.mark.parametrize(
    ("model_class", "hparams", "inputs", "targets", "about"),
    [
        (Transformer, TransformerHParams(), (FeatureKind.TOKENS, None), FeatureKind.TOKENS, "0 1"),
        (Xception, XceptionHParams(), (FeatureKind.TOKENS, FeatureKind.IMAGE), FeatureKind.LABEL, "Xception"),
    ],
)
def test_problems_whose_inputs_need_other_layers_have_no_body_in_common(model_class, hparams, inputs, targets, about):
    kinds = [{"inputs": kind, "targets": targets} if kind else {"targets": targets} for kind in inputs]
    features = [{name: SPECS[kind] for name, kind in one.items()} for one in kinds]
    members = tuple(ProblemSpec(name=str(number), features=one) for number, one in enumerate(features))
    with refused("--problems=0-1:", *about.split()):
        model_class(hparams.replace(hidden_size=8), ProblemSpec(name="0-1", members=members))


# === The MultiModel: classes, the command of a problem, and several problems at once ===

SOURCES = (5, 1, 7)
CLASSES = ProblemSpec(
    name="classes",
    features={
        "inputs": FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=13),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=7),
    },
)


def test_classes_are_those_of_an_independent_model():
    model = tiny("multi_model", CLASSES)
    inputs = batch(sources=SOURCES, widths=(11, 8))["inputs"]
    reference, found = reference_of(model), numpy(model({"inputs": inputs}))
    expected = [reference.class_logits(row[row != 0].tolist()) for row in inputs]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_one_body_of_words_and_classes():
    """Each problem has separate modalities and a command id; classes are predicted as by a model of classes alone."""
    words = dataclasses.replace(tokens_spec(), name="words")
    both = tiny("multi_model", ProblemSpec(name="words-classes", members=(words, CLASSES)))
    writer, teller = both.for_problem("words"), both.for_problem("classes")
    assert (writer.autoregressive, teller.autoregressive) == (True, False)
    inputs = batch(sources=SOURCES)["inputs"]
    weights = weights_of(both)
    for view, name in ((writer, "words"), (teller, "classes")):
        own = {path.removeprefix(f"{name}/"): value for path, value in weights.items()}
        alone = tiny("multi_model", view.spec)
        for variable in alone.variables:
            variable.assign(own[variable.path.partition("/")[2]])
        features = batch(sources=SOURCES) if name == "words" else {"inputs": inputs}
        np.testing.assert_allclose(numpy(view(features)), numpy(alone(features)), rtol=1e-5, atol=1e-6)


# === Problems that share one embedding and one output layer ===
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


def test_other_features_are_refused():
    with refused("shared_modalities=True", "20", "21", "--shared_vocab_file"):
        Transformer(tiny_hparams().replace(shared_modalities=True), spec_of(a=20, b=21))
