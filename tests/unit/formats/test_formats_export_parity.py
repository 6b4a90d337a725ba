"""Answers of exports are those of the run."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import UserError
from t2t.formats.exporter import Trial
from t2t.formats.exporting import make_inputs
from t2t.formats.parity import (
    FLOAT32,
    INT8,
    PROMISES,
    ComparedOutput,
    Parity,
    ParityError,
    Promise,
    compare,
    compare_scores,
    difference_per_token,
    relative_difference,
)
from t2t.formats.saved_model.served import Served
from t2t.formats.saved_model.write import prove_signatures
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, letters_alone, moods, translator_of

OURS = [
    [ComparedOutput((5, 1), -0.5, "a", -0.5, 0.6), ComparedOutput((6, 1), -20.0, "b", -20.0, 2e-9)],
    [ComparedOutput((7, 1), -3.0, "c", -3.0, 0.05)],
]
EXACT = PROMISES[FLOAT32]


def changed(row, k, **fields):
    found = [list(answers) for answers in OURS]
    found[row][k] = dataclasses.replace(found[row][k], **fields)
    return found


def test_the_same_answers_pass():
    parity = compare(OURS, OURS).demand("ids", EXACT)
    assert parity.to_dict() == {
        "inputs": 2, "identical": 2, "largest_difference": 0.0,
        "promised": {"identical_share": 1.0, "score_difference": 0.001},
    }  # fmt: skip


def test_scores_within_tolerance_pass_absolute_below_one_and_relative_above():
    parity = compare(OURS, changed(0, 1, score=-20.01))
    assert parity.largest_difference == pytest.approx(0.0005)
    parity.demand("ids", EXACT)
    assert compare(OURS, changed(0, 0, score=-0.502)).largest_difference == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("row", "k", "fields", "about"),
    [
        (1, 0, {"ids": (8, 1)}, "ids: 1 2 0;"),
        (1, 0, {"text": "C"}, "2: 'C' (-3.0000) 'c'"),
        (0, 1, {"text": "B"}, "ids: 1 2"),
        (0, 0, {"score": -0.6}, "ids: 2 0.1; 0.001;"),
        (1, 0, {"log_prob": -3.1}, "0.03;"),
        (1, 0, {"probability": 0.06}, "0.01;"),
    ],
)
def test_what_differs_is_said(row, k, fields, about):
    with refused(*about.split(), by=ParityError) as raised:
        compare(OURS, changed(row, k, **fields)).demand("ids", EXACT)
    assert raised.value.exit_status == 1


@pytest.mark.parametrize("promise", [EXACT, PROMISES[INT8], None], ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("figure", ["score", "log_prob", "probability"])
def test_figures_that_are_not_finite_never_pass(figure, value, promise):
    for row, k in ((0, 0), (0, 1), (1, 0)):
        odd = changed(row, k, **{figure: value})
        for expected, found in ((OURS, odd), (odd, OURS), (odd, odd)):
            with refused(row + 1, "finite:", by=ParityError):
                compare(expected, found).demand("ids", promise)
            with pytest.raises(ParityError):
                compare(expected, found, difference_per_token).demand("ids", promise)
    also_other_ids = changed(1, 0, ids=(8, 1), **{figure: value})
    with pytest.raises(ParityError):
        compare(OURS, also_other_ids).demand("ids", Promise(0.1, 9.0))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_scores_of_given_outputs_that_are_not_finite_never_pass(value):
    for expected, found in (
        ([-1.0, -2.0, -3.0], [-1.0, value, -3.0]),
        ([value, -1.0], [-1.0, -1.0]),
        ([value], [value]),
    ):
        assert compare_scores(expected, found).largest_difference == math.inf
        with refused("inf", by=ParityError):
            compare_scores(expected, found).demand("score", EXACT)
    assert compare_scores([-1.0, -2.0], [-1.0, -2.2]).largest_difference == pytest.approx(0.1)
    with pytest.raises(ParityError):
        Parity(1, None, math.nan).demand("score", None)


def test_differences_are_relative_above_one():
    assert relative_difference(-0.5, -0.4) == pytest.approx(0.1)
    assert relative_difference(-10.0, -11.0) == pytest.approx(0.1)
    assert relative_difference(-1.0, math.nan) == relative_difference(math.inf, math.inf) == math.inf
    assert difference_per_token(
        ComparedOutput((5, 6, 7, 1), -2.0), ComparedOutput((5, 6, 7, 1), -3.0)
    ) == pytest.approx(0.25)


def test_a_missing_hypothesis_differs():
    assert compare(OURS, [OURS[0][:1], OURS[1]]).identical == 1
    assert compare(OURS, [OURS[0], []]).identical == 1


def test_what_a_format_does_not_give_is_not_compared():
    bare = [[ComparedOutput(answer.ids, answer.score) for answer in answers] for answers in OURS]
    compare(OURS, bare).demand("ids", EXACT)
    assert compare(OURS, [bare[0], [ComparedOutput((8, 1), -3.0)]]).identical == 1
    texts = [[ComparedOutput(None, answer.score, answer.text) for answer in answers] for answers in OURS]
    compare(OURS, texts).demand("texts", EXACT)
    assert compare(OURS, [texts[0], [ComparedOutput(None, -3.0, "d")]]).identical == 1


def test_rounded_weights_promise_a_share_of_the_outputs_and_a_bound_on_each_score():
    promise = Promise(0.5, 0.2)
    outputs = [[ComparedOutput((n, 1), -1.0)] for n in range(2, 7)]
    others = [[ComparedOutput((9, 1), -1.0)]] * 5
    compare(outputs, outputs[:3] + others[3:]).demand("greedy search", promise)
    with refused("greedy", "2", "5", "50%", by=ParityError):
        compare(outputs, outputs[:2] + others[2:]).demand("greedy search", promise)
    off = [[ComparedOutput((2, 1), -1.5)], *outputs[1:]]
    assert compare(outputs, off, difference_per_token).largest_difference == 0.25
    with refused("5", "0.2", by=ParityError):
        compare(outputs, off, difference_per_token).demand("greedy search", promise)


def test_where_outputs_are_given_their_scores_count_alone():
    parity = Parity(3, None, 0.02)
    assert str(parity) == "3 outputs are those of the run, scores differ by up to 0.02"
    parity.demand("probabilities", Promise(1.0, 0.05))
    with refused("probabilities:", "3", "0.001;", by=ParityError):
        parity.demand("probabilities", EXACT)


class More:
    """A signature, as it is loaded from a SavedModel, with an output that nothing compares."""

    structured_input_signature = ((), {"text": tf.TensorSpec([None], tf.string)})

    def __call__(self, text):
        return {"more": text}


@pytest.mark.parametrize(
    ("name", "by", "about"),
    [("more", ParityError, "more:"), ("serving_default", ParityError, "more:"), ("score", UserError, "score: 2")],
)
def test_what_a_signature_has_is_compared_or_it_is_refused(name, by, about):
    """Of the texts that are longer than their model reads, no probability can be compared."""
    translator, texts = translator_of(moods(), TransformerEncoder, decoding={"max_input_length": 3}), TEXTS[2:3]
    with refused(*about.split(), by=by):
        prove_signatures(translator, {name: More()}, Trial(translator.encode(texts), texts), 1, EXACT)


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


@pytest.mark.slow
def test_a_language_models_texts_ids_and_scores_are_compared():
    translator = translator_of(letters_alone(), decoding={"max_input_length": 7})
    signatures = signatures_of(translator, 2)
    found = proved(translator, signatures, 2)
    assert {name: parity.inputs for name, parity in found.items()} == {"serving_default": 6, "ids": 6, "score": 5}
    check_each_figure_is_compared(translator, signatures, 2)
    long = [" ".join("abcdefgh")]
    with refused("score:", "6"):
        proved(translator, signatures, 2, Trial(translator.encode(long), long))


@pytest.mark.slow
def test_a_decoder_with_a_recurrent_state_answers_as_the_run():
    translator = translator_of(letters(), decoder_layer="ssru")
    found = proved(translator, signatures_of(translator, 2), 2)
    assert found["serving_default"].identical == len(TEXTS)


@pytest.mark.slow
def test_classes_with_their_probabilities_are_compared():
    translator = translator_of(moods(), TransformerEncoder)
    signatures = signatures_of(translator, 3)
    assert proved(translator, signatures, 3).keys() == {"serving_default", "ids"}
    assert "probabilities" in signatures["serving_default"].structured_outputs
    check_each_figure_is_compared(translator, signatures, 3)


@pytest.mark.slow
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
