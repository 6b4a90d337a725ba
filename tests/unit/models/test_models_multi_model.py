"""The MultiModel: classes, the command of a problem, and several problems at once."""

import dataclasses

import numpy as np

from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import batch, numpy, tokens_spec, weights_of
from tests.unit.models.references import reference_of, tiny

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


def test_answers_begin_from_the_command_of_the_problem():
    model = tiny("multi_model")
    features = batch(targets=(4, 4, 4))
    before = numpy(model(features))
    model.command.vector.assign(-np.asarray(model.command.vector))
    assert (np.abs(numpy(model(features)) - before) > 1e-3).any(axis=-1).all()


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
