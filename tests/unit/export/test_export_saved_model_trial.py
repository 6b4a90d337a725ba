"""Every signature of a SavedModel is compared with the run: a wrong value in any of them is detected."""

import numpy as np
import pytest
import tensorflow as tf

from t2t.export.formats import FLOAT32, PROMISES
from t2t.export.job import Trial
from t2t.export.made_inputs import make_inputs
from t2t.export.parity import ParityError
from t2t.export.saved_model_trial import prove_signatures
from t2t.export.served import Served
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, letters_alone, moods, translator_of

pytestmark = pytest.mark.slow


class Signature:
    """A fake loaded signature, since saving takes a minute; one of its outputs may be changed."""

    def __init__(self, function, output="", change=None):
        self._function, self._output, self._change = function, output, change
        (spec,), _ = function.structured_input_signature
        self.structured_input_signature = ((), {spec.name: spec})
        self.structured_outputs = function.structured_outputs

    def __call__(self, **given):
        found = dict(self._function(**given))
        if self._output:
            values = found[self._output].numpy()
            values[-1] = self._change(values[-1])
            found[self._output] = tf.constant(values)
        return found

    def changed(self, output, change):
        """Returns a copy that changes the last row of an output."""
        return Signature(self._function, output, change)


def signatures_of(translator, n_best):
    return {name: Signature(function) for name, function in Served(translator, n_best).signatures().items()}


def slightly_off(value):
    return value * 1.01 + 0.01


def not_a_number(value):
    return value * np.nan


def proved(translator, signatures, n_best=1, trial=None):
    trial = trial or Trial(translator.encode(TEXTS), TEXTS)
    return prove_signatures(translator, signatures, trial, n_best, PROMISES[FLOAT32])


def check_each_figure_is_compared(translator, signatures, n_best, trial=None):
    """Changes every output of every signature in turn; each change must be detected."""
    for name, signature in signatures.items():
        for output, spec in signature.structured_outputs.items():
            changes = [slightly_off, not_a_number]
            if spec.dtype == tf.string:
                changes = [lambda value: value + b"!"]
            elif spec.dtype == tf.bool:
                changes = [np.logical_not]
            elif spec.dtype == tf.int32:
                changes = [lambda value: value - 1] if output == "lengths" else [lambda value: value + 1]
            for change in changes:
                altered = signatures | {name: signature.changed(output, change)}
                with refused(f"{name}:", by=ParityError):
                    proved(translator, altered, n_best, trial)


def test_a_language_models_texts_ids_and_scores_are_compared():
    translator = translator_of(letters_alone(), decoding={"max_input_length": 7})
    signatures = signatures_of(translator, 2)
    found = proved(translator, signatures, 2)
    assert {name: parity.inputs for name, parity in found.items()} == {"serving_default": 6, "ids": 6, "score": 5}
    check_each_figure_is_compared(translator, signatures, 2)
    long = [" ".join("abcdefgh")]
    with refused("score:", "6"):
        proved(translator, signatures, 2, Trial(translator.encode(long), long))


def test_a_decoder_with_a_recurrent_state_answers_as_the_run():
    translator = translator_of(letters(), decoder_layer="ssru")
    found = proved(translator, signatures_of(translator, 2), 2)
    assert found["serving_default"].identical == len(TEXTS)


def test_classes_with_their_probabilities_are_compared():
    translator = translator_of(moods(), TransformerEncoder)
    signatures = signatures_of(translator, 3)
    assert proved(translator, signatures, 3).keys() == {"serving_default", "ids"}
    assert "probabilities" in signatures["serving_default"].structured_outputs
    check_each_figure_is_compared(translator, signatures, 3)


@pytest.mark.parametrize(
    "spec",
    [FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1)), FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=400)],
    ids=["images", "audio"],
)
def test_inputs_that_are_no_text_are_compared(spec):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    spec = ProblemSpec(name="letters", features={"inputs": spec, "targets": targets})
    translator = translator_of(letters(), spec=spec)
    signatures, trial = signatures_of(translator, 1), Trial(make_inputs(translator, 3), None)
    assert proved(translator, signatures, trial=trial).keys() == {"serving_default", "ids"}
    check_each_figure_is_compared(translator, signatures, 1, trial)
